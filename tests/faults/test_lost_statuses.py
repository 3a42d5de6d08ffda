"""The exit status is lost on its way, at every hop: an error each time, and never a number."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, SandboxLostError
from sandboxd.testing.setup import PidNamespace
from tests.support.faulty_agent import Client
from tests.support.processes import descendants
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from sandboxd.testing import LocalSetup
    from tests.support.faulty_agent import FaultyAgent

LOST = 100


@pytest.mark.timeout(300)
async def test_x1_a_status_that_init_cannot_report_is_a_lost_sandbox_each_time(
    setup: LocalSetup,
) -> None:
    """Init stands still while the program exits with 0, and dies before it has said so."""

    async def lose() -> SandboxLostError:
        async with AsyncSandbox() as sandbox:
            outside = await setup.outside(sandbox)
            assert isinstance(outside, PidNamespace)
            init = outside.init()
            assert init is not None
            program = "until [ -e /tmp/go ]; do sleep 0.02; done; exit 0"
            waiting = asyncio.ensure_future(sandbox.run(program))
            await eventually(outside.left)
            os.kill(init, signal.SIGSTOP)
            # The agent writes it, without init.
            await sandbox.files.write("/tmp/go", b"")
            await eventually(lambda: not outside.left(), within=30)
            assert not waiting.done(), "the status came although init stands still"
            os.kill(init, signal.SIGKILL)
            with pytest.raises(SandboxLostError) as raised:
                await waiting
            return raised.value

    for _ in range(LOST // 10):
        errors = await asyncio.gather(*(lose() for _ in range(10)))
        assert all(error.may_have_run and error.reason for error in errors), errors


BODY = f"""
async def one(number):
    try:
        command = f"echo {{number}} >> /tmp/f; sleep 0.5; exit 0"
        result = await sandbox.run(command, exec_id=f"x{{number}}")
        return "result", result.exit_code
    except sandboxd.SandboxError as error:
        return type(error).__name__, error.may_have_run

async def all():
    return sorted(set(await asyncio.gather(*(one(n) for n in range({LOST})))))

pause()
waiting = asyncio.ensure_future(all())
await asyncio.sleep(0.3)
tell(sent=True)
tell(outcomes=await waiting)
"""


@pytest.mark.timeout(120)
def test_x1_a_status_that_the_agent_cannot_deliver_is_a_lost_connection_each_time(
    faulty: FaultyAgent,
) -> None:
    """No connection lives for a byte behind the greeting; the results are there afterwards."""
    body = f"""{BODY}
pause()
again = await all()
lines = (await sandbox.run("sort -n /tmp/f | uniq -c | wc -l; wc -l < /tmp/f")).stdout.split()
tell(again=again, lines=lines)
"""
    with Client(faulty, body) as client:
        client.paused()
        client.go_on()
        assert client.told() == {"sent": True}
        faulty.proxy.default({"cut_to_client": 20})
        faulty.proxy.cut()
        assert client.told() == {"outcomes": [["ConnectionLostError", True]]}
        faulty.proxy.default({})
        client.paused()
        client.go_on()
        # Each has run once, and its own status is still known.
        assert client.told() == {"again": [["result", 0]], "lines": [str(LOST)] * 2}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("who", ["agent", "launcher"])
def test_x1_a_status_whose_keeper_is_killed_is_an_error_each_time(
    faulty: FaultyAgent, who: str
) -> None:
    body = f"""{BODY}
import os
os._exit(0)
"""
    with Client(faulty, body) as client:
        client.paused()
        client.go_on()
        assert client.told() == {"sent": True}
        if who == "agent":
            faulty.process.kill()
            faulty.process.wait()
            # A client that did not start the agent cannot know more than that.
            expected = [["ConnectionLostError", True]]
        else:
            pid = faulty.process.pid
            (launcher,) = [each for each in descendants(pid) if each.parent == pid]
            os.kill(launcher.pid, signal.SIGKILL)
            expected = [["SandboxLostError", True]]
        assert client.told() == {"outcomes": expected}
