"""What the machine gives for isolation, as the agent finds it without serving anything.

The agent is asked as a program, not over its socket: where it cannot even start, this still says
what is missing.
"""

from __future__ import annotations

import json
import subprocess

from sandboxd.cli.doctor.finding import Finding
from sandboxd.client import _settings

_TIMEOUT = 60.0
"""Seconds; probing takes milliseconds."""

_BUILD_IT = "build it with `make build`, or install a wheel of sandboxd"


def look() -> list[Finding]:
    """One finding per capability, and one for the agent's program itself."""
    settings = _settings.read()
    program = str(settings.binary)
    asked = f"{program} doctor"
    try:
        done = subprocess.run(
            [program, "doctor", "--json", "--state", str(settings.state)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        found = json.loads(done.stdout)
    except OSError as error:
        saw = error.strerror or str(error)
        return [Finding("agent", holds=False, tried=asked, saw=saw, remedy=_BUILD_IT)]
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return [Finding("agent", holds=False, tried=asked, saw=str(error), remedy=_BUILD_IT)]
    works = Finding("agent", holds=True, tried=asked, saw="it runs")
    return [works, *(_finding(each) for each in found)]


def _finding(capability: dict[str, object]) -> Finding:
    holds = bool(capability["available"])
    detail = str(capability["detail"])
    return Finding(
        name=str(capability["name"]),
        holds=holds,
        tried="",
        saw=detail if holds else "missing",
        # Where something is missing, the agent says what would provide it.
        remedy=None if holds else detail,
    )
