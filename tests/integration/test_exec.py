"""Run and start against the real agent: bytes, ends, users, many at once."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import TYPE_CHECKING

import pytest

import sandboxd
from sandboxd import AsyncSandbox, ExecConflictError, Sandbox
from tests.support import reference
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.agent_probe import AgentProbe

SIZES = [0, 1, 4_095, 65_535, 65_536, 65_537, 1_048_577, 8_388_608]


@pytest.mark.parametrize("size", SIZES)
async def test_stdin_comes_back_byte_for_byte(sandbox: AsyncSandbox, size: int) -> None:
    data = random.Random(size).randbytes(size)

    result = await sandbox.run(["cat"], stdin=data, max_output_bytes=2 * size + 2)

    assert result.stdout_bytes == data
    assert result.stdout_total_bytes == size


@pytest.mark.parametrize("size", [0, 65_536, 8_388_608])
async def test_streamed_stdin_has_the_hash_that_the_machine_computes(
    sandbox: AsyncSandbox, size: int
) -> None:
    data = random.Random(size).randbytes(size)

    process = await sandbox.start(["sha256sum"], stdin=True)
    await process.write_stdin(data)
    await process.close_stdin()

    assert (await process.wait()).stdout[:64] == reference.sha256sum(data)


async def test_output_has_the_hash_that_the_machine_computes(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("seq 1 1000000")

    assert hashlib.sha256(result.stdout_bytes).hexdigest() == reference.seq_hash(1, 1_000_000)


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "exit 255", "kill -TERM $$", "kill -9 $$"])
async def test_a_shell_ends_as_a_plain_child_of_this_process_does(
    sandbox: AsyncSandbox, script: str
) -> None:
    status = reference.wait_status(["sh", "-c", script])

    result = await sandbox.run(script)

    assert result.exit_code == (status if status >= 0 else None)
    assert result.signal == (-status if status < 0 else None)


@pytest.mark.parametrize("argument", ["", " ", "$HOME", "a'b\"c", "*", "\n", "-n", "ü\U0001f600"])
async def test_an_argument_arrives_as_it_was_given(sandbox: AsyncSandbox, argument: str) -> None:
    result = await sandbox.run(["printf", "%s", argument])

    assert result.stdout == argument


async def test_arguments_that_are_no_text_arrive_as_bytes(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run([b"printf", b"%s", b"\xff\xfe"])

    assert result.stdout_bytes == b"\xff\xfe"


async def test_nothing_of_the_callers_environment_is_in_the_sandbox(
    sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLER_SECRET", "s3cret")

    seen = (await sandbox.run(["env"])).stdout

    assert "s3cret" not in seen
    assert "SANDBOXD" not in seen
    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert {"PATH", "HOME"} <= names


async def test_the_claims_directory_and_the_execs_own(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run("pwd")).stdout == "/root\n"
    assert (await sandbox.run("pwd", cwd="/usr/bin")).stdout == "/usr/bin\n"


@pytest.mark.needs("user.range")
async def test_another_user_of_the_sandbox_has_his_own_rights(sandbox: AsyncSandbox) -> None:
    who = await sandbox.run("id -u; id -g; echo $HOME; touch /root/x", user="nobody")

    assert who.stdout.startswith("65534\n65534\n")
    assert "Permission denied" in who.stderr
    assert (await sandbox.run("id -u; id -g", user="12:34")).stdout == "12\n34\n"
    assert (await sandbox.run("su nobody -s /bin/sh -c 'id -u'")).stdout == "65534\n"


async def test_t9_a_finished_exec_leaves_nothing_waiting_for_its_deadline(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    """A timer per exec would keep a busy agent's memory growing for an hour."""
    before = agent.resources()

    for _ in range(20):
        await sandbox.run("true", timeout=3600)

    await eventually(lambda: agent.resources().is_flat_since(before))


async def test_the_agent_is_flat_after_a_thousand_execs_and_fifty_sandboxes(
    agent: AgentProbe,
) -> None:
    """What is kept per exec and per sandbox is bounded and given back."""
    async with AsyncSandbox() as sandbox:
        await asyncio.gather(*(sandbox.run("echo x") for _ in range(50)))
    before = agent.resources()

    for _ in range(50):
        async with AsyncSandbox() as sandbox:
            await asyncio.gather(*(sandbox.run("echo x") for _ in range(20)))

    await eventually(lambda: agent.resources().is_flat_since(before))


