"""The keys that leave a terminal without ending what runs in it. Pure.

As `ssh` has them: they count at the beginning of a line only, so that hardly anybody types them by
chance, and no key of a program waits for the next one.
"""

from __future__ import annotations

_ESCAPE = ord("~")
_LEAVE = ord(".")
_LINE_ENDS = b"\r\n"


class LeavingKeys:
    """Looks for `~.` at the beginning of a line; `~~` there is one `~`."""

    def __init__(self) -> None:
        """Begin at the beginning of a line."""
        self._line_begins = True
        self._escaped = False

    def take(self, typed: bytes) -> tuple[bytes, bool]:
        """Take in what was typed.

        Returns:
            What goes to the program, and whether to leave; what was typed after that is dropped.
        """
        passed = bytearray()
        for key in typed:
            if self._escaped:
                self._escaped = False
                if key == _LEAVE:
                    return bytes(passed), True
                if key != _ESCAPE:
                    passed.append(_ESCAPE)
            elif key == _ESCAPE and self._line_begins:
                self._escaped = True
                self._line_begins = False
                continue
            passed.append(key)
            self._line_begins = key in _LINE_ENDS
        return bytes(passed), False
