"""An agent that is missing, of another version or somebody else's is refused by name."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import fake_agent, ordinary
from tests.support.alone import leftovers, use

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of our own whose path leaves room for the name of a socket."""
    made = Path(tempfile.mkdtemp(prefix="sandboxd-b"))
    yield made
    shutil.rmtree(made)


def test_a_missing_agent_is_named_and_how_to_get_it(folder: Path) -> None:
    name, message = use(folder, SANDBOXD_AGENT_BINARY="/nope/sandboxd-agent")

    assert name == "AgentMissingError"
    assert "/nope/sandboxd-agent" in message
    assert "SANDBOXD_AGENT_BINARY" in message
    assert leftovers(folder) == []


def test_an_agent_that_is_no_program_is_named(folder: Path) -> None:
    broken = folder / "not-a-program"
    broken.write_text("just text\n")
    state = folder / "state"
    state.mkdir(mode=0o700)

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(broken))

    assert name == "AgentMissingError"
    assert str(broken) in message
    assert leftovers(state) == []


def test_an_agent_that_ends_at_once_is_an_error_with_its_words(folder: Path) -> None:
    broken = folder / "sandboxd-agent"
    broken.write_text("#!/bin/sh\necho this cannot work >&2\nexit 3\n")
    broken.chmod(0o755)
    state = folder / "state"
    state.mkdir(mode=0o700)

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(broken))

    assert name in {"AgentUnreachableError", "ConnectionLostError", "AgentMissingError"}
    assert "this cannot work" in message
    assert leftovers(state) == []


def test_an_agent_of_another_version_is_named_with_both_versions(folder: Path) -> None:
    program = fake_agent.install(folder)
    state = folder / "state"
    state.mkdir(mode=0o700)

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(program))

    assert name == "VersionMismatchError"
    assert fake_agent.VERSION in message
    assert leftovers(state) == []


def test_a_socket_that_nobody_serves_is_unreachable(folder: Path) -> None:
    name, message = use(folder, SANDBOXD_SOCKET=str(folder / "nobody.sock"))

    assert name == "AgentUnreachableError"
    assert "nobody.sock" in message


@pytest.mark.needs("ordinary")
def test_a_socket_owned_by_somebody_else_is_not_trusted(folder: Path) -> None:
    """Who listens there would see every command and invent every answer."""
    path = folder / "foreign.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        os.chown(path, ordinary.NOBODY, ordinary.NOBODY)

        name, message = use(folder, SANDBOXD_SOCKET=str(path))

    assert name == "SocketUntrustedError"
    assert "foreign.sock" in message
    assert str(ordinary.NOBODY) in message


@pytest.mark.needs("ordinary")
def test_a_state_folder_of_somebody_else_is_refused(folder: Path) -> None:
    state = folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 1, 1)

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message
    assert leftovers(state) == []


def test_a_state_folder_that_is_a_file_is_refused(folder: Path) -> None:
    state = folder / "state"
    state.write_text("")

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message


def test_a_state_folder_that_others_may_write_is_refused(folder: Path) -> None:
    """Its sockets could be replaced."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    state.chmod(0o777)

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message


def test_a_state_folder_whose_path_is_too_long_for_a_socket_is_refused(folder: Path) -> None:
    state = folder / ("x" * 120)
    state.mkdir(mode=0o700)

    name, message = use(state)

    assert name in {"StateUnusableError", "none"}, message


def test_a_program_that_used_a_sandbox_leaves_nothing(folder: Path) -> None:
    assert use(folder) == ("none", "works\n")
    assert leftovers(folder) == []
