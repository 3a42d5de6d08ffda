"""Being an ordinary user: a program under another uid with a state folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOBODY = 65534
"""The uid of an ordinary user who owns nothing."""

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


def why_impossible() -> str:
    """Why nothing can be run as an ordinary user here; empty when it can."""
    if os.geteuid() != 0:
        return "changing the user needs root"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed: apt-get install util-linux"
    probe = [*become(), sys.executable, "-c", "import sandboxd"]
    done = subprocess.run(probe, capture_output=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        return f"uid {NOBODY} cannot read the checkout or its Python: {done.stderr.decode()[-200:]}"
    return ""


def become(uid: int = NOBODY) -> list[str]:
    """Words in front of a command that make it run as `uid` without any privilege."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]


@contextmanager
def state_of(uid: int = NOBODY) -> Iterator[Path]:
    """A short-lived state folder that belongs to `uid`; whatever is left in it is an error."""
    folder = Path(tempfile.mkdtemp(prefix="sandboxd-test-"))
    os.chown(folder, uid, uid)
    try:
        yield folder
        left = [str(path) for path in folder.rglob("*") if path.is_file() or path.is_socket()]
        assert not left, f"left in the state folder: {left}"
    finally:
        shutil.rmtree(folder)


def run_as(
    uid: int, argv: Sequence[str], state: Path, *, timeout: float = 60.0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of the checkout as `uid` with that state folder and a clean environment."""
    return subprocess.run(
        [*become(uid), *argv],
        cwd=ROOT,
        env=environment(state, **env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def environment(state: Path, **env: str) -> dict[str, str]:
    """The variables of a process that uses the SDK with that state folder."""
    binary = os.environ.get("SANDBOXD_AGENT_BINARY")
    return {
        **({"SANDBOXD_AGENT_BINARY": binary} if binary else {}),
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SANDBOXD_STATE": str(state),
        **env,
    }
