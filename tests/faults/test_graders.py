"""SIGKILL while a grader runs: nothing stays, least of all something frozen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import ordinary
from tests.support.leaks import agent_cgroups
from tests.support.victims import END, Victim
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.needs("grader")

CLIENT = """
import json, sandboxd, sys
sandbox = sandboxd.Sandbox()
namespace = sandbox.run(["readlink", "/proc/self/ns/pid"]).stdout.strip()
sandbox.start("while :; do :; done")
sandbox.run("setsid sleep 300 & setsid sleep 300 &")
process = sandbox.start("setsid sleep 300 & echo up; while :; do :; done", grader=True)
for output in process:
    break
print(json.dumps({"up": namespace}), flush=True)
try:
    process.wait()
except sandboxd.SandboxError as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
sys.stdin.readline()
with sandboxd.Sandbox() as other:
    print(json.dumps({"again": other.run("echo works").stdout}), flush=True)
sandbox.close()
"""

HIDE = """
for each in $(grep -oE "^cgroup2 [^ ]+" /proc/mounts | cut -d" " -f2); do umount $each; done
exec "$@"
"""
ONLY_V1 = ["unshare", "--mount", "sh", "-c", HIDE, "sh"]
"""Words in front of a program that is to see no cgroups of version 2, in mounts of its own."""


@pytest.fixture
def state() -> Iterator[Path]:
    # Short: the path of a socket has to fit into 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sandboxd-g"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _nothing_is_left(victim: Victim) -> bool:
    return not victim.left()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("whom", ["agent", "launcher", "client", "init"])
def test_z13_nothing_is_left_of_a_grader_whoever_is_killed(whom: str, state: Path) -> None:
    for _ in range(3):
        with Victim(state, CLIENT) as victim:
            namespace = victim.event("up", within=30)["up"]
            victim.look()
            assert [path for path in agent_cgroups(victim.agents) if path.name == "sb-1"]
            match whom:
                case "agent":
                    victim.hit(victim.agent().pid)
                case "launcher":
                    victim.hit(victim.launcher().pid)
                case "init":
                    victim.hit(victim.init(namespace).pid)
                case _:
                    victim.hit(victim.process.pid)
            if whom != "client":
                error = victim.event("error")
                # With the launcher both are lost, and either may be heard of first.
                both = {"SandboxLostError", *(["InternalError"] if whom == "launcher" else [])}
                assert error["error"] in both, error
                victim.finish()
            wait_until(partial(_nothing_is_left, victim), within=2 * END)


V1_CLIENT = """
import json, sandboxd, time
(found,) = [each for each in sandboxd.agent_info().capabilities if each.name == "kill.tree"]
count = "wc -c < /tmp/ticks"
with sandboxd.Sandbox() as sandbox:
    late = sandbox.start("while :; do echo x >> /tmp/ticks; sleep 0.01; done", timeout=2.0)
    sandbox.start("while :; do echo x >> /tmp/other; sleep 0.01; done")
    sandbox.run("until [ -s /tmp/ticks ]; do sleep 0.01; done")
    sandbox.files.write("/t", "secret", protected=True)
    seen = sandbox.run(f"{count}; sleep 1; {count}; cat /t; sleep 2", grader=True).stdout.split()
    count = "wc -c < /tmp/other"
    after = sandbox.run(f"cat /t; a=$({count}); until [ $({count}) -gt $a ]; do :; done")
    print(json.dumps({"kind": found.detail, "still": seen[0] == seen[1], "secret": seen[2:],
                      "late": late.wait().cause.value, "after": [after.exit_code, after.stdout]}))
"""


@pytest.mark.needs("root")
def test_z13_the_freezer_of_version_1_stops_a_sandbox_too(state: Path) -> None:
    """And a deadline holds for what is stopped, and what is left goes on."""
    done = subprocess.run(
        [*ONLY_V1, sys.executable, "-W", "error", "-c", V1_CLIENT],
        cwd=ordinary.ROOT,
        env=ordinary.environment(state),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "frozen, then killed" in seen.pop("kind")
    expected = {"still": True, "secret": ["secret"], "late": "timeout", "after": [0, ""]}
    assert seen == expected


@pytest.mark.needs("ordinary")
def test_z13_where_nothing_can_be_frozen_graders_are_refused_with_the_reason() -> None:
    """An ordinary user, who has neither a freezer nor ids for files of another sandbox."""
    code = """
import sandboxd
with sandboxd.Sandbox() as sandbox:
    for call in (lambda: sandbox.run("true", grader=True),
                 lambda: sandbox.files.write("/t", "x", protected=True)):
        try:
            call()
        except sandboxd.UnsupportedError as error:
            print("grader" in str(error) and "run the agent as root" in str(error))
"""
    with ordinary.state_of() as owned:
        argv = [sys.executable, "-c", code]
        done = ordinary.run_as(ordinary.NOBODY, argv, owned, timeout=60)
    assert done.stdout.split() == ["True", "True"], done
