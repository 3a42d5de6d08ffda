"""Finding and starting the agent: every obstacle has its own error, and nothing is left behind."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import (
    AgentMissingError,
    AgentUnreachableError,
    InvalidArgumentError,
    SocketUntrustedError,
    StateUnusableError,
    UsedAfterForkError,
)
from sandboxd.client import _agent, _settings, _state
from sandboxd.client._agent_base import Agent
from sandboxd.client._embedded import EmbeddedAgent

if TYPE_CHECKING:
    from sandboxd.client._settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(_settings.read(), state=tmp_path / "state", socket=None)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_missing_binary_is_named_with_what_to_do(settings: Settings, tmp_path: Path) -> None:
    missing = replace(settings, binary=tmp_path / "nothing")
    with pytest.raises(AgentMissingError, match=r"nothing is missing.*SANDBOXD_AGENT_BINARY"):
        EmbeddedAgent.start(missing)
    assert not missing.state.exists()


def test_a_folder_is_not_a_binary(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(AgentMissingError):
        EmbeddedAgent.start(replace(settings, binary=tmp_path))


def test_a_file_that_is_no_program_leaves_nothing_behind(
    settings: Settings, tmp_path: Path
) -> None:
    binary = tmp_path / "agent"
    binary.write_bytes(b"\x7fELF and then nothing")
    binary.chmod(0o755)
    before = _descriptors()
    with pytest.raises(AgentMissingError, match="cannot be executed"):
        EmbeddedAgent.start(replace(settings, binary=binary))
    assert _descriptors() == before
    assert list((settings.state / _state.SOCKETS).iterdir()) == []


def test_an_agent_that_ends_at_once_is_quoted(settings: Settings, tmp_path: Path) -> None:
    binary = tmp_path / "agent"
    binary.write_text("#!/bin/sh\necho no cgroups here >&2\nexit 3\n")
    binary.chmod(0o755)
    agent = EmbeddedAgent.start(replace(settings, binary=binary))
    agent._process.wait()
    assert agent.is_dead()
    error = agent.unreachable(AgentUnreachableError("refused"))
    assert "status 3" in str(error)
    assert "no cgroups here" in str(error)
    agent.bury()
    assert list((settings.state / _state.SOCKETS).iterdir()) == []


def test_a_state_folder_that_is_a_file_is_refused(settings: Settings) -> None:
    settings.state.write_text("")
    with pytest.raises(StateUnusableError, match="SANDBOXD_STATE"):
        _state.prepare(settings.state)


def test_a_state_folder_that_others_can_enter_is_refused(settings: Settings) -> None:
    settings.state.mkdir()
    settings.state.chmod(0o755)
    with pytest.raises(StateUnusableError, match="chmod 700"):
        _state.prepare(settings.state)


def test_a_state_folder_behind_a_symlink_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    settings.state.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateUnusableError, match="not a directory"):
        _state.prepare(settings.state)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_state_folder_of_somebody_else_is_refused(settings: Settings) -> None:
    settings.state.mkdir(mode=0o700)
    os.chown(settings.state, 12_345, 12_345)
    with pytest.raises(StateUnusableError, match="user 12345"):
        _state.prepare(settings.state)


def test_a_state_folder_whose_name_is_too_long_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    binary = tmp_path / "agent"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    long = replace(settings, binary=binary, state=tmp_path / ("x" * 120))
    with pytest.raises(StateUnusableError, match="path too long"):
        EmbeddedAgent.start(long)


def test_folders_are_for_their_owner_alone(settings: Settings) -> None:
    sockets = _state.prepare(settings.state)
    assert settings.state.stat().st_mode & 0o777 == 0o700
    assert sockets.stat().st_mode & 0o777 == 0o700


def test_sockets_of_dead_processes_are_swept_and_others_stay(settings: Settings) -> None:
    sockets = _state.prepare(settings.state)
    dead, alive, strange = (
        sockets / name for name in ("999999999-ab.sock", f"{os.getpid()}-ab.sock", "mine.sock")
    )
    for path in (dead, alive, strange):
        path.touch()
    _state.sweep(sockets)
    assert sorted(sockets.iterdir()) == sorted([alive, strange])


def test_a_log_has_no_name(settings: Settings) -> None:
    settings.state.mkdir()
    os.close(_state.nameless_file(settings.state))
    assert list(settings.state.iterdir()) == []


def test_a_socket_that_is_not_there_is_unreachable(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(AgentUnreachableError, match="SANDBOXD_SOCKET"):
        _agent._external(settings, str(tmp_path / "none.sock"), "correct SANDBOXD_SOCKET")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_somebody_else_is_not_trusted(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    os.chown(path, 12_345, 12_345)
    with pytest.raises(SocketUntrustedError, match="user 12345"):
        _agent._external(settings, str(path), "")


def test_an_agent_is_refused_in_a_forked_process(settings: Settings) -> None:
    agent = Agent("/nowhere", settings)
    agent.owner += 1
    with pytest.raises(UsedAfterForkError, match="after the fork"):
        agent.check_owner()


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_wrong_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SANDBOXD_KEEPALIVE", text)
    with pytest.raises(InvalidArgumentError, match="SANDBOXD_KEEPALIVE"):
        _settings.read()


def test_variables_win_over_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SANDBOXD_AGENT_BINARY", "/bin/agent")
    monkeypatch.setenv("SANDBOXD_STATE", str(tmp_path))
    monkeypatch.setenv("SANDBOXD_SOCKET", "/run/agent.sock")
    monkeypatch.setenv("SANDBOXD_KEEPALIVE", "1.5")
    settings = _settings.read()
    assert str(settings.binary) == "/bin/agent"
    assert settings.state == tmp_path
    assert (settings.socket, settings.keepalive) == ("/run/agent.sock", 1.5)
