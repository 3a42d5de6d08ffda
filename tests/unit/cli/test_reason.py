"""The sentence that names a limit."""

from __future__ import annotations

import pytest

from sandboxd import Cause, ExecResult
from sandboxd.cli.run.reason import reason


def result(cause: Cause, limit: float | None = None, peak: float | None = None) -> ExecResult:
    return ExecResult(
        exec_id="e",
        cause=cause,
        exit_code=None,
        signal=None,
        stdout_bytes=b"",
        stderr_bytes=b"",
        stdout_total_bytes=0,
        stderr_total_bytes=0,
        truncated=False,
        duration=1.0,
        cpu_time=0.5,
        peak_memory=1 << 20,
        limit=limit,
        limit_peak=peak,
    )


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (result(Cause.TIMEOUT, 0.5, 0.502), "timeout (limit 0.5 s, peak 0.502 s)"),
        (
            result(Cause.IDLE_OUTPUT_TIMEOUT, 2.0, 2.25),
            "idle_output_timeout (limit 2 s, peak 2.25 s)",
        ),
        (result(Cause.CPU_LIMIT, 1.0, 1.003), "cpu_limit (limit 1 s, peak 1.003 s)"),
        (
            result(Cause.MEMORY_LIMIT, 64 << 20, 64 << 20),
            "memory_limit (limit 64 MiB, peak 64 MiB)",
        ),
        (result(Cause.PIDS_LIMIT, 32, 32), "pids_limit (limit 32 processes, peak 32 processes)"),
        (result(Cause.OUTPUT_LIMIT, 65_536), "output_limit (limit 64 KiB)"),
        (result(Cause.DISK_LIMIT), "disk_limit"),
    ],
)
def test_a_limit_is_named_with_its_value_and_the_peak(ended: ExecResult, sentence: str) -> None:
    assert reason(ended) == sentence


@pytest.mark.parametrize("cause", [Cause.EXITED, Cause.SIGNALED, Cause.CANCELED])
def test_what_is_no_limit_needs_no_sentence(cause: Cause) -> None:
    assert reason(result(cause)) is None
