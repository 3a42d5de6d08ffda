"""Run the checks: `python -m sandboxd.testing [--setup package.module:name] [WORD…]`.

Without a set-up of your own they run against the agent of this machine. Words choose the checks
whose name contains one of them. Exit status 1 if a promise does not hold. A check whose capability
is missing is shown as not tried.
"""

from __future__ import annotations

import asyncio
import sys
import traceback

from sandboxd.testing.conformance import CHECKS
from sandboxd.testing.setup import LocalSetup, Setup, load_setup


def main(words: list[str]) -> int:
    """Run the chosen checks one after another and print a line for each."""
    setup: Setup = LocalSetup()
    if words[:1] == ["--setup"]:
        if len(words) == 1:
            _say("--setup needs the name of a set-up: package.module:name")
            return 2
        setup, words = load_setup(words[1]), words[2:]
    failed = 0
    for check in CHECKS:
        if words and not any(word in check.name for word in words):
            continue
        missing = [need for need in check.needs if not setup.has(need)]
        if missing:
            _say(f"not tried  {check.name}: the agent has no {', '.join(missing)}")
            continue
        try:
            asyncio.run(asyncio.wait_for(check.run(setup), check.seconds))
        except Exception:  # noqa: BLE001  (any failure of a check is reported, and the next one runs)
            failed += 1
            _say(f"FAILED     {check.name}\n{traceback.format_exc()}")
        else:
            _say(f"holds      {check.name}")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
