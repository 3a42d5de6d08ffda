"""The options of `sandboxd run`, and what its exit code says."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from typing import Annotated, Any

import typer

from sandboxd import Cause, ExecFailedError, ExecResult, Limits, SandboxError
from sandboxd.cli import console
from sandboxd.cli.run import streams
from sandboxd.cli.run.reason import reason
from sandboxd.cli.run.relay import Order, SignaledError, relay
from sandboxd.cli.sizes import parse_size

# The words of shells and of `timeout`, so that scripts need not learn new ones.
_TIMED_OUT = 124
_CANNOT_START = 126
_NOT_FOUND = 127
_SIGNALED = 128
_KILLED = 137


def run(
    *,
    command: Annotated[list[str], typer.Argument(metavar="[--] CMD [ARG]...")],
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds until every process is ended. None by default."),
    ] = None,
    idle_output_timeout: Annotated[
        float | None, typer.Option(help="Seconds without any output until the same.")
    ] = None,
    cpu_time: Annotated[
        float | None,
        typer.Option(help="Seconds of CPU of all processes together until the same."),
    ] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="For example 512M.")] = None,
    cpus: Annotated[
        float | None, typer.Option(help="Cores, from 0.01; 0.5 is half of one.")
    ] = None,
    pids: Annotated[int | None, typer.Option(help="Processes and threads at once.")] = None,
    disk: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="All that may be written; it counts as memory, too."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Output that ends the program.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME[=VALUE]", help="Set, or pass on, a variable. Repeatable."
        ),
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="Working directory in the sandbox.")] = None,
    user: Annotated[str | None, typer.Option(help="NAME, UID or UID:GID in the sandbox.")] = None,
    template: Annotated[str, typer.Option(help="What to start.")] = "host",
    stdin: Annotated[
        bool,
        typer.Option("--stdin", "-i", help="Pass standard input on. Else the program has none."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with output and cause instead.")
    ] = False,
) -> None:
    """Run a program in a new sandbox, and show its output as it comes.

    The sandbox has this machine's /usr, nothing else of it, and no network. It is gone, with
    everything in it, when the program ends. The program is executed as given, without a shell.

    Exit code: that of the program; 128 and the number of the signal that killed it; 124 if it ran
    into --timeout or --idle-output-timeout; 137 if another limit ended it; 126 or 127 if it could
    not be started; 125 if sandboxd failed, or its own output could not be written. A limit is also
    named on stderr.

    \b
    sandboxd run -- python3 -c 'print(6 * 7)'
    sandboxd run --timeout 10 --memory 512M -- sh -c 'make test 2>&1 | tail'
    git diff | sandboxd run -i -- wc -l
    sandboxd run --json -- id | jq .cause
    """  # noqa: D301  (click: do not wrap)
    order = Order(
        argv=command,
        limits={
            "timeout": timeout,
            "idle_output_timeout": idle_output_timeout,
            "cpu_time": cpu_time,
        },
        stdin=stdin,
        sandbox={
            "template": template,
            "limits": Limits(
                memory=_size("--memory", memory),
                pids=pids,
                cpus=cpus,
                disk=_size("--disk", disk),
                output=_size("--output", output),
            ),
            "env": _environment(env or []),
            "cwd": cwd,
            "user": user,
        },
    )
    try:
        result = asyncio.run(relay(order, show=not as_json))
        if as_json:
            text = json.dumps(_as_json(result))
            shown = streams.rendered(lambda: console.OUT.print_json(text))
            streams.write("stdout", shown)
    except SignaledError as error:
        raise typer.Exit(_SIGNALED + error.number) from None
    except BrokenPipeError:
        raise typer.Exit(_SIGNALED + signal.SIGPIPE) from None
    except (SandboxError, streams.UnwritableError) as error:
        message = str(error)
        streams.note(lambda: console.fail(message))
        raise typer.Exit(_failure_code(error)) from None
    if not as_json and (why := reason(result)) is not None:
        streams.note(lambda: console.warn(why))
    raise typer.Exit(_exit_code(result))


def _size(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


def _environment(entries: list[str]) -> dict[str, str]:
    """`NAME=VALUE` as given; `NAME` alone with the value it has here, if it has one."""
    pairs = (entry.partition("=") for entry in entries)
    given = {name: value if equals else os.environ.get(name) for name, equals, value in pairs}
    return {name: value for name, value in given.items() if value is not None}


def _failure_code(error: Exception) -> int:
    if not isinstance(error, ExecFailedError):
        return console.INFRASTRUCTURE
    # The error does not carry the system's number, only its words.
    not_found = error.step == "program" and os.strerror(errno.ENOENT) in str(error)
    return _NOT_FOUND if not_found else _CANNOT_START


def _exit_code(result: ExecResult) -> int:
    if result.exit_code is not None:
        return result.exit_code
    if result.cause in {Cause.TIMEOUT, Cause.IDLE_OUTPUT_TIMEOUT}:
        return _TIMED_OUT
    if result.cause is Cause.SIGNALED and result.signal is not None:
        return _SIGNALED + result.signal
    return _KILLED


def _as_json(result: ExecResult) -> dict[str, Any]:
    return {
        "cause": result.cause.value,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "limit": result.limit,
        "limit_peak": result.limit_peak,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "stdout_total_bytes": result.stdout_total_bytes,
        "stderr_total_bytes": result.stderr_total_bytes,
        "truncated": result.truncated,
        "duration": result.duration,
        "cpu_time": result.cpu_time,
        "peak_memory": result.peak_memory,
        "io_read_bytes": result.io_read_bytes,
        "io_write_bytes": result.io_write_bytes,
    }
