"""Many commands at once, each in a sandbox of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client import _validate
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES
from sandboxd.client._sandbox import AsyncSandbox
from sandboxd.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from sandboxd.types import Command, ExecResult, Limits

_CONCURRENCY_LIMIT = 4_096
"""Sandboxes at once. Agents take as many calls on one connection."""


async def run_many_async(
    commands: Iterable[Command],
    *,
    concurrency: int = 64,
    template: str = "host",
    limits: Limits | None = None,
    timeout: float | None = None,
    cwd: str | bytes | os.PathLike[str] | None = None,
    env: Mapping[str, str | bytes] | None = None,
    user: str | None = None,
    stdin: bytes | bytearray | memoryview | str | None = None,
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
) -> list[ExecResult]:
    """Run each command to its end in a fresh sandbox.

    Commands that fail or meet a limit do not stop the others. An exception does: the commands that
    run are ended, every sandbox is closed, and it is raised. The same when the call is cancelled.

    Args:
        commands: A list, or anything that gives one by one; taken as places become free.
        concurrency: Sandboxes at one time, 1 to 4,096.
        template: What each sandbox is made from.
        limits: What each sandbox may use. `None`: the template's.
        timeout: Seconds for each command. `None`: no limit.
        cwd: Absolute working directory of each command. `None`: the user's home.
        env: Variables of each command.
        user: User of each command. `None`: root of the sandbox.
        stdin: The same bytes for each command. `None`: the null device.
        max_output_bytes: Bytes kept of each stream of each command.

    Returns:
        One result per command, in the order of the commands.

    Raises:
        InvalidArgumentError: If an argument is wrong.
        SandboxError: As `Sandbox` and its `run`.
    """
    import asyncio  # noqa: PLC0415  (not paid for by those who only import the package)

    places = _validate.count("concurrency", concurrency, 1, _CONCURRENCY_LIMIT)
    results: dict[int, ExecResult] = {}

    async def work(queue: Iterator[tuple[int, Command]]) -> None:
        for index, command in queue:
            async with AsyncSandbox(template, limits=limits) as sandbox:
                results[index] = await sandbox.run(
                    command,
                    timeout=timeout,
                    cwd=cwd,
                    env=env,
                    user=user,
                    stdin=stdin,
                    max_output_bytes=max_output_bytes,
                )

    queue = iter(enumerate(_validate.commands(commands)))
    workers = [asyncio.ensure_future(work(queue)) for _ in range(places)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[index] for index in range(len(results))]


def run_many(
    commands: Iterable[Command],
    *,
    concurrency: int = 64,
    template: str = "host",
    limits: Limits | None = None,
    timeout: float | None = None,
    cwd: str | bytes | os.PathLike[str] | None = None,
    env: Mapping[str, str | bytes] | None = None,
    user: str | None = None,
    stdin: bytes | bytearray | memoryview | str | None = None,
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
) -> list[ExecResult]:
    """Run each command to its end in a fresh sandbox.

    Commands that fail or meet a limit do not stop the others. An exception does: the commands that
    run are ended, every sandbox is closed, and it is raised. The same when the call is cancelled.

    Args:
        commands: A list, or anything that gives one by one; taken as places become free.
        concurrency: Sandboxes at one time, 1 to 4,096.
        template: What each sandbox is made from.
        limits: What each sandbox may use. `None`: the template's.
        timeout: Seconds for each command. `None`: no limit.
        cwd: Absolute working directory of each command. `None`: the user's home.
        env: Variables of each command.
        user: User of each command. `None`: root of the sandbox.
        stdin: The same bytes for each command. `None`: the null device.
        max_output_bytes: Bytes kept of each stream of each command.

    Returns:
        One result per command, in the order of the commands.

    Raises:
        InvalidArgumentError: If an argument is wrong.
        SandboxError: As `Sandbox` and its `run`.
    """
    import asyncio  # noqa: PLC0415  (not paid for by those who only import the package)

    if asyncio._get_running_loop() is not None:  # noqa: SLF001  (documented; the public one raises)
        raise InvalidArgumentError("run_many blocks: inside an event loop, use run_many_async")
    return asyncio.run(
        run_many_async(
            commands,
            concurrency=concurrency,
            template=template,
            limits=limits,
            timeout=timeout,
            cwd=cwd,
            env=env,
            user=user,
            stdin=stdin,
            max_output_bytes=max_output_bytes,
        )
    )
