"""Checks of arguments, before anything is sent.

Pure: values in, values for the wire out, or an `InvalidArgumentError` that names the argument.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from sandboxd.exceptions import InvalidArgumentError
from sandboxd.types import Limits, OutputPolicy, Pty

if TYPE_CHECKING:
    from sandboxd.types import Command

ELEMENT_LIMIT = 131_071
"""Bytes of one argument or one `NAME=value`: Linux takes 32 pages with the final zero byte."""

COMMAND_LIMIT = 6 * 1024 * 1024
"""Bytes of all arguments and variables: Linux never takes more, whatever the stack limit."""

SHELL_LIMIT = 16 * 1024 * 1024
"""Bytes of a shell line. Below the longest frame that an agent takes (24 MiB)."""

SHELL_LINE_LIMIT = 1024 * 1024
"""Bytes of a command for a shell that runs. Shells read them one at a time: about a second."""

STDIN_LIMIT = 16 * 1024 * 1024
"""Bytes of stdin that travel with a run. Below the longest frame, with the command beside it."""

OUTPUT_LIMIT = 256 * 1024 * 1024
"""Bytes kept of one stream of a run. Both fit into the longest frame that a client takes."""

OFFSET_LIMIT = 2**63 - 1
"""Highest position in a stream."""

PATH_LIMIT = 4_095
"""Bytes of a path: Linux's, without the final zero byte."""

LEAST_CPUS = 0.01
"""Cores. The kernel gives no less than 1 ms in each 100 ms, and agents refuse less."""

MOST_CPUS = 10_000
"""Cores: more than any machine has, and agents refuse more."""

LEAST_WINDOW = 4096
"""Bytes: a page, the least that a pipe holds."""

_TERMINAL_LIMIT = 65_535
_TIME_LIMIT = 100 * 365 * 86_400
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_SIGNALS = 64

_SIGNALS_IN_ORDER = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT "
    "STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
)

_SIGNAL_NAMES = {name: number for number, name in enumerate(_SIGNALS_IN_ORDER.split(), start=1)}
"""Signals of the sandbox, which is Linux whatever the caller's system is: see signal(7)."""

_SIGNAL_NAMES |= {"IOT": 6, "CLD": 17, "POLL": 29}

_MODE_LIMIT = 0o7777


def nanoseconds(name: str, value: object) -> int | None:
    """Check a time in seconds; `None` stays `None`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgumentError(f"{name} must be a number of seconds, not {_shown(value)}")
    if not 0 < value <= _TIME_LIMIT or math.isnan(value):
        raise InvalidArgumentError(
            f"{name} must be above 0 and at most {_TIME_LIMIT} seconds, not {_shown(value)}: "
            "leave it out for the default"
        )
    return max(1, round(value * 1e9))


def times(
    timeout: float | None, idle_output_timeout: float | None, cpu_time: float | None
) -> tuple[int | None, int | None, int | None]:
    """Check the limits of time of a command."""
    return (
        None if timeout is None else nanoseconds("timeout", timeout),
        None
        if idle_output_timeout is None
        else nanoseconds("idle_output_timeout", idle_output_timeout),
        None if cpu_time is None else nanoseconds("cpu_time", cpu_time),
    )


def pty(value: Pty | bool | None) -> tuple[int, int] | None:  # noqa: FBT001  (a value to check)
    """Check a terminal: rows and columns."""
    if value is None or value is False:
        return None
    size = Pty() if value is True else value
    if not isinstance(size, Pty):
        raise InvalidArgumentError(f"pty must be True or a Pty, not {_shown(value)}")
    return (
        count("pty.rows", size.rows, 1, _TERMINAL_LIMIT),
        count("pty.columns", size.columns, 1, _TERMINAL_LIMIT),
    )


def terminal_size(rows: int, columns: int) -> tuple[int, int]:
    """Check the size of a terminal."""
    return (count("rows", rows, 1, _TERMINAL_LIMIT), count("columns", columns, 1, _TERMINAL_LIMIT))


def flag(name: str, value: object) -> bool:
    """Check a yes or no."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be True or False, not {_shown(value)}")
    return value


def output_policy(value: str) -> str:
    """Check what becomes of output that nobody reads."""
    if value not in get_args(OutputPolicy):
        choices = ", ".join(map(repr, get_args(OutputPolicy)))
        raise InvalidArgumentError(f"output must be one of {choices}, not {_shown(value)}")
    return value


def stream(value: str) -> str:
    """Check the name of an output stream."""
    if value not in ("stdout", "stderr"):
        raise InvalidArgumentError(f"stream must be 'stdout' or 'stderr', not {_shown(value)}")
    return value


def offset(name: str, value: int | None) -> int | None:
    """Check a position in a stream; `None` stays."""
    return None if value is None else count(name, value, 0, OFFSET_LIMIT)


def output_window(value: int | None) -> int | None:
    """Check how much output is kept in memory."""
    if value is None:
        return None
    return count("output_window_bytes", value, LEAST_WINDOW, OUTPUT_LIMIT)


