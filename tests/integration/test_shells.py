"""A shell that several tasks or threads get hold of, and one that is closed while it works."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandboxd import AsyncSandbox, InvalidArgumentError, Sandbox, ShellResult


async def test_of_two_first_commands_at_once_a_shell_runs_one_and_refuses_the_other(
    sandbox: AsyncSandbox,
) -> None:
    async with sandbox.shell() as shell:
        seen = await asyncio.wait_for(
            asyncio.gather(
                *(shell.run(f"echo {n}; sleep 0.2") for n in range(3)), return_exceptions=True
            ),
            10,
        )

        ran = [each for each in seen if isinstance(each, ShellResult)]
        refused = [each for each in seen if isinstance(each, InvalidArgumentError)]
        assert (len(ran), len(refused)) == (1, 2)
        assert ran[0].output in {"0\n", "1\n", "2\n"}
        assert (await shell.run("echo after", timeout=5)).output == "after\n"
    shells = await sandbox.run(["sh", "-c", "cat /proc/[0-9]*/comm | grep -c '^bash$'"])
    assert shells.stdout == "0\n"


def test_of_threads_that_run_a_first_command_at_once_one_does_and_the_rest_are_refused() -> None:
    with Sandbox() as sandbox, ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            with sandbox.shell() as shell:
                together = threading.Barrier(4)

                def work(
                    shell: object = shell, together: threading.Barrier = together
                ) -> str | None:
                    together.wait()
                    try:
                        return shell.run("sleep 0.2; echo ran", timeout=5).output  # type: ignore[attr-defined,no-any-return]
                    except InvalidArgumentError:
                        return None

                seen = [each.result(15) for each in [pool.submit(work) for _ in range(4)]]
                assert sorted(map(str, seen)) == ["None", "None", "None", "ran\n"]


def test_a_command_whose_shell_is_closed_has_a_result_that_says_canceled() -> None:
    with Sandbox() as sandbox, ThreadPoolExecutor(1) as pool:
        shell = sandbox.shell()
        shell.run("true")
        running = pool.submit(shell.run, "echo begun; sleep 60")
        time.sleep(0.3)
        shell.close()

        result = running.result(10)

        assert (result.cause, result.ended, result.output) == ("canceled", True, "begun\n")


def test_a_shell_that_is_closed_while_it_begins_is_gone_and_its_command_over() -> None:
    with Sandbox() as sandbox, ThreadPoolExecutor(1) as pool:
        sandbox.ready()
        for step in range(24):
            shell = sandbox.shell()
            running = pool.submit(shell.run, "sleep 60")
            time.sleep(step * 0.0005)
            shell.close()
            try:
                assert running.result(10).cause == "canceled"
            except InvalidArgumentError as error:
                assert "closed" in str(error)  # noqa: PT017  (either is right)

        left = sandbox.run(["sh", "-c", "cat /proc/[0-9]*/comm | grep -c -e bash -e sleep"])
        assert left.stdout == "0\n"


async def test_a_failure_that_was_told_is_told_to_no_trap_and_no_option_again(
    sandbox: AsyncSandbox,
) -> None:
    async with sandbox.shell() as shell:
        await shell.run("trap 'echo trapped' ERR")
        assert (await shell.run("false")).exit_code == 1
        assert (await shell.run("echo $?")).output == "1\n"
        await shell.run("false")
        assert (await shell.run("echo quiet")).output == "quiet\n"


async def test_a_shell_closed_by_another_task_ends_what_reads_from_it(
    sandbox: AsyncSandbox,
) -> None:
    shell = sandbox.shell(pty=True)
    await shell.start("echo begun; sleep 60")
    await shell.read_until("begun", timeout=5)
    waiting = asyncio.ensure_future(shell.wait())
    await asyncio.sleep(0.1)
    await shell.close()

    result = await asyncio.wait_for(waiting, 10)

    assert (result.cause, result.ended) == ("canceled", True)


async def test_a_command_has_one_reader_at_a_time_and_a_second_one_is_refused(
    sandbox: AsyncSandbox,
) -> None:
    async with sandbox.shell() as shell:
        await shell.start("sleep 0.3; echo hi", timeout=5)
        waiting = asyncio.ensure_future(shell.wait())
        await asyncio.sleep(0)

        with pytest.raises(InvalidArgumentError, match="waits"):
            await shell.read_until("hi")
        with pytest.raises(InvalidArgumentError, match="waits"):
            await shell.wait()

        result = await asyncio.wait_for(waiting, 10)
        assert (result.cause, result.exit_code, result.output) == ("exited", 0, "hi\n")
        assert (await shell.run("echo next", timeout=5)).output == "next\n"
