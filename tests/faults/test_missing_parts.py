"""A machine that lacks something: the error names it and what to change, and nothing is left."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import ordinary
from tests.support.alone import leftovers, use
from tests.support.ordinary import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = os.environ.get("SANDBOXD_AGENT_BINARY", ROOT / "sandboxd" / "_bin" / "sandboxd-agent")

IN_A_MOUNT_NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]

FULL_DISK = 'mount -t tmpfs -o size=64k,mode=700 none "$SANDBOXD_STATE"; {fill}; exec "$@"'

WITHOUT_USER_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sandboxd-f"))
    yield folder
    shutil.rmtree(folder)


def _full(fill: str) -> list[str]:
    return [*IN_A_MOUNT_NAMESPACE, FULL_DISK.format(fill=fill), "sh"]


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "fill",
    [
        'head -c 1M /dev/zero > "$SANDBOXD_STATE/full" 2>/dev/null || true',
        (
            'mkdir -m 700 "$SANDBOXD_STATE/agents" "$SANDBOXD_STATE/sockets"; '
            'head -c 1M /dev/zero > "$SANDBOXD_STATE/full" 2>/dev/null || true'
        ),
    ],
    ids=["never-used", "used-before"],
)
def test_a_full_disk_under_the_state_folder_is_named(state: Path, fill: str) -> None:
    name, message = use(state, before=_full(fill))

    # A sandbox needs no disk of the machine: an agent that manages without one is right too.
    assert name in {"StateUnusableError", "none"}, message
    if name != "none":
        assert str(state) in message
        assert "space" in message


@pytest.mark.needs("root")
def test_a_state_folder_without_a_free_file_is_named(state: Path) -> None:
    """No inode left is as full as no block left."""
    script = 'mount -t tmpfs -o nr_inodes=2,mode=700 none "$SANDBOXD_STATE"; exec "$@"'

    name, message = use(state, before=[*IN_A_MOUNT_NAMESPACE, script, "sh"])

    assert name == "StateUnusableError", message
    assert str(state) in message
    assert "space" in message


@pytest.mark.needs("root")
def test_a_read_only_state_folder_is_named(state: Path) -> None:
    script = 'mount -t tmpfs -o ro none "$SANDBOXD_STATE"; exec "$@"'

    name, message = use(state, before=[*IN_A_MOUNT_NAMESPACE, script, "sh"])

    assert name == "StateUnusableError", message
    assert str(state) in message


@pytest.mark.needs("ordinary")
def test_no_user_namespaces_is_named_with_the_setting_to_change() -> None:
    """In a user namespace of the test's own, where no further one may be made."""
    with ordinary.state_of() as state:
        inside = [
            "unshare",
            "--user",
            "--map-root-user",
            "sh",
            "-ec",
            WITHOUT_USER_NAMESPACES,
            "sh",
        ]

        name, message = use(state, before=[*ordinary.become(), *inside])

        assert name in {"UnsupportedError", "LaunchFailedError"}, message
        assert "max_user_namespaces" in message
        assert leftovers(state) == []


@pytest.mark.needs("root")
def test_no_user_namespaces_is_named_to_root_too(state: Path) -> None:
    inside = ["unshare", "--user", "--map-root-user", "sh", "-ec", WITHOUT_USER_NAMESPACES, "sh"]

    name, message = use(state, before=inside)

    assert name in {"UnsupportedError", "LaunchFailedError", "StateUnusableError"}, message
    assert "max_user_namespaces" in message
    assert leftovers(state) == []


OTHER_BUILDS = {
    "another release": "printf 'sandboxd\\1\\2\\3\\4\\5\\6\\7\\10''9.9.9' >&0; cat > /dev/null",
    "one that does not say": "exit 2",
    "something else": "printf 'Usage: something else' >&0; cat > /dev/null",
}


@pytest.mark.parametrize("what", OTHER_BUILDS)
def test_an_init_of_another_build_is_named_before_any_sandbox_is_made(
    state: Path, what: str
) -> None:
    """Agent and init would misread each other: that is not for a claim to find out."""
    with tempfile.TemporaryDirectory(prefix="sandboxd-b") as folder:
        agent = shutil.copy(AGENT, folder)
        init = Path(folder, "sandboxd-init")
        init.write_text(f"#!/bin/sh\n{OTHER_BUILDS[what]}\n")
        init.chmod(0o755)

        name, message = use(state, SANDBOXD_AGENT_BINARY=agent)

    assert name == "VersionMismatchError", message
    assert str(init) in message
    assert "--init" in message
    assert "same build" in message
    if what == "another release":
        assert "9.9.9" in message
    assert leftovers(state) == []


@pytest.mark.needs("ordinary")
@pytest.mark.parametrize(
    ("limit", "named"),
    [("memory=1 << 28", "memory"), ("pids=64", "pids"), ("cpus=1", "cpu")],
)
def test_a_limit_without_a_cgroup_to_enforce_it_is_refused(limit: str, named: str) -> None:
    """Never weaker without saying so: what cannot be enforced does not start."""
    with ordinary.state_of() as state:
        name, message = use(state, before=ordinary.become(), options=f"limits=Limits({limit})")

        assert name == "UnsupportedError", message
        assert named in message
        assert "cgroup" in message
        assert leftovers(state) == []


@pytest.mark.needs("ordinary")
def test_an_ordinary_user_without_cgroups_gets_sandboxes_and_is_told_what_is_missing() -> None:
    tell = "[each.name for each in sandboxd.agent_info().capabilities if not each.available]"
    with ordinary.state_of() as state:
        name, message = use(state, before=ordinary.become(), value=tell)

        assert name == "none", message
        assert "limit.memory" in message
        assert leftovers(state) == []


@pytest.mark.needs("root")
def test_a_template_keeps_its_promise_where_cgroups_are_read_only(state: Path) -> None:
    """The defaults of a template are applied where the host can enforce them, and only there."""
    script = (
        "for each in /sys/fs/cgroup/* /sys/fs/cgroup; do "
        'mount --bind "$each" "$each"; mount -o remount,bind,ro "$each"; done; exec "$@"'
    )
    before = [*IN_A_MOUNT_NAMESPACE, script, "sh"]

    assert use(state, before=before) == ("none", "works\n")
    name, message = use(state, before=before, options="limits=Limits(memory=1 << 28)")

    assert name == "UnsupportedError", message
    assert "memory" in message
    assert leftovers(state) == []
