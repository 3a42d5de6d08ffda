"""Containers of a Docker engine, where one runs already.

The benchmarks do not start one: an engine changes the machine's network and its mounts.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

from tests.benchmarks.missing import MissingReferenceError, program
from tests.benchmarks.references.program import BUILT

if TYPE_CHECKING:
    from contextlib import ExitStack

_IMAGE = "sandboxd-bench:true"
# Seconds; an engine that takes longer is no reference.
_PATIENCE = 60


def _image() -> bytes:
    """An image layer with one static program."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(BUILT / "true", arcname="bin/true")
    return archive.getvalue()


def _run(*command: str, stdin: bytes = b"") -> None:
    subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=_PATIENCE)


def docker_run(stack: ExitStack) -> list[str]:
    """Command line that runs /bin/true in a new container.

    Raises:
        MissingReferenceError: There is no docker, or no engine that answers.
    """
    docker = program("docker", "docker.io")
    try:
        _run(docker, "version")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise MissingReferenceError("no Docker engine answers on this machine") from error
    _run(docker, "import", "-", _IMAGE, stdin=_image())
    stack.callback(_run, docker, "rmi", "--force", _IMAGE)
    return [docker, "run", "--rm", _IMAGE, "/bin/true"]
