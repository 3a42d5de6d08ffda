"""An agent that is missing, of another version or somebody else's is refused by name."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support import fake_agent, ordinary
from tests.support.alone import leftovers, use


def test_a_missing_agent_is_named_and_how_to_get_it(tmp_path: Path) -> None:
    name, message = use(tmp_path, SANDBOXD_AGENT_BINARY="/nope/sandboxd-agent")

    assert name == "AgentMissingError"
    assert "/nope/sandboxd-agent" in message
    assert "SANDBOXD_AGENT_BINARY" in message
    assert leftovers(tmp_path) == []


def test_an_agent_that_is_no_program_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "not-a-program"
    broken.write_text("just text\n")
    state = tmp_path / "state"
    state.mkdir()

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(broken))

    assert name == "AgentMissingError"
    assert str(broken) in message
    assert leftovers(state) == []


def test_an_agent_that_ends_at_once_is_an_error_with_its_words(tmp_path: Path) -> None:
    broken = tmp_path / "sandboxd-agent"
    broken.write_text("#!/bin/sh\necho this cannot work >&2\nexit 3\n")
    broken.chmod(0o755)
    state = tmp_path / "state"
    state.mkdir()

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(broken))

    assert name in {"AgentUnreachableError", "ConnectionLostError", "AgentMissingError"}
    assert "this cannot work" in message
    assert leftovers(state) == []


def test_an_agent_of_another_version_is_named_with_both_versions(tmp_path: Path) -> None:
    program = fake_agent.install(tmp_path)
    state = tmp_path / "state"
    state.mkdir()

    name, message = use(state, SANDBOXD_AGENT_BINARY=str(program))

    assert name == "VersionMismatchError"
    assert fake_agent.VERSION in message
    assert leftovers(state) == []


def test_a_socket_that_nobody_serves_is_unreachable(tmp_path: Path) -> None:
    name, message = use(tmp_path, SANDBOXD_SOCKET=str(tmp_path / "nobody.sock"))

    assert name == "AgentUnreachableError"
    assert "nobody.sock" in message


@pytest.mark.needs("ordinary")
def test_a_socket_owned_by_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    """Who listens there would see every command and invent every answer."""
    path = tmp_path / "foreign.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        os.chown(path, ordinary.NOBODY, ordinary.NOBODY)

        name, message = use(tmp_path, SANDBOXD_SOCKET=str(path))

    assert name == "SocketUntrustedError"
    assert "foreign.sock" in message
    assert str(ordinary.NOBODY) in message


@pytest.mark.needs("ordinary")
def test_a_state_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o777)
    os.chown(state, 1, 1)

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message
    assert leftovers(state) == []


def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("")

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message


def test_a_state_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """Its sockets could be replaced."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)

    name, message = use(state)

    assert name == "StateUnusableError"
    assert str(state) in message


def test_a_state_folder_whose_path_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    state = tmp_path / ("x" * 120)
    state.mkdir()

    name, message = use(state)

    assert name in {"StateUnusableError", "none"}, message


def test_a_program_that_used_a_sandbox_leaves_nothing(tmp_path: Path) -> None:
    assert use(tmp_path) == ("none", "works\n")
    assert leftovers(tmp_path) == []
