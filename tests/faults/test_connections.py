"""The connection is cut or falls silent: calls are repaired by attaching, never by running again.

The agent is a process of its own, and the client another one that reaches it through a proxy.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import reference
from tests.support.faulty_agent import KEEPALIVE, Client

if TYPE_CHECKING:
    from tests.support.fault_proxy import Plan
    from tests.support.faulty_agent import FaultyAgent


GREETING = 20
"""Bytes that an agent says before its first reply, or one less: its version and its pid."""


def test_h2_a_reset_connection_is_repaired_and_nothing_runs_twice(faulty: FaultyAgent) -> None:
    body = """
pause()
result = await sandbox.run("echo ran >> /tmp/runs; yes | head -c 1048576")
pause()
runs = (await sandbox.run("cat /tmp/runs")).stdout
tell(exit_code=result.exit_code, total=len(result.stdout_bytes), runs=runs)
"""
    with Client(faulty, body) as client:
        client.paused()
        # In the middle of the reply.
        faulty.proxy.plans({"cut_to_client": 4096})
        cuts = faulty.proxy.cut().cuts
        client.go_on()
        client.paused()
        assert faulty.proxy.counts().cuts - cuts >= 2
        client.go_on()

        assert client.told() == {"exit_code": 0, "total": 1_048_576, "runs": "ran\n"}


R1_CUTS: dict[str, Plan] = {
    # A connection lives for the greeting and no reply.
    "before the reply": {"cut_to_client": GREETING},
    "in the reply": {"cut_to_client": GREETING + 5},
    # The agent hears of the call once more when its answer is long known.
    "and the call arrives again later": {"late_after": 40, "late_by": 0.05},
    # The reply is lost on the way, and nobody says so.
    "after a silence": {"mute_to_client": GREETING, "cut_age": 0.06},
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cut", R1_CUTS)
def test_r1_a_reply_that_is_lost_a_hundred_times_means_one_run_each_time(
    faulty: FaultyAgent, cut: str
) -> None:
    body = """
pause()
codes = []
for n in range(100):
    # The next connection fails, and this one is gone.
    pause()
    codes.append((await sandbox.run(f"echo {n} >> /tmp/f; exit {n}")).exit_code)
pause()
tell(codes=codes, lines=(await sandbox.run("cat /tmp/f")).stdout.split())
"""
    with Client(faulty, body) as client:
        client.paused()
        client.go_on()
        for _ in range(100):
            client.paused()
            faulty.proxy.plans(R1_CUTS[cut])
            faulty.proxy.cut()
            client.go_on()
        client.paused()
        counts = faulty.proxy.counts()
        client.go_on()

        numbers = list(range(100))
        assert client.told() == {"codes": numbers, "lines": [str(n) for n in numbers]}
        # Each call met a connection that was taken from it, beside the one cut before it.
        assert counts.cuts >= 190
        assert counts.connections >= 190


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cut", R1_CUTS)
def test_r2_a_start_whose_answer_is_lost_a_hundred_times_means_one_process_each_time(
    faulty: FaultyAgent, cut: str
) -> None:
    body = """
pause()
processes = []
for n in range(100):
    pause()
    process = await sandbox.start(f"echo {n} >> /tmp/f; echo up; sleep 60")
    processes.append(process)
pause()
said = [(await process.__anext__()).data.decode() for process in processes]
# They run beside each other: one may write before another that was started earlier.
lines = sorted((await sandbox.run("cat /tmp/f")).stdout.split(), key=int)
count = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c sleep"
for _ in range(100):
    sleeping = (await sandbox.run(count)).stdout.strip()
    if sleeping == "100":
        break
    await asyncio.sleep(0.05)
for process in processes:
    await process.kill()