async def test_h6_three_hundred_streams_at_once_meet_no_limit(sandbox: AsyncSandbox) -> None:
    async def one(number: int) -> tuple[int | None, bytes]:
        process = await sandbox.start(["cat"], stdin=True)
        await process.write_stdin(f"line {number}\n".encode())
        await process.close_stdin()
        result = await process.wait()
        return result.exit_code, result.stdout_bytes

    seen = await asyncio.gather(*(one(number) for number in range(300)))

    assert seen == [(0, f"line {number}\n".encode()) for number in range(300)]


async def test_one_exec_id_runs_once_however_often_it_is_asked_for(sandbox: AsyncSandbox) -> None:
    """A repeated call waits for the first one's result instead of running again."""
    command = "echo ran >> /tmp/runs; sleep 0.3; echo x"
    together = await asyncio.gather(*(sandbox.run(command, exec_id="once") for _ in range(5)))
    later = await sandbox.run(command, exec_id="once")

    assert [each.stdout for each in (*together, later)] == ["x\n"] * 6
    assert (await sandbox.run("cat /tmp/runs")).stdout == "ran\n"


async def test_one_exec_id_for_two_commands_is_a_conflict(sandbox: AsyncSandbox) -> None:
    await sandbox.run("true", exec_id="taken")

    with pytest.raises(ExecConflictError, match="taken"):
        await sandbox.run("touch /tmp/ran", exec_id="taken")
    assert (await sandbox.run("test -e /tmp/ran")).exit_code == 1


async def test_canceling_the_awaiting_task_ends_the_exec(sandbox: AsyncSandbox) -> None:
    """A canceled exec is ended, not abandoned."""
    task = asyncio.ensure_future(sandbox.run("sleep 300"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def idle() -> bool:
        return (await sandbox.info()).running_execs == 0

    for _ in range(100):
        if await idle():
            return
        await asyncio.sleep(0.02)
    pytest.fail("the exec still runs two seconds after its caller gave up")


async def test_signals_arrive_and_late_ones_do_no_harm(sandbox: AsyncSandbox) -> None:
    """A number that may belong to somebody else by now is never signalled."""
    process = await sandbox.start(
        "trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done"
    )
    output = process.__aiter__()
    assert (await output.__anext__()).data == b"ready\n"
    await process.send_signal(10)
    result = await process.wait()
    assert (result.exit_code, result.cause) == (5, "exited")

    await process.kill()
    assert (await sandbox.run("true")).ok


async def test_calls_on_a_handle_that_is_not_ready_take_effect_in_order() -> None:
    """Creating returns at once; what is asked meanwhile queues."""
    async with AsyncSandbox(env={"A": "1"}) as sandbox:
        await asyncio.gather(
            sandbox.files.write("/tmp/a", "one"),
            sandbox.run("cat /tmp/a > /tmp/b"),
        )
        assert (await sandbox.run("cat /tmp/b; echo $A")).stdout == "one1\n"


async def test_startup_is_measured_and_split_into_hidden_and_waited() -> None:
    async with AsyncSandbox() as sandbox:
        await asyncio.sleep(0.2)
        await sandbox.run("true")
        startup = sandbox.startup
        assert startup.total > 0
        assert startup.hidden + startup.waited == pytest.approx(startup.total, abs=0.05)


def test_run_many_returns_results_in_the_order_of_the_commands() -> None:
    results = sandboxd.run_many([f"echo {n}; exit {n % 3}" for n in range(40)], concurrency=8)

    assert [(each.stdout, each.exit_code) for each in results] == [
        (f"{n}\n", n % 3) for n in range(40)
    ]


async def test_run_many_keeps_the_commands_apart() -> None:
    """Each command has a sandbox of its own: nothing of one is seen by another."""
    commands = ["ls /tmp | wc -l; touch /tmp/mine"] * 10

    results = await sandboxd.run_many_async(commands, concurrency=3)

    assert [each.stdout.strip() for each in results] == ["0"] * 10


def test_the_sync_form_does_the_same() -> None:
    with Sandbox() as sandbox:
        assert sandbox.run("echo $((6*7))").stdout == "42\n"
        process = sandbox.start("cat; exit 3", stdin=True)
        process.write_stdin(b"hello")
        process.close_stdin()
        assert b"".join(chunk.data for chunk in process) == b"hello"
        assert process.wait().exit_code == 3
        sandbox.files.write("/tmp/f", "x")
        assert sandbox.files.read_text("/tmp/f") == "x"
        assert sandbox.info().state == "ready"
