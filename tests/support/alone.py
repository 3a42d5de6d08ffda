"""Python code in a process of its own that uses the SDK, on a machine as a test wants it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.ordinary import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Sequence

USE = """
import json, sys, sandboxd
from sandboxd import Limits, Sandbox
try:
    with Sandbox({options}) as sandbox:
        sandbox.ready()
        value = {value}
    print(json.dumps(["none", str(value)]))
except sandboxd.SandboxError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def use(
    state: Path,
    *,
    before: Sequence[str] = (),
    options: str = "",
    value: str = "sandbox.run('echo works').stdout",
    **env: str,
) -> tuple[str, str]:
    """Use a sandbox in a fresh process.

    Args:
        state: Its state folder.
        before: Words in front of the interpreter, such as `unshare --user`.
        options: Arguments of the `Sandbox`, as Python text.
        value: Expression to compute with `sandbox`.
        **env: More variables of the process.

    Returns:
        The class of the error that came and its message, or "none" and the value.
    """
    done = subprocess.run(
        [*before, sys.executable, "-W", "error", "-c", USE.format(options=options, value=value)],
        cwd=ROOT,
        env=environment(state, **env),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    name, message = json.loads(done.stdout)
    return name, message


def leftovers(state: Path) -> list[str]:
    """Sockets and folders of agents that are still in a state folder."""
    return [str(path) for path in state.rglob("*") if path.name not in {"agents", "sockets"}]