def count(name: str, value: object, minimum: int, maximum: int) -> int:
    """Check a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgumentError(f"{name} must be a whole number, not {_shown(value)}")
    if not minimum <= value <= maximum:
        raise InvalidArgumentError(
            f"{name} must be from {minimum} to {maximum}, not {_shown(value)}"
        )
    return value


def command(value: Command) -> bytes | list[bytes]:
    """Check a command: a shell line as bytes, or arguments as a list."""
    if isinstance(value, str):
        line = _encoded("command", value)
        if not line:
            raise InvalidArgumentError("command must not be empty")
        if len(line) > SHELL_LIMIT:
            raise InvalidArgumentError(
                f"command must be at most {SHELL_LIMIT} bytes, not {len(line)}: "
                "write it to a file in the sandbox"
            )
        return line
    if isinstance(value, (bytes, bytearray, memoryview)) or not isinstance(value, Sequence):
        raise InvalidArgumentError(
            "command must be a str for the shell, or a list of program and arguments, "
            f"not {_shown(value)}"
        )
    argv = [_element(index, element) for index, element in enumerate(value)]
    if not argv or not argv[0]:
        raise InvalidArgumentError("command must name a program, and its name must not be empty")
    total = sum(map(len, argv)) + len(argv)
    if total > COMMAND_LIMIT:
        raise InvalidArgumentError(
            f"command must be at most {COMMAND_LIMIT} bytes in all, not {total}: "
            "use stdin or a file in the sandbox"
        )
    return argv


def shell_line(value: str | bytes) -> bytes:
    """Check a command for a shell that runs."""
    if not isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"line must be text or bytes, not {_shown(value)}")
    line = _encoded("line", value)
    if len(line) > SHELL_LINE_LIMIT:
        raise InvalidArgumentError(
            f"line must be at most {SHELL_LINE_LIMIT} bytes, not {len(line)}: "
            "write it to a file in the sandbox"
        )
    return line


def pattern(value: str | bytes | re.Pattern[bytes]) -> re.Pattern[bytes]:
    """Check what output is searched for; text and bytes stand for themselves."""
    if isinstance(value, re.Pattern):
        if not isinstance(value.pattern, bytes):
            raise InvalidArgumentError(
                f"pattern must be of bytes: re.compile(b'...'), not {_shown(value)}"
            )
        return value
    if not isinstance(value, (str, bytes)) or not value:
        raise InvalidArgumentError(f"pattern must be text, bytes or a pattern, not {_shown(value)}")
    return re.compile(re.escape(content("pattern", value)))


def commands(value: Iterable[Command]) -> Iterable[Command]:
    """Check that there are several commands; each is checked when its turn comes."""
    # Text and mappings can be iterated, and would run each letter or key.
    single = isinstance(value, (str, bytes, bytearray, memoryview, Mapping))
    if single or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"commands must be a list of commands, not {_shown(value)}")
    return value


def environment(value: Mapping[str, str | bytes] | None) -> list[tuple[bytes, bytes]]:
    """Check environment variables."""
    if not value:
        return []
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"env must be a mapping of names to values, not {_shown(value)}")
    variables = []
    for name, content in value.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise InvalidArgumentError(
                f"env names must be text, not empty and without '=', not {_shown(name)}"
            )
        if not isinstance(content, (str, bytes)):
            raise InvalidArgumentError(f"env {name} must be text or bytes, not {_shown(content)}")
        pair = (_encoded("env name", name), _encoded(f"env {name}", content))
        size = len(pair[0]) + 1 + len(pair[1])
        if size > ELEMENT_LIMIT:
            raise InvalidArgumentError(
                f"env {name} must be at most {ELEMENT_LIMIT} bytes with its name, not {size}: "
                "use a file in the sandbox"
            )
        variables.append(pair)
    total = sum(len(name) + len(content) + 2 for name, content in variables)
    if total > COMMAND_LIMIT:
        raise InvalidArgumentError(f"env must be at most {COMMAND_LIMIT} bytes in all, not {total}")
    return variables


def directory(name: str, value: str | bytes | os.PathLike[str] | None) -> bytes:
    """Check an absolute directory; `None` is empty."""
    if value is None:
        return b""
    checked = path(name, value)
    if not checked.startswith(b"/"):
        raise InvalidArgumentError(f"{name} must be an absolute path, not {_shown(value)}")
    return checked


def path(name: str, value: str | bytes | os.PathLike[str]) -> bytes:
    """Check a path in the sandbox."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise InvalidArgumentError(f"{name} must be a path, not {_shown(value)}")
    checked = _encoded(name, os.fspath(value))
    if not checked:
        raise InvalidArgumentError(f"{name} must not be empty")
    if len(checked) > PATH_LIMIT:
        raise InvalidArgumentError(f"{name} must be at most {PATH_LIMIT} bytes, not {len(checked)}")
    return checked


def user(value: str | None) -> str:
    """Check a user as `name`, `uid` or `uid:gid`; `None` is empty."""
    if value is None:
        return ""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > 256:  # noqa: PLR2004  (the longest name that Linux tools take)
        raise InvalidArgumentError(
            f"user must be a name, a uid or uid:gid as text, not {_shown(value)}"
        )
    return _text("user", value)


