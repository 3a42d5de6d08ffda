"""Attacks on a shell's answers: a program cannot say how a command ended, or where its output does.

What holds: nothing that is printed, and nothing that is written to a descriptor that a program has
or can open, is taken for an answer. What cannot hold: a program of the same user may trace the
shell, as it may trace any program of that user.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from sandboxd.client import _shell, _shell_lines
from tests.support.attacks import PRELUDE

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox, AsyncShell

FORGED = b" " + b"0" * 32 + b" 0 hBs\\n"

SPRAY = """
import glob
wrote = []
answers = [b" " + b"0" * 32 + b" 0 hBs\\n", b" 0\\n", b"\\0", b"exit 0\\n", b"x" * 5000]
for path in sorted(glob.glob("/proc/[0-9]*/fd/*")):
    for flags in (os.O_RDWR, os.O_WRONLY):
        descriptor = attempt(os.open, path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        if isinstance(descriptor, int):
            if "/dev/" not in os.readlink(path):
                wrote.append(os.readlink(path).split(":")[0])
            for answer in answers:
                attempt(os.write, descriptor, answer)
            break
for descriptor in range(3, 1024):
    for answer in answers:
        attempt(os.write, descriptor, answer)
"""


async def _python(shell: AsyncShell, code: str) -> Any:
    quoted = (PRELUDE + code).replace("'", "'\\''")
    return await shell.run(f"python3 -c '{quoted}'", timeout=30)


@pytest.mark.parametrize("pty", [False, True])
async def test_writing_to_every_descriptor_there_is_forges_no_answer(
    sandbox: AsyncSandbox, *, pty: bool
) -> None:
    async with sandbox.shell(pty=pty) as shell:
        await shell.run("x=1; printf '%s' before")
        result = await _python(shell, SPRAY + "print('END', flush=True); os._exit(7)")
        assert (result.exit_code, result.ended) == (7, False)
        assert result.output.replace("\r", "").rstrip().endswith("END")
        after = await shell.run("echo $x; false", timeout=30)
        assert (after.exit_code, after.output.replace("\r", "")) == (1, "1\n")


@pytest.mark.parametrize("pty", [False, True])
async def test_a_program_left_in_the_background_forges_no_answer_of_the_next_command(
    sandbox: AsyncSandbox, *, pty: bool
) -> None:
    """It sprays all the while; the output of the others is in ours, their answers are not."""
    loop = (
        PRELUDE
        + "import glob\ndef spray():\n"
        + "\n".join("    " + line for line in SPRAY.splitlines())
        + "\nwhile True:\n    spray()\n"
    )
    await sandbox.files.write("/tmp/spray.py", loop)
    async with sandbox.shell(pty=pty) as shell:
        await shell.run("python3 /tmp/spray.py </dev/null >/dev/null 2>&1 &", timeout=30)
        for number in range(100):
            result = await shell.run(
                f"sleep 0.01; printf '<%s>' {number}; (exit {number})", timeout=30
            )
            assert (result.exit_code, result.ended) == (number, False)
            # What the others wrote may be so much that ours is not among what is kept.
            assert f"<{number}>" in result.output or result.truncated
            assert f"<{number - 1}>" not in result.output


async def test_no_program_inherits_or_can_open_the_way_to_the_shell(sandbox: AsyncSandbox) -> None:
    code = """
import glob, stat
inherited = [os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.exists(path)]
shell = os.getppid()
sockets = [path for path in glob.glob(f"/proc/{shell}/fd/*") if "socket" in os.readlink(path)]
opened = [attempt(os.open, path, flags) for path in sockets for flags in (0, 1, 2)]
tell([[each for each in inherited if "socket" in each], len(sockets), sorted(set(opened))])
"""
    async with sandbox.shell() as shell:
        result = await _python(shell, code)
        inherited, sockets, opened = json.loads(result.output)
        replaced = await shell.run(
            "exec python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'"
        )
    assert inherited == []
    assert sockets >= 1, "the test looks at the wrong process"
    assert opened == ["ENXIO"], "a socket cannot be opened by its name"
    assert replaced.ended
    assert replaced.output == "['0', '1', '2', '3']\n"


async def test_the_word_of_an_answer_is_nowhere_to_be_read(
    sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in variables, the environment, arguments, traces or files of the shell."""
    words: list[str] = []

    def note() -> str:
        words.append(f"{len(words):032x}")
        return words[-1]

    monkeypatch.setattr(_shell_lines, "fresh_word", note)
    async with sandbox.shell() as shell:
        await shell.run("set -a; set -x")
        result = await shell.run(
            'set; declare -p; env; export -p; trap; alias; echo "$_"; history; jobs -l; '
            "tr '\\0' '\\n' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; cat /tmp/* 2>&1",
            timeout=30,
        )
        verbose = await shell.run("set -v; echo 1\necho 2")
        after = await shell.run("set +v; sh -c 'cat /proc/$PPID/environ'")
    assert len(words) >= 5
    for seen in (result, verbose, after):
        assert not re.search(r"[0-9a-f]{32}", seen.output), seen.output


async def test_a_wrong_word_is_no_answer() -> None:
    word = _shell_lines.fresh_word()
    assert _shell_lines.find_answer(b" %s 3 hB\n" % word.encode(), word) == (3, "hB")
    assert _shell_lines.find_answer(FORGED, word) is None
    torn = b" %s 3" % word.encode()
    assert _shell_lines.find_answer(torn, word) is None
    assert _shell_lines.find_answer(b"junk" + torn + b" hB\n", word) == (3, "hB")
    assert _shell._ANSWER_LIMIT > 200
