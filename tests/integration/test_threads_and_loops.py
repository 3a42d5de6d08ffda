"""One SDK, many threads, many event loops, and processes that fork."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandboxd import AsyncSandbox, Sandbox, UsedAfterForkError
from tests.support.agent_probe import resources


def test_h15_twenty_event_loops_one_after_another() -> None:
    """A connection belongs to a loop and goes with it."""

    async def once(number: int) -> str:
        async with AsyncSandbox() as sandbox:
            return (await sandbox.run(f"echo {number}")).stdout

    assert [asyncio.run(once(n)) for n in range(20)] == [f"{n}\n" for n in range(20)]


def test_h15_thirty_two_threads_share_one_sandbox() -> None:
    with Sandbox() as sandbox, ThreadPoolExecutor(32) as pool:
        start = threading.Barrier(32)

        def work(number: int) -> list[str]:
            start.wait()
            return [sandbox.run(f"echo {number} {n}").stdout for n in range(10)]

        seen = list(pool.map(work, range(32)))

    assert seen == [[f"{number} {n}\n" for n in range(10)] for number in range(32)]


def test_h15_threads_with_event_loops_of_their_own_share_the_agent() -> None:
    async def once(number: int) -> str:
        async with AsyncSandbox() as sandbox:
            results = await asyncio.gather(*(sandbox.run(f"echo {number}") for _ in range(5)))
        return "".join(each.stdout for each in results)

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda number: asyncio.run(once(number)), range(8)))

    assert seen == [f"{number}\n" * 5 for number in range(8)]


def test_connections_of_ended_threads_and_loops_are_closed() -> None:
    """Two hundred loops must not mean two hundred descriptors."""

    async def once() -> None:
        async with AsyncSandbox() as sandbox:
            await sandbox.run("true")

    asyncio.run(once())
    before = resources(os.getpid())
    with Sandbox() as sandbox:
        for _ in range(50):
            asyncio.run(once())
            thread = threading.Thread(target=sandbox.run, args=("true",))
            thread.start()
            thread.join()

    assert resources(os.getpid()).is_flat_since(before)


def test_a_handle_is_refused_in_a_forked_child_and_works_on_in_the_parent() -> None:
    """Two processes on one connection would read each other's answers."""
    with Sandbox() as sandbox:
        sandbox.run("true")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                sandbox.run("true")
            except UsedAfterForkError:
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert sandbox.run("echo on").stdout == "on\n"


def test_a_forked_child_that_exits_takes_no_sandbox_with_it() -> None:
    """The agent belongs to the process that started it."""
    with Sandbox() as sandbox:
        sandbox.run("true")
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert sandbox.run("echo on").stdout == "on\n"


@pytest.mark.parametrize("use", ["run", "close"])
def test_l5_a_handle_may_be_used_and_closed_by_another_thread(use: str) -> None:
    sandbox = Sandbox()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(sandbox.run, "true").result()
        if use == "close":
            pool.submit(sandbox.close).result()
    sandbox.close()
    sandbox.close()
