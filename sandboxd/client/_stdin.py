"""Writing to an exec by offsets: each byte once, over as many connections as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd._native import write_stdin_request
from sandboxd.exceptions import InternalError

if TYPE_CHECKING:
    from sandboxd.client._any_binding import AnyBinding

_CHUNK = 1024 * 1024
"""Bytes in one call. Far below the longest frame that an agent takes (24 MiB)."""


class StdinWriter:
    """One input of an exec: its stdin, or its control socket. For one writer at a time."""

    def __init__(
        self, binding: AnyBinding, exec_id: str, *, control: bool = False, offset: int = 0
    ) -> None:
        """Begin at an offset; nothing is sent."""
        self._binding = binding
        self._exec_id = exec_id
        self._control = control
        self._offset = offset

    async def write(self, data: bytes) -> None:
        """Write all of it, and wait until it is taken."""
        for start in range(0, len(data), _CHUNK):
            await self._write(data[start : start + _CHUNK], eof=False)

    async def find_place(self) -> None:
        """Go on behind what others have written."""
        # A write of nothing at the beginning is taken whatever came before, and says how much.
        await self._write(b"", eof=False)

    async def close(self) -> None:
        """Say that there is no more."""
        await self._write(b"", eof=True)

    async def _write(self, data: bytes, *, eof: bool) -> None:
        target = self._offset + len(data)
        while True:
            request = write_stdin_request(
                self._binding.sandbox_id, self._exec_id, self._offset, data, eof, self._control
            )
            taken = await self._binding.call(request)
            if taken <= self._offset < target:
                raise InternalError(f"stdin of exec {self._exec_id} was not taken")
            data = data[taken - self._offset :]
            self._offset = taken
            if taken >= target:
                return
