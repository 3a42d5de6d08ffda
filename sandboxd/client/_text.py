"""Text from bytes that come in pieces: a character is never cut."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from sandboxd.types import TextOutput

if TYPE_CHECKING:
    from sandboxd.types import Output

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextDecoder:
    """Decodes the pieces of both streams, each on its own."""

    def __init__(self) -> None:
        """Begin with no bytes held back."""
        self._stdout = _new_decoder("replace")
        self._stderr = _new_decoder("replace")
        self._ends = {"stdout": -1, "stderr": -1}

    def decode(self, output: Output) -> TextOutput | None:
        """Return the whole characters that a piece completes; `None` if there are none."""
        decoder = self._stdout if output.stream == "stdout" else self._stderr
        text = ""
        if self._ends[output.stream] not in (output.offset, -1):
            # What follows a gap does not complete what is before it.
            text = decoder.decode(b"", final=True)
            decoder.reset()
        self._ends[output.stream] = output.offset + len(output.data)
        text += decoder.decode(output.data)
        return TextOutput(output.stream, text) if text else None

    def finish(self) -> list[TextOutput]:
        """Return what the streams ended with in the middle of a character."""
        stdout = self._stdout.decode(b"", final=True)
        stderr = self._stderr.decode(b"", final=True)
        pieces = [TextOutput("stdout", stdout), TextOutput("stderr", stderr)]
        return [piece for piece in pieces if piece.text]