causes = [(await process.wait()).cause for process in processes]
tell(lines=lines, sleeping=int(sleeping), said=sorted(set(said)), causes=sorted(set(causes)))
"""
    with Client(faulty, body) as client:
        client.paused()
        client.go_on()
        for _ in range(100):
            client.paused()
            faulty.proxy.plans(R1_CUTS[cut])
            faulty.proxy.cut()
            client.go_on()
        client.paused()
        counts = faulty.proxy.counts()
        client.go_on()

        assert client.told() == {
            "lines": [str(n) for n in range(100)],
            "sleeping": 100,
            "said": ["up\n"],
            "causes": ["canceled"],
        }
        assert counts.cuts >= 190


@pytest.mark.timeout(120)
def test_r4_a_stream_that_is_cut_ten_times_a_second_arrives_whole_and_once(
    faulty: FaultyAgent,
) -> None:
    body = """
pause()
process = await sandbox.start("echo ran >> /tmp/runs; seq 1 100000; sleep 5; echo end >&2; exit 5")
seen = {"stdout": b"", "stderr": b""}
async for chunk in process:
    seen[chunk.stream] += chunk.data
code = (await process.wait()).exit_code
pause()
digest = hashlib.sha256(seen["stdout"]).hexdigest()
runs = (await sandbox.run("cat /tmp/runs")).stdout
tell(code=code, total=len(seen["stdout"]), hash=digest, stderr=seen["stderr"].decode(), runs=runs)
"""
    with Client(faulty, body) as client:
        client.paused()
        # The first ones in the midst of the output, the others by the clock.
        in_output: list[Plan] = [{"cut_to_client": GREETING + 60_000 * n} for n in range(5)]
        faulty.proxy.plans(*in_output)
        faulty.proxy.default({"cut_age": 0.1})
        faulty.proxy.cut()
        client.go_on()
        client.paused()
        counts = faulty.proxy.default({})
        client.go_on()

        assert client.told() == {
            "code": 5,
            "total": 588_895,
            "hash": reference.seq_hash(1, 100_000),
            "stderr": "end\n",
            "runs": "ran\n",
        }
        assert counts.cuts >= 30


@pytest.mark.timeout(120)
def test_stdin_over_a_connection_that_is_cut_arrives_once(faulty: FaultyAgent) -> None:
    body = """
pause()
process = await sandbox.start("sha256sum", stdin=True)
for n in range(60):
    await process.write_stdin(bytes([n]) * 20_000)
    await asyncio.sleep(0.02)
await process.close_stdin()
result = await process.wait()
tell(hash=result.stdout[:64])
pause()
"""
    with Client(faulty, body) as client:
        client.paused()
        faulty.proxy.default({"cut_age": 0.1})
        faulty.proxy.cut()
        client.go_on()
        right = hashlib.sha256(b"".join(bytes([n]) * 20_000 for n in range(60))).hexdigest()
        assert client.told() == {"hash": right}
        faulty.proxy.default({})
        client.told()
        client.go_on()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("silence", ["the network's", "the agent's"])
@pytest.mark.parametrize("timeout", ["timeout=2", ""])
def test_t15_an_agent_that_falls_silent_is_a_typed_error_after_a_bounded_time(
    faulty: FaultyAgent, timeout: str, silence: str
) -> None:
    """Whether packets are dropped or its process stands still."""
    body = f"""
pause()
began = time.monotonic()
try:
    await sandbox.run("true", {timeout})
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, maybe=error.may_have_run, took=time.monotonic() - began)
pause()
"""
    with Client(faulty, body) as client:
        client.paused()
        if silence == "the network's":
            faulty.proxy.stall(on=True)
        else:
            faulty.pause(on=True)
        client.go_on()
        told = client.told()
        faulty.proxy.stall(on=False)
        faulty.pause(on=False)

        assert told["error"] == "ConnectionLostError"
        assert told["maybe"] is True
        # Deadline, grace and three keepalives; without a deadline it is no later.
        assert 3 * KEEPALIVE <= told["took"] <= 2 + 0.5 + 3 * KEEPALIVE
        client.told()
        client.go_on()


def test_an_agent_that_is_cut_off_for_a_while_is_waited_for(faulty: FaultyAgent) -> None:
    """A pause is no loss: what was asked in it is answered when it is over."""
    body = """
