"""The command line against the real agent, as a shell would use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SANDBOXD = Path(sys.executable).with_name("sandboxd")


def sandboxd(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end; without `stdin` there is nothing to read."""
    command = [str(SANDBOXD), *arguments]
    return subprocess.run(command, input=stdin or b"", capture_output=True, timeout=50, check=False)


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command beside the test; it has ended when the block has."""
    process = subprocess.Popen(
        [SANDBOXD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        with process:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_output_and_exit_code_are_those_of_the_program() -> None:
    done = sandboxd("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")

    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)


def test_options_after_the_program_belong_to_the_program() -> None:
    assert sandboxd("run", "echo", "--json", "--timeout", "x").stdout == b"--json --timeout x\n"


def test_h14_an_open_stdin_that_nobody_closes_is_not_waited_for() -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [SANDBOXD, "run", "true"], stdin=reader, capture_output=True, timeout=30, check=False
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 0


def test_an_open_stdin_that_is_passed_on_is_not_waited_for_either() -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [SANDBOXD, "run", "-i", "true"],
            stdin=reader,
            capture_output=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 0


def test_stdin_reaches_the_program_only_when_asked_for() -> None:
    data = bytes(range(256)) * 4096

    assert sandboxd("run", "--", "cat", stdin=data).stdout == b""
    assert sandboxd("run", "-i", "--", "cat", stdin=data).stdout == data


def test_a_timeout_ends_the_program_and_is_named() -> None:
    done = sandboxd("run", "--timeout", "0.5", "--", "sh", "-c", "echo early; sleep 60")

    assert (done.stdout, done.returncode) == (b"early\n", 124)
    assert b"timeout" in done.stderr


def test_silence_ends_the_program_and_is_named() -> None:
    done = sandboxd("run", "--idle-output-timeout", "0.5", "--", "sh", "-c", "echo hi; sleep 60")

    assert (done.stdout, done.returncode) == (b"hi\n", 124)
    assert b"idle_output_timeout (limit 0.5 s" in done.stderr


@pytest.mark.needs("limit.cpu_time")
def test_used_up_cpu_time_ends_the_program_and_is_named() -> None:
    done = sandboxd("run", "--cpu-time", "0.3", "--", "sh", "-c", "while :; do :; done")

    assert done.returncode == 137
    assert b"cpu_limit (limit 0.3 s" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("ls", "--json"), ("ls",), ("ls", "--agents"), ("doctor",), ("doctor", "--json")],
    ids=" ".join,
)
def test_a_full_disk_behind_stdout_is_named_and_no_success(arguments: tuple[str, ...]) -> None:
    """So that a script which keeps the list does not go on with half of it."""
    with running("run", "--", "sh", "-c", "echo up; sleep 60") as process:
        assert first_line(process) == b"up\n"
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [SANDBOXD, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=50, check=False
            )

    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    assert b"cannot write to stdout: No space left on device" in done.stderr


def test_an_output_limit_is_named_with_its_value() -> None:
    done = sandboxd("run", "--output", "64K", "--", "yes")

    assert done.returncode == 137
    assert b"output_limit" in done.stderr
    assert b"64 KiB" in done.stderr


def test_a_signal_that_ended_the_program_shows_as_a_shell_shows_it() -> None:
    assert sandboxd("run", "--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("run", "--", "no-such-program"), 127, b"no-such-program"),
        (("run", "--", "/etc/passwd"), 126, b"/etc/passwd"),
        (("run", "--cwd", "/nope", "--", "true"), 126, b"/nope"),
        (("run", "--user", "nobody-here", "--", "true"), 126, b"nobody-here"),
        (("run", "--template", "nope", "--", "true"), 125, b"nope"),
        (("run", "--memory", "much", "--", "true"), 2, b"512M"),
    ],
)
def test_what_cannot_run_has_its_own_exit_code_and_names_what_is_wrong(
    arguments: tuple[str, ...], code: int, word: bytes
) -> None:
    done = sandboxd(*arguments)

    assert done.returncode == code
    assert word in done.stderr
    assert b"Traceback" not in done.stderr


def test_json_has_the_output_and_the_cause() -> None:
    done = sandboxd("run", "--json", "--", "sh", "-c", "echo hi; exit 3")
    result = json.loads(done.stdout)

    assert done.returncode == 3
    assert (result["cause"], result["exit_code"], result["stdout"]) == ("exited", 3, "hi\n")


def test_environment_and_directory_are_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSED_ON", "from here")
    monkeypatch.setenv("KEPT_BACK", "secret")
    done = sandboxd(
        "run", "-e", "GIVEN=a=b", "-e", "PASSED_ON", "--cwd", "/tmp", "--", "sh", "-c", "pwd; env"
    )

    lines = done.stdout.decode().splitlines()
    assert lines[0] == "/tmp"
    assert {"GIVEN=a=b", "PASSED_ON=from here"} <= set(lines)
    assert not any("KEPT_BACK" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_ends_the_sandbox(number: signal.Signals) -> None:
    with running("run", "--", "sh", "-c", "echo up; sleep 60") as process:
        assert first_line(process) == b"up\n"

        process.send_signal(number)

        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert b"Traceback" not in stderr


def test_a_reader_that_goes_away_ends_the_program() -> None:
    with running("run", "--", "yes") as process:
        assert first_line(process) == b"y\n"
        assert process.stdout is not None
        process.stdout.close()

        assert process.wait(timeout=30) == 128 + signal.SIGPIPE

        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ls_shows_the_sandboxes_of_running_agents() -> None:
    with running("run", "--", "sh", "-c", "echo up; sleep 60") as process:
        assert first_line(process) == b"up\n"
        listed = json.loads(sandboxd("ls", "--json").stdout)
        table = sandboxd("ls").stdout.decode()

    mine = [each for each in listed if each["running_execs"] == 1]
    assert [each["template"] for each in mine] == ["host"]
    assert mine[0]["id"] in table


def test_ls_shows_what_each_agent_has_done() -> None:
    with running("run", "--", "sh", "-c", "echo up; sleep 60") as process:
        assert first_line(process) == b"up\n"
        listed = json.loads(sandboxd("ls", "--agents", "--json").stdout)
        table = sandboxd("ls", "--agents").stdout.decode()

    (mine,) = [each for each in listed if each["counters"]["execs_ended"] == {}]
    assert mine["counters"]["execs_started"] == mine["counters"]["sandboxes_claimed"] == 1
    assert mine["sandboxes"] == 1
    assert str(mine["pid"]) in table


def test_z15_the_doctor_finds_every_boundary_whole() -> None:
    done = sandboxd("doctor", "--json")
    report = json.loads(done.stdout)

    crossed = [each for each in report["boundary"] if each["holds"] is False]
    assert crossed == []
