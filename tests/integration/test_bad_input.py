"""Bad input is a named error that says what to change, raised before anything runs."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest

from sandboxd import (
    AsyncSandbox,
    ExecFailedError,
    ExecNotFoundError,
    InvalidArgumentError,
    Limits,
    Sandbox,
    SandboxClosedError,
    SandboxError,
    SandboxFileNotFoundError,
    UnknownTemplateError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.agent_probe import AgentProbe

TOO_LONG = 131_072
"""Bytes of an argument or environment entry, one more than execve(2) takes."""

MARK = "touch /tmp/ran"


@pytest.fixture
async def untouched(sandbox: AsyncSandbox) -> AsyncIterator[AsyncSandbox]:
    """A sandbox in which nothing may have run when the test is over."""
    yield sandbox
    ran = await sandbox.run("test -e /tmp/ran")
    assert ran.exit_code == 1, "the command of a refused call ran"
    assert (await sandbox.info()).running_execs == 0


def test_an_unknown_template_is_named(agent: AgentProbe) -> None:
    sandboxes = len(agent.inits())
    with (
        pytest.raises(UnknownTemplateError, match="no-such-template") as raised,
        Sandbox("no-such-template") as sandbox,
    ):
        sandbox.run("true")
    assert "host" in str(raised.value), "the message does not say which templates there are"
    assert len(agent.inits()) <= sandboxes


BAD_COMMANDS: dict[str, tuple[Any, str]] = {
    "an empty line": ("", "command"),
    "an empty list": ([], "command"),
    "an empty program name": ([""], "command"),
    "a NUL in a line": ("touch /tmp/ran; echo \0", "NUL"),
    "a NUL in an argument": (["touch", "/tmp/ran", "a\0b"], "NUL"),
    "an argument beyond the kernel's limit": (["touch", "/tmp/ran", "x" * TOO_LONG], "command[2]"),
    "an argument of ten megabytes": (["touch", "/tmp/ran", "x" * (10 << 20)], "command[2]"),
    "arguments that are too many": (["touch", "/tmp/ran", *["x" * 1000] * 10_000], "command"),
    "a number as a command": (7, "command"),
    "a number as an argument": (["touch", "/tmp/ran", 7], "command[2]"),
    "a dictionary as a command": ({"touch": "/tmp/ran"}, "command"),
}


@pytest.mark.parametrize("what", BAD_COMMANDS)
@pytest.mark.parametrize("call", ["run", "start"])
async def test_a_command_that_cannot_run_is_named(
    untouched: AsyncSandbox, call: str, what: str
) -> None:
    command, named = BAD_COMMANDS[what]
    with pytest.raises((InvalidArgumentError, TypeError)) as raised:
        await getattr(untouched, call)(command)
    assert named in str(raised.value)


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a negative timeout": ({"timeout": -1}, "timeout"),
    "a timeout of zero": ({"timeout": 0}, "timeout"),
    "a timeout that is no number": ({"timeout": math.nan}, "timeout"),
    "a timeout without end": ({"timeout": math.inf}, "timeout"),
    "a timeout in words": ({"timeout": "10"}, "timeout"),
    "a timeout beyond the clock": ({"timeout": 1e300}, "timeout"),
    "an environment entry beyond the limit": ({"env": {"ENTRY": "x" * TOO_LONG}}, "ENTRY"),
    "a NUL in an environment value": ({"env": {"ENTRY": "a\0b"}}, "ENTRY"),
    "a NUL in an environment name": ({"env": {"EN\0TRY": "a"}}, "env"),
    "an empty environment name": ({"env": {"": "a"}}, "env"),
    "an equals sign in an environment name": ({"env": {"EN=TRY": "a"}}, "EN=TRY"),
    "a NUL in the directory": ({"cwd": "/tmp\0"}, "cwd"),
    "a NUL in the user": ({"user": "root\0"}, "user"),
    "a negative cap": ({"max_output_bytes": -1}, "max_output_bytes"),
    "an exec id that is no name": ({"exec_id": "../x"}, "exec_id"),
    "an exec id that is too long": ({"exec_id": "x" * 65}, "exec_id"),
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
async def test_an_option_that_makes_no_sense_is_named(untouched: AsyncSandbox, what: str) -> None:
    options, named = BAD_OPTIONS[what]
    with pytest.raises((InvalidArgumentError, TypeError)) as raised:
        await untouched.run(MARK, **options)
    assert named in str(raised.value)


@pytest.mark.parametrize("signal", ["NOPE", "SIGNOPE", "", 0, 65, -9])
async def test_a_signal_that_does_not_exist_is_named_and_nothing_is_sent(
    sandbox: AsyncSandbox, signal: int | str
) -> None:
    process = await sandbox.start("sleep 60")
    with pytest.raises(InvalidArgumentError, match=r"signal.*" + re.escape(repr(signal))):
        await process.send_signal(signal)
    assert (await sandbox.info()).running_execs == 1
    assert await process.send_signal("SIGTERM")
    assert (await process.wait()).signal == 15


async def test_stdin_behind_its_end_is_refused_and_the_end_may_be_said_twice(
    sandbox: AsyncSandbox,
) -> None:
    process = await sandbox.start("cat", stdin=True)
    await process.write_stdin("x")
    await process.close_stdin()
    await process.close_stdin()
    with pytest.raises(InvalidArgumentError, match="closed"):
        await process.write_stdin("y")
    # Another handle of the same exec does not know of the end: the agent does.
    other = await sandbox.start("cat", stdin=True, exec_id=process.exec_id)
    with pytest.raises(InvalidArgumentError, match="ended after 1 bytes"):
        await other.write_stdin("xy")
    assert (await process.wait()).stdout == "x"


async def test_an_exec_id_whose_result_is_not_kept_any_more_is_known_and_never_run_again(
    sandbox: AsyncSandbox,
) -> None:
    """Not to be taken for one that never was: that it ran is what its caller must know."""
    first = await sandbox.run("echo ran >> /tmp/runs", exec_id="first")
    assert first.ok
    for _ in range(1_024):
        await sandbox.run("true")
    with pytest.raises(ExecNotFoundError, match="has run") as raised:
        await sandbox.run("echo ran >> /tmp/runs", exec_id="first")
    assert (raised.value.reason, raised.value.may_have_run) == ("forgotten", True)
    assert (await sandbox.run("cat /tmp/runs")).stdout == "ran\n"


async def test_a_timeout_beyond_any_life_is_either_refused_or_kept(sandbox: AsyncSandbox) -> None:
    """A year is more than any sandbox lives, and still a number like any other."""
    assert (await sandbox.run("true", timeout=365 * 24 * 3600)).ok


@pytest.mark.parametrize("cwd", ["/nope", "/etc/passwd"])
async def test_a_missing_directory_is_named(untouched: AsyncSandbox, cwd: str) -> None:
    with pytest.raises(ExecFailedError, match=cwd) as raised:
        await untouched.run(MARK, cwd=cwd)
    assert raised.value.step
    assert not raised.value.may_have_run


@pytest.mark.parametrize("user", ["nosuchuser", "99999999999", "0:nosuchgroup", "-1"])
async def test_an_unknown_user_is_named(untouched: AsyncSandbox, user: str) -> None:
    with pytest.raises((ExecFailedError, InvalidArgumentError), match=user):
        await untouched.run(MARK, user=user)


BAD_CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "a negative memory limit": ({"limits": Limits(memory=-1)}, "memory"),
    "a memory limit of zero": ({"limits": Limits(memory=0)}, "memory"),
    "no processes at all": ({"limits": Limits(pids=0)}, "pids"),
    "no processor at all": ({"limits": Limits(cpus=0)}, "cpus"),
    "processors that are no number": ({"limits": Limits(cpus=math.nan)}, "cpus"),
    "a disk of no size": ({"limits": Limits(disk=0)}, "disk"),
    "a lifetime of zero": ({"ttl": 0}, "ttl"),
    "a negative lifetime": ({"ttl": -5}, "ttl"),
    "an idle timeout that is no number": ({"idle_timeout": math.nan}, "idle_timeout"),
    "an id that is no name": ({"sandbox_id": "a/b"}, "sandbox_id"),
    "an empty id": ({"sandbox_id": ""}, "sandbox_id"),
    "an id that is too long": ({"sandbox_id": "x" * 65}, "sandbox_id"),
    "a NUL in the environment": ({"env": {"A": "\0"}}, "A"),
}


@pytest.mark.parametrize("what", BAD_CLAIMS)
async def test_a_claim_that_makes_no_sense_is_named(what: str, agent: AgentProbe) -> None:
    options, named = BAD_CLAIMS[what]
    sandboxes = len(agent.inits())
    with pytest.raises((InvalidArgumentError, TypeError)) as raised:
        async with AsyncSandbox(**options) as sandbox:
            await sandbox.ready()
    assert named in str(raised.value)
    assert len(agent.inits()) <= sandboxes


async def test_one_id_for_two_different_claims_is_refused() -> None:
    async with AsyncSandbox(sandbox_id="mine", ttl=60) as first:
        await first.ready()
        second = AsyncSandbox(sandbox_id="mine", ttl=60, env={"A": "other"})
        with pytest.raises(SandboxError, match="mine"):
            await second.ready()
        # Closing the handle that was refused must not end the sandbox of the other one.
        await second.close()
        assert (await first.run("echo on")).stdout == "on\n"


CLOSED_CALLS: dict[str, Callable[[AsyncSandbox], Awaitable[object]]] = {
    "ready": lambda sandbox: sandbox.ready(),
    "run": lambda sandbox: sandbox.run("true"),
    "start": lambda sandbox: sandbox.start("true"),
    "read": lambda sandbox: sandbox.files.read("/etc/passwd"),
    "write": lambda sandbox: sandbox.files.write("/tmp/f", "x"),
    "list": lambda sandbox: sandbox.files.list("/"),
    "stat": lambda sandbox: sandbox.files.stat("/"),
    "remove": lambda sandbox: sandbox.files.remove("/tmp"),
    "mkdir": lambda sandbox: sandbox.files.mkdir("/tmp/d"),
}


@pytest.mark.parametrize("name", CLOSED_CALLS)
@pytest.mark.parametrize("used", [False, True], ids=["never-used", "used"])
async def test_use_after_close_is_named(name: str, used: bool) -> None:  # noqa: FBT001  (parameter)
    sandbox = AsyncSandbox()
    if used:
        await sandbox.run("true")
    await sandbox.close()

    with pytest.raises(SandboxClosedError, match="close"):
        await CLOSED_CALLS[name](sandbox)


@pytest.mark.parametrize("path", ["", "/tmp/a\0b", "x" * 5000, "/tmp/" + "x" * 256])
async def test_a_path_that_cannot_be_is_named(sandbox: AsyncSandbox, path: str) -> None:
    for call in (
        sandbox.files.read(path),
        sandbox.files.write(path, "x"),
        sandbox.files.stat(path),
    ):
        with pytest.raises(SandboxError):
            await call


@pytest.mark.parametrize("path", ["../../../../etc/shadow", "/../../etc/shadow", "/etc/shadow"])
async def test_a_path_with_dots_stays_in_the_sandbox_and_finds_nothing(
    sandbox: AsyncSandbox, path: str
) -> None:
    with pytest.raises(SandboxFileNotFoundError, match="shadow"):
        await sandbox.files.read(path)


async def test_a_path_through_a_symlink_out_of_the_sandbox_finds_nothing(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("ln -s ../../../../etc/shadow /tmp/link; ln -s /proc/1/root /tmp/root")

    for path in ("/tmp/link", "/tmp/root/etc/shadow"):
        with pytest.raises(SandboxError):
            await sandbox.files.read(path)
