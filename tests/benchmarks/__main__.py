"""The benchmarks of the goals: `python -m tests.benchmarks [--quick]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import record, table
from tests.benchmarks.worker import GOALS, RECORDS

_SETUP = Path(__file__).parent / "setup.sh"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the headline set, in two minutes")
    size.add_argument("--full", action="store_true", help="everything, with more samples (default)")
    parser.add_argument("--only", choices=GOALS, action="append", help="a goal; may be repeated")
    parser.add_argument("--output", "--json", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--write-docs", action="store_true", help="update docs/specification.md")
    return parser.parse_args()


def _measure(goal: str, *, quick: bool) -> list[record.Record]:
    """Measures one goal in a process of its own.

    Raises:
        subprocess.CalledProcessError: An operation failed; the worker has said which.
    """
    with tempfile.TemporaryDirectory(prefix="sandboxd-bench-") as name:
        work = Path(name)
        work.chmod(0o755)
        size = ["--quick"] if quick else []
        command = [sys.executable, "-m", "tests.benchmarks.worker", goal, name, *size]
        subprocess.run(command, check=True)
        return record.read(work / RECORDS)


def main() -> int:
    """Prints the table; 1 if an operation of any goal failed. A missed target is no failure."""
    arguments = _arguments()
    subprocess.run([_SETUP], check=True)
    measured: list[record.Record] = []
    failed = []
    for goal in arguments.only or GOALS:
        start = time.monotonic()
        try:
            measured += _measure(goal, quick=arguments.quick)
        except subprocess.CalledProcessError:
            failed.append(goal)
        sys.stderr.write(f"{goal}: {time.monotonic() - start:.0f} s\n")
    records = record.merge(record.read(arguments.output) if arguments.only else [], measured)
    record.write(arguments.output, records)
    sys.stdout.write(table.for_terminal(records) + "\n")
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
        return 1
    if arguments.write_docs:
        table.write_document(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
