r"""What a shell is told, and what it answers. Pure.

The shell reads its commands from a socket, and answers there. It is the shell's own input,
descriptor 0; a command gets the real standard input in its place, and the socket is closed for it:
the shell keeps a copy that no program inherits. A socket cannot be opened through `/proc/<pid>/fd`
as a pipe can. Each command comes with a random word that its answer must carry. The word is in no
variable, argument, file or stream, so whoever found a way to write to the socket would still not
know it.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

START = (
    "exec 9<&0 0<&2 2>&1; "
    "if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc -s; fi; exec sh -s"
)
"""Puts the descriptors in place: the control socket arrives as 2, the real standard input as 0."""

_BASH_STDIN = 250
_SH_STDIN = 9
"""Where the real standard input is kept. Scripts like to use 3 to 9; only bash has more."""

_SUBSTITUTION = re.compile(rb"[$<>]\(")

END_BELOW = """\
found=
set -- "$1"
while [ $# -gt 0 ]; do
  parent=$1
  shift
  for file in /proc/"$parent"/task/*/children; do
    children=
    read -r children <"$file"
    for child in $children; do
      kill -STOP "$child"
      found="$found $child"
      set -- "$@" "$child"
    done
  done
done 2>/dev/null
[ -z "$found" ] || kill -KILL $found
"""
"""Kills whatever descends from a process, stopped first so that it cannot start more meanwhile."""


class Answer(NamedTuple):
    """What the shell says at the end of a command."""

    status: int
    flags: str
    """Its options that have letters, as `$-`."""


def fresh_word() -> str:
    """Return a word that nobody can know before it is used, or guess."""
    return os.urandom(16).hex()


def greeting(word: str) -> bytes:
    """Ask which shell it is, and have an interrupt end the command and not the shell."""
    return (
        "trap '__sandboxd=$?; [ $__sandboxd != 0 ] || __sandboxd=130; "
        "{ break 99; } 2>/dev/null' INT; "
        f"printf ' %s 0 %s\\n' {word} \"${{BASH_VERSION:+bash}}\" >&0\n"
    ).encode()


def move_stdin() -> bytes:
    """Free the low descriptor that only plain shells need."""
    return f"exec {_BASH_STDIN}<&{_SH_STDIN} {_SH_STDIN}<&-\n".encode()


def command(line: bytes, word: str, last: Answer, *, bash: bool) -> bytes:
    """Have the shell run a line and answer.

    A loop of one round is around it, so that `break` and an interrupt end it and no more. The
    answer is given in silence, also where the shell shows what it does (`set -x`), and that is
    switched off between commands.
    """
    stdin = _BASH_STDIN if bash else _SH_STDIN
    shown = "".join(f"set -{flag};" for flag in "vx" if flag in last.flags)
    # In a list, so that neither a trap for errors nor `set -e` takes it for a failure.
    status = f"(exit {last.status}) && :; " if last.status else ""
    run = (
        f"{status}for _ in 1; do command eval ".encode()
        + _quoted(shown.encode() + line)
        + f" 0<&{stdin} {stdin}<&-; done".encode()
    )
    if bash and _SUBSTITUTION.search(line):
        # A mistake inside would end the shell: another one parses the line first.
        run = b"if (eval %b); then %b; else (exit 2); fi" % (_quoted(b"set -n\n" + line), run)
    answer = (
        f'; {{ command printf \' %s %d %s\\n\' {word} "${{__sandboxd-$?}}" "$-" >&0; '
        "set +vx; } 2>/dev/null\n"
    )
    # An empty line first: a mistake of the last one may have left the parser in mid-thought. And an
    # interrupt that came when nothing ran is not this command's.
    return b"\nunset -v __sandboxd; " + run + answer.encode()


def _quoted(line: bytes) -> bytes:
    # The newlines keep a backslash at the end of the line from reaching beyond it.
    return b"'" + (line + b"\n\n").replace(b"'", b"'\\''") + b"'"


def find_answer(said: bytes | bytearray, word: str) -> Answer | None:
    """Look for the answer with this word among all that was written to the socket."""
    found = re.search(rb" %s (\d{1,3}) (\w*)\n" % word.encode(), said)
    return None if found is None else Answer(int(found[1]), found[2].decode("ascii", "replace"))
