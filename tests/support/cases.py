"""The table of behaviour cases in the specification: which test proves which.

    python -m tests.support.cases           # compare
    python -m tests.support.cases --write   # write the table into docs/specification.md

A test, or a check of `sandboxd.testing`, carries the id of its case at the beginning of its name.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECIFICATION = ROOT / "docs" / "specification.md"
BEGIN = "<!-- cases: begin (written by `python -m tests.support.cases --write`) -->"
END = "<!-- cases: end -->"

CASES = {
    "T": (
        "Timeouts and process trees",
        {
            "t1": "a deadline ends the whole tree",
            "t2": "nothing of an exec runs when its result arrives",
            "t4": "cancel and signals reach every process",
            "t5": "every shape of tree in every shell ends at its deadline",
            "t6": "an exit is not held up by background children, which live on",
            "t8": "processes that left their session end with their exec",
            "t9": "a finished exec leaves no timer, thread or descriptor",
            "t10": "no status is lost or mixed up",
            "t12": "output before the end is delivered, however it ended",
            "t13": "each kind of end has its own cause",
            "t14": "no timeout means none",
            "t15": "an agent that falls silent is a typed error in bounded time",
            "t16": "busy loops end; CPU time has a limit of its own",
            "t18": "timeouts are seconds; nonsense is refused by name",
        },
    ),
    "H": (
        "Hangs, streams, connections",
        {
            "h1": "keepalives tell a dead agent from a silent command",
            "h2": "a killed sandbox is lost with a reason; a reset connection is repaired",
            "h3": "a stalled reader keeps nobody else waiting",
            "h4": "output that nobody reads is bounded and holds no program up for ever",
            "h6": "hundreds of streams on one connection",
            "h8": "stdin is the null device unless asked for",
            "h9": "stdin can be ended",
            "h11": "slow output is whole and the exit comes last",
            "h12": "the agent answers under load",
            "h13": "bulk output does not delay control calls",
            "h14": "an own stdin that is open holds nothing up",
            "h15": "event loops and threads come and go",
        },
    ),
    "O": (
        "Output",
        {
            "o1": "characters are not torn apart",
            "o2": "bytes that are no text arrive exactly",
            "o3": "twice the output takes twice the time, and the loop goes on",
            "o4": "memory is flat however much is streamed",
            "o6": "output is the same every time, the end is its last event",
            "o8": "much output is no timeout",
            "o9": "no message size limit shows through",
            "o10": "shortened output says so, keeps both ends and the totals",
        },
    ),
    "X": (
        "Exit code, environment, directory, user",
        {
            "x1": "a lost status is an error, never a number",
            "x2": "a directory that cannot be entered is an error before the start",
            "x3": "nothing of the image is needed",
            "x7": "image < template < claim < exec, the same everywhere",
            "x9": "what a program says is not what the machinery says",
            "x10": "a program sees its own share of the processors",
        },
    ),
    "F": (
        "Files",
        {
            "f1": "a write of any size is whole, with the right hash",
            "f2": "a write that fails leaves the old file, whole",
            "f3": "big files and big stdin have the right hash",
            "f4": "long lines run; arguments that are too long are named",
            "f5": "gigabytes up and down in flat memory, over a cut",
            "f7": "what was written is read, over any connection",
            "f9": "a reader sees the old file or the new one",
        },
    ),
    "R": (
        "Retries, duplicates, reconnection",
        {
            "r1": "a lost reply means one run",
            "r2": "a lost answer to a start means one process",
            "r3": "only what is safe is sent again",
            "r4": "a stream that is cut again and again arrives whole and once",
            "r6": "one idempotency key, one sandbox",
            "r8": "a refused connection is waited for, and is no lost sandbox",
            "r9": "a stale handle is refused",
            "r10": "a replaced pod is a lost sandbox",
        },
    ),
    "Z": (
        "Exec",
        {
            "z1": "exactly once under random faults",
            "z2": "whose doing follows from the cause alone",
            "z10": "one output policy everywhere",
            "z12": "facts with every result are the exec's own",
            "z13": "hidden grader files",
            "z14": "one behaviour on every backend",
            "z15": "the doctor crosses every boundary",
        },
    ),
}
"""Groups of cases by letter: the title, and what holds by id."""

PENDING = {
    "x3": "images bring other root trees",
    "r6": "the control API brings it",
    "r10": "the Kubernetes backend brings it",
    "z10": "kernels bring the rest of it",
    "z14": "the Kubernetes backend brings the second one",
}
"""Cases whose subject does not exist yet, or exists in part, and what brings it."""

PLACES = (
    ("sandboxd/testing/*.py", re.compile(r"^async def ((?:[a-z]\d+_)\w+)", re.MULTILINE)),
    ("tests/**/test_*.py", re.compile(r"^ *(?:async )?def (test_[a-z]\d+_\w+)", re.MULTILINE)),
    ("rust/crates/*/src/**/*.rs", re.compile(r"^ *(?:async )?fn ([a-z]\d+_\w+)", re.MULTILINE)),
    ("rust/crates/*/tests/**/*.rs", re.compile(r"^ *(?:async )?fn ([a-z]\d+_\w+)", re.MULTILINE)),
)


@dataclass(frozen=True, order=True)
class Proof:
    """A test that carries the id of a case."""

    path: str
    name: str

    @property
    def case(self) -> str:
        """The id."""
        return self.name.removeprefix("test_").partition("_")[0]


def proofs() -> dict[str, list[Proof]]:
    """All tests that carry an id, by id."""
    known = {case for _, cases in CASES.values() for case in cases}
    found: defaultdict[str, set[Proof]] = defaultdict(set)
    for pattern, definition in PLACES:
        for path in ROOT.glob(pattern):
            for name in definition.findall(path.read_text()):
                proof = Proof(str(path.relative_to(ROOT)), name)
                if proof.case in known:
                    found[proof.case].add(proof)
    return {case: sorted(those) for case, those in found.items()}


def table() -> str:
    """The table as it should stand in the specification."""
    found = proofs()
    lines = ["| case | holds | proof |", "|---|---|---|"]
    for letter, (title, cases) in CASES.items():
        lines.append(f"| **{letter}** | **{title}** | |")
        for case, promise in cases.items():
            shown = [f"[{each.name}](../{each.path})" for each in found.get(case, [])]
            if case in PENDING:
                shown.append(f"*pending: {PENDING[case]}*")
            lines.append(f"| {case.upper()} | {promise} | {'<br>'.join(shown)} |")
    return "\n".join(lines)


def unproven() -> list[str]:
    """Cases that have neither a test nor a reason to have none."""
    found = proofs()
    cases = [case for _, cases in CASES.values() for case in cases]
    return [case for case in cases if case not in found and case not in PENDING]


def written() -> str:
    """The table that stands in the specification."""
    text = SPECIFICATION.read_text()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()


def write() -> None:
    """Put the table into the specification."""
    text = SPECIFICATION.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    SPECIFICATION.write_text(f"{before}\n{table()}\n{after}")


def main(arguments: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    if parser.parse_args(arguments).write:
        write()
    for case in unproven():
        sys.stdout.write(f"{case}: no test carries this id\n")
    return 1 if unproven() or written() != table() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
