"""The blocking form of a shell that keeps its state between commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client._blocking import drive
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    import re
    from types import TracebackType

    from typing_extensions import Self

    from sandboxd.client._shell import AsyncShell
    from sandboxd.types import ShellResult


class Shell:
    """One bash (`sh` where there is none) that runs commands one after the other.

    Directory, variables, functions, options, traps and background jobs stay from one to the next:

        with sandbox.shell() as shell:
            shell.run("cd /tmp; greet() { echo hi $1; }; x=1")
            result = shell.run("greet $x; pwd")

    Stdout and stderr of a command come together, in order. What a command prints is never taken
    for the shell's answer: that comes on a channel of its own. A command that ends the shell
    (`exit`, `exec`, a failure under `set -e`) gets its result with `ended` set, and the next one a
    new shell. It starts with the first command, and ends when it is closed or its sandbox is.

    With a `pty`, commands have a terminal, and `send` types. Without, their stdin is the null
    device.
    """

    def __init__(self, shell: AsyncShell) -> None:
        """Describe a shell. Use `Sandbox.shell`, not this."""
        self._shell = shell

    def __repr__(self) -> str:
        """Show where it is."""
        return repr(self._shell).replace("AsyncShell", "Shell", 1)

    def __enter__(self) -> Self:
        """Return the shell, without waiting."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the shell."""
        self.close()

    @property
    def exec_id(self) -> str | None:
        """Name of the exec that the shell is; `None` before its first command and after its end."""
        return self._shell.exec_id

    def run(
        self,
        line: str | bytes,
        *,
        timeout: float | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
    ) -> ShellResult:
        """Run a command in the shell to its end. Cancelling the call interrupts the command.

        Args:
            line: Any text that the shell understands, of several lines too, at most 1 MiB.
            timeout: Seconds until the command is interrupted. If it has not ended half a second
                later, whatever the shell has started is killed, background jobs included; if that
                does not help either, the shell is. `None`: no limit.
            max_output_bytes: Bytes of output kept, 0 to 256 MiB: the first and the last half.

        Returns:
            Exit code and output, also if it failed, met the timeout or ended the shell.

        Raises:
            InvalidArgumentError: If an argument is wrong, another command runs, or the shell is
                closed. Nothing ran.
            ExecFailedError: If a shell could not be started. Nothing ran.
            SandboxClosedError: If the sandbox was closed.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired for 4 seconds.
        """
        return drive(self._shell.run(line, timeout=timeout, max_output_bytes=max_output_bytes))

    def start(
        self,
        line: str | bytes,
        *,
        timeout: float | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
    ) -> None:
        """Begin a command, and return when the shell has it.

        For a command that is talked to: `send` and `read_until` do that, and `wait` has the result.
        The timeout counts from here, and is kept by those that wait.

        Args:
            line: As for `run`.
            timeout: As for `run`.
            max_output_bytes: As for `run`.

        Raises:
            SandboxError: As `run`.
        """
        drive(self._shell.start(line, timeout=timeout, max_output_bytes=max_output_bytes))

    def wait(self) -> ShellResult:
        """Wait for the end of the command that was started. Cancelling the call does not end it.

        Returns:
            As `run`.

        Raises:
            InvalidArgumentError: If no command was started, or another task or thread waits for it
                or reads its output.
            SandboxError: As `run`.
        """
        return drive(self._shell.wait())

    def send(self, data: bytes | bytearray | memoryview | str) -> None:
        r"""Type at the terminal. Enter is `\n`.

        Args:
            data: Bytes of any length, or text that is encoded as UTF-8. A terminal that reads lines
                takes at most 4,095 bytes of each.

        Raises:
            InvalidArgumentError: If the shell has no `pty`, or has not started.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired; a part may be typed.
        """
        drive(self._shell.send(data))

    def read_until(
        self, pattern: str | bytes | re.Pattern[bytes], *, timeout: float | None = None
    ) -> bytes:
        r"""Read what the command writes, up to a match. The rest is for the next call.

        What is read here is in the command's result, too.

        Args:
            pattern: Text or bytes to be found as they are, or a compiled regular expression of
                bytes. Among the last MiB that was not read yet.
            timeout: Seconds until the call gives up; the command goes on. `None`: no limit but the
                command's own.

        Returns:
            Everything since the last match, the new match included. Lines of a terminal end in
            `\r\n`.

        Raises:
            InvalidArgumentError: If the pattern is wrong, no command runs, or another task or
                thread waits for it or reads its output.
            PatternNotFoundError: If there is no match before the timeout, or before the command
                ends; `output` has what there is.
            SandboxError: As `run`.
        """
        return drive(self._shell.read_until(pattern, timeout=timeout))

    def interrupt(self) -> bool:
        """Interrupt the command as Ctrl-C does: its programs get SIGINT, the shell goes on.

        Background jobs are left alone. What follows in the line is given up, but for what follows
        a call of a function. The exit code is that of the interrupted program, or 130 if that is 0.

        Returns:
            Whether there was a shell to tell.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection broke; it may have been delivered.
        """
        return drive(self._shell.interrupt())

    def resize(self, rows: int, columns: int) -> bool:
        """Change the size of the terminal; programs in its foreground get SIGWINCH.

        Args:
            rows: Lines of text, 1 to 65,535.
            columns: Characters of a line, 1 to 65,535.

        Returns:
            Whether it was changed; false when the shell had ended before.

        Raises:
            InvalidArgumentError: If the shell has no `pty`, or has not started.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        return drive(self._shell.resize(rows, columns))

    def close(self) -> None:
        """End the shell and everything that it started. A second time does nothing.

        A command that runs gets its result, with `ended` set and the cause `canceled`.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        drive(self._shell.close())
