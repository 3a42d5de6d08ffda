"""Containers of OCI runtimes: crun, runc and gVisor's runsc."""

from __future__ import annotations

import json
import subprocess
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.missing import MissingReferenceError, program
from tests.benchmarks.references.root import make_root
from tests.benchmarks.references.seccomp import CAPABILITIES, available, default_filter
from tests.benchmarks.references.spawn import Spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

PACKAGES = {"crun": "crun", "runc": "runc", "runsc": "of gVisor's own repository only"}
# The reason that is shown for a runtime that does not start; the end of it says most.
_REASON_LENGTH = 160

_NAMESPACES = ("pid", "mount", "ipc", "uts", "network")
_MOUNTS: tuple[tuple[str, str, str, list[str]], ...] = (
    ("/usr", "none", "/usr", ["bind", "ro"]),
    ("/proc", "proc", "proc", []),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "mode=755"]),
    ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666"]),
    ("/dev/shm", "tmpfs", "shm", ["nosuid", "nodev"]),
)


def _config(command: list[str], *, seccomp: bool) -> dict[str, object]:
    """A container as podman makes it: its capabilities and, if wanted, its filter."""
    linux: dict[str, object] = {"namespaces": [{"type": kind} for kind in _NAMESPACES]}
    if seccomp:
        linux["seccomp"] = default_filter()
    sets = ("bounding", "effective", "permitted")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "args": command,
            "cwd": "/",
            "env": ["PATH=/usr/bin:/bin"],
            "user": {"uid": 0, "gid": 0},
            "capabilities": dict.fromkeys(sets, CAPABILITIES),
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": at, "type": kind, "source": source, "options": options}
            for at, kind, source, options in _MOUNTS
        ],
        "linux": linux,
    }


# The v2 tree of a host whose controllers are (mostly) on v1.
_UNIFIED = Path("/sys/fs/cgroup/unified")


def _namespace(name: str) -> list[str]:
    """What a runtime's command lines run below.

    crun refuses a hybrid host on which any controller is on v2. In a mount namespace without the
    v2 tree it finds plain v1 and works; entering that once is no part of a sample.
    """
    controllers = _UNIFIED / "cgroup.controllers"
    if name != "crun" or not controllers.exists() or not controllers.read_text().strip():
        return []
    unshare = ["unshare", "--mount", "--propagation", "private"]
    return [*unshare, "sh", "-c", 'umount "$0" && exec "$@"', str(_UNIFIED)]


class Runtime:
    """One OCI runtime with its own state folder; what it still runs ends with it."""

    def __init__(self, name: str, work: Path, stack: ExitStack, *, seccomp: bool = True) -> None:
        """Checks that the runtime is there. `seccomp`: containers with podman's default filter.

        Raises:
            MissingReferenceError: It is not installed, or the filter could not be fetched.
        """
        path = program(name, PACKAGES[name])
        if seccomp and not available():
            raise MissingReferenceError("podman's default seccomp profile could not be fetched")
        self._id = name if seccomp else f"{name}-bare"
        self._seccomp = seccomp
        self._base = [path, "--root", str(work / f"{self._id}-state")]
        self._namespace = _namespace(name)
        self._spawn = stack.enter_context(Spawn(self._namespace))
        self._name = name
        self._work = work
        self._stack = stack

    def exec_call(self, command: list[str]) -> Callable[[], int]:
        """Samples of `exec` in one container, which this call starts.

        Raises:
            MissingReferenceError: The runtime cannot start a container here.
        """
        argv = self.exec_argv(command)
        return lambda: self._spawn.plain(argv)

    def exec_argv(self, command: list[str]) -> list[str]:
        """Command line of `exec` in one container, which this call starts.

        Raises:
            MissingReferenceError: The runtime cannot start a container here.
        """
        name = self._container("exec")
        bundle = self._bundle("exec", ["/usr/bin/sleep", "1000000"])
        self._try("run", "--detach", "--bundle", str(bundle), name)
        self._stack.callback(self._try, "delete", "--force", name)
        self._try("exec", name, *command)
        return [*self._base, "exec", name, *command]

    def run_call(self, command: list[str]) -> Callable[[], int]:
        """Samples of `run`: a container per command.

        Raises:
            MissingReferenceError: The runtime cannot start a container here.
        """
        bundle = self._bundle("run", command)
        arguments = ["run", "--bundle", str(bundle)]
        names = (self._container(f"run-{number}") for number in count())
        self._try(*arguments, next(names))
        return lambda: self._spawn.plain([*self._base, *arguments, next(names)])

    def _container(self, kind: str) -> str:
        return f"sandboxd-bench-{self._id}-{kind}"

    def _bundle(self, kind: str, command: list[str]) -> Path:
        bundle = self._work / f"{self._id}-{kind}"
        make_root(bundle / "rootfs")
        (bundle / "config.json").write_text(json.dumps(_config(command, seccomp=self._seccomp)))
        return bundle

    def _try(self, *arguments: str) -> None:
        # Not through pipes: a detached container would hold them open.
        log = self._work / f"{self._name}.log"
        with log.open("w") as output:
            done = subprocess.run(
                [*self._namespace, *self._base, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                timeout=60,
            )
        if done.returncode:
            reason = log.read_text().strip()[-_REASON_LENGTH:]
            raise MissingReferenceError(f"{self._name} does not work here: {reason}")