pause()
tell(out=(await sandbox.run("echo on")).stdout)
"""
    with Client(faulty, body) as client:
        client.paused()
        faulty.proxy.stall(on=True)
        client.go_on()
        timer = threading.Timer(1.0, lambda: faulty.proxy.stall(on=False))
        timer.start()
        began = time.monotonic()
        assert client.told() == {"out": "on\n"}
        assert time.monotonic() - began >= 0.9
        timer.join()


def test_h1_an_agent_that_is_killed_for_good_ends_a_waiting_call_after_a_bounded_time(
    faulty: FaultyAgent,
) -> None:
    body = """
pause()
began = time.monotonic()
try:
    await sandbox.run("sleep 300")
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, maybe=error.may_have_run, took=time.monotonic() - began)
# Nothing is left to close.
import os
os._exit(0)
"""
    with Client(faulty, body) as client:
        client.paused()
        client.go_on()
        time.sleep(0.3)
        faulty.process.kill()
        faulty.process.wait()
        told = client.told()

        # It is not this client's child: that its socket refuses is all that can be known.
        assert (told["error"], told["maybe"]) == ("ConnectionLostError", True)
        assert told["took"] <= 0.3 + 3 * KEEPALIVE + 0.5


def test_r8_a_refused_connection_is_waited_for_and_then_means_that_nothing_ran(
    faulty: FaultyAgent,
) -> None:
    """It is never taken for the loss of the sandbox, which lives on."""
    body = """
pause()
began = time.monotonic()
out = (await sandbox.run("echo waited; echo ran >> /tmp/f")).stdout
tell(out=out, took=time.monotonic() - began)
pause()
# The end of the connection is seen: what was said on it before would be lost, not refused.
await asyncio.sleep(0.2)
try:
    await sandbox.run("echo ran >> /tmp/f")
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, maybe=error.may_have_run)
pause()
tell(lines=(await sandbox.run("cat /tmp/f")).stdout)
"""
    with Client(faulty, body) as client:
        client.paused()
        faulty.proxy.refuse(on=True)
        faulty.proxy.cut()
        client.go_on()
        time.sleep(1.0)
        faulty.proxy.refuse(on=False)
        told = client.told()
        assert told["out"] == "waited\n"
        assert told["took"] >= 0.5

        client.paused()
        faulty.proxy.refuse(on=True)
        faulty.proxy.cut()
        client.go_on()
        assert client.told() == {"error": "AgentUnreachableError", "maybe": False}
        client.paused()
        faulty.proxy.refuse(on=False)
        client.go_on()
        assert client.told() == {"lines": "ran\n"}


def test_r8_calls_of_a_handle_wait_for_an_agent_that_does_not_listen_yet(
    faulty: FaultyAgent,
) -> None:
    body = """
pause()
async with AsyncSandbox() as early:
    try:
        early.startup
    except sandboxd.SandboxError:
        tell(bound=False)
    tell(out=(await early.run("echo bound")).stdout)
"""
    with Client(faulty, body) as client:
        client.paused()
        faulty.proxy.refuse(on=True)
        faulty.proxy.cut()
        client.go_on()
        assert client.told() == {"bound": False}
        time.sleep(0.5)
        faulty.proxy.refuse(on=False)
        assert client.told() == {"out": "bound\n"}


def test_x1_a_call_that_was_given_up_before_the_greeting_does_not_happen_later(
    faulty: FaultyAgent,
) -> None:
    """An agent that was held up finds what its callers said meanwhile: it is too late for it."""
    body = """
pause()
# The end of the connection is seen.
await asyncio.sleep(0.2)
try:
    await sandbox.run("echo ran >> /tmp/f")
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, maybe=error.may_have_run)
pause()
tell(lines=(await sandbox.run("cat /tmp/f; echo -")).stdout)
"""
    with Client(faulty, body) as client:
        client.paused()
        faulty.pause(on=True)
        faulty.proxy.cut()
        client.go_on()
        assert client.told() == {"error": "AgentUnreachableError", "maybe": False}
        client.paused()
        faulty.pause(on=False)
        # Time for what it should not do.
        time.sleep(0.5)
        client.go_on()
        assert client.told() == {"lines": "-\n"}