def identifier(name: str, value: str) -> str:
    """Check an id that the caller chose."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgumentError(
            f"{name} must be 1 to 64 letters, digits, '_', '.' or '-', not {_shown(value)}"
        )
    return value


def template(value: str) -> str:
    """Check the name of a template."""
    if not isinstance(value, str) or not value or len(value) > PATH_LIMIT:
        raise InvalidArgumentError(f"template must be a name, not {_shown(value)}")
    return _text("template", value)


def labels(value: Mapping[str, str] | None) -> dict[str, str]:
    """Check labels."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"labels must be a mapping, not {_shown(value)}")
    for name, content in value.items():
        if not isinstance(name, str) or not name or not isinstance(content, str):
            raise InvalidArgumentError(
                f"labels must be names and values as text, not {_shown((name, content))}"
            )
        _text("labels", name + content)
    return dict(value)


def limits(
    value: Limits | None,
) -> tuple[int | None, int | None, int | None, int | None, int | None]:
    """Check limits; the third is in thousandths of a core."""
    if value is None:
        return (None, None, None, None, None)
    if not isinstance(value, Limits):
        raise InvalidArgumentError(
            f"limits must be a Limits, for example Limits(memory=2**29), not {_shown(value)}"
        )
    cpus = value.cpus
    if cpus is not None:
        if isinstance(cpus, bool) or not isinstance(cpus, (int, float)):
            raise InvalidArgumentError(f"limits.cpus must be a number of cores, not {_shown(cpus)}")
        if not LEAST_CPUS <= cpus <= MOST_CPUS:
            raise InvalidArgumentError(
                f"limits.cpus must be from {LEAST_CPUS} to {MOST_CPUS} cores, not {_shown(cpus)}"
            )
    return (
        _optional("limits.memory", value.memory, 2**63 - 1),
        _optional("limits.pids", value.pids, 2**32 - 1),
        None if cpus is None else round(cpus * 1000),
        _optional("limits.disk", value.disk, 2**63 - 1),
        _optional("limits.output", value.output, 2**63 - 1),
    )


def content(name: str, value: bytes | bytearray | memoryview | str) -> bytes:
    """Check bytes, or text that becomes UTF-8."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"{name} cannot be encoded as UTF-8: {error}") from None
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise InvalidArgumentError(f"{name} must be bytes or text, not {_shown(value)}")


def local_path(name: str, value: str | os.PathLike[str]) -> str:
    """Check a path of this machine."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidArgumentError(f"{name} must be a path of this machine, not {_shown(value)}")
    checked = os.fspath(value)
    if not isinstance(checked, str) or not checked or "\0" in checked:
        raise InvalidArgumentError(f"{name} must be a path of this machine, not {_shown(value)}")
    return checked


def stdin(value: bytes | bytearray | memoryview | str | None) -> bytes | None:
    """Check the stdin of a run."""
    if value is None:
        return None
    data = content("stdin", value)
    if len(data) > STDIN_LIMIT:
        raise InvalidArgumentError(
            f"stdin must be at most {STDIN_LIMIT} bytes, not {len(data)}: "
            "use start() and write_stdin(), or a file in the sandbox"
        )
    return data


def mode(value: int | None) -> int | None:
    """Check permission bits."""
    return None if value is None else count("mode", value, 0, _MODE_LIMIT)


def signal(value: int | str) -> int:
    """Check a signal: a number, or a name with or without `SIG`."""
    if not isinstance(value, str):
        return count("signal", value, 1, _SIGNALS)
    number = _SIGNAL_NAMES.get(value.upper().removeprefix("SIG"))
    if number is None:
        raise InvalidArgumentError(
            f"signal must be a number from 1 to {_SIGNALS} or a name such as 'TERM', "
            f"not {_shown(value)}"
        )
    return number


def _optional(name: str, value: object, maximum: int) -> int | None:
    return None if value is None else count(name, value, 1, maximum)


def _element(index: int, value: object) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"command[{index}] must be text or bytes, not {_shown(value)}")
    element = _encoded(f"command[{index}]", value)
    if len(element) > ELEMENT_LIMIT:
        raise InvalidArgumentError(
            f"command[{index}] must be at most {ELEMENT_LIMIT} bytes, not {len(element)}: "
            "use stdin or a file in the sandbox"
        )
    return element


def _encoded(name: str, value: str | bytes) -> bytes:
    """Encode as file names are, so that what `os.listdir` gave can be passed on."""
    try:
        encoded = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name} cannot be encoded as UTF-8: {error}") from None
    if b"\0" in encoded:
        raise InvalidArgumentError(f"{name} must not contain a NUL byte")
    return encoded


def _text(name: str, value: str) -> str:
    """Refuse text that protobuf cannot carry."""
    if "\0" in value or not value.isprintable():
        raise InvalidArgumentError(f"{name} must be printable text, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """Show a wrong value, shortened: it may be the caller's megabytes."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (a broken repr must not hide the message)
        text = object.__repr__(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004  (about a line)
