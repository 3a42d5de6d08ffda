"""From the agent's replies to the values that callers get."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal, cast

from sandboxd.types import (
    AgentInfo,
    Capability,
    Cause,
    Counters,
    ExecInfo,
    ExecResult,
    FileEntry,
    Limits,
    SandboxInfo,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Never

    from sandboxd._native import AgentInfo as NativeAgentInfo
    from sandboxd._native import ExecEnd, ExecSummary, FileRecord, RunReply, SandboxRecord

_NONE: Mapping[str, Never] = {}

_CAUSES = {cause.value: cause for cause in Cause}
_TIMES = (Cause.TIMEOUT, Cause.CPU_LIMIT, Cause.IDLE_OUTPUT_TIMEOUT)


def run_result(exec_id: str, reply: RunReply) -> ExecResult:
    """Build the result of a run."""
    end = reply.end
    stdout, stderr = reply.stdout, reply.stderr
    if reply.stdout_head_bytes is None and reply.stderr_head_bytes is None:
        return exec_result(exec_id, end, stdout, stderr)
    cuts: dict[str, tuple[int, int]] = {}
    hashes: dict[str, str | None] = {}
    if reply.stdout_head_bytes is not None:
        cuts["stdout"] = (reply.stdout_head_bytes, end.stdout_total_bytes - len(stdout))
        hashes["stdout"] = end.stdout_sha256
    if reply.stderr_head_bytes is not None:
        cuts["stderr"] = (reply.stderr_head_bytes, end.stderr_total_bytes - len(stderr))
        hashes["stderr"] = end.stderr_sha256
    return exec_result(exec_id, end, stdout, stderr, cuts=cuts, hashes=hashes)


def exec_result(
    exec_id: str,
    end: ExecEnd,
    stdout: bytes,
    stderr: bytes,
    *,
    cuts: Mapping[str, tuple[int, int]] = _NONE,
    hashes: Mapping[str, str | None] = _NONE,
) -> ExecResult:
    """Build the result of an exec whose output was collected.

    `cuts` and `hashes` are for streams that are not whole: see `ExecResult`.
    """
    cause = _CAUSES[end.cause]
    return ExecResult(
        exec_id=exec_id,
        cause=cause,
        exit_code=end.exit_code,
        signal=end.signal,
        stdout_bytes=stdout,
        stderr_bytes=stderr,
        stdout_total_bytes=end.stdout_total_bytes,
        stderr_total_bytes=end.stderr_total_bytes,
        truncated=bool(cuts),
        duration=end.duration,
        cpu_time=end.cpu_time,
        peak_memory=end.peak_memory,
        limit=_in_unit(cause, end.limit),
        limit_peak=_in_unit(cause, end.limit_peak),
        io_read_bytes=end.io_read_bytes,
        io_write_bytes=end.io_write_bytes,
        _cuts=cuts,
        _hashes=hashes,
    )


def exec_info(exec_: ExecSummary) -> ExecInfo:
    """Build the description of an exec."""
    end = exec_.end
    return ExecInfo(
        exec_id=exec_.exec_id,
        running=exec_.running,
        pid=exec_.pid,
        started_at=_moment(exec_.started_at),
        cause=None if end is None else _CAUSES[end.cause],
        exit_code=None if end is None else end.exit_code,
    )


def agent_description(info: NativeAgentInfo) -> AgentInfo:
    """Build the description of an agent."""
    counters = info.counters
    return AgentInfo(
        version=info.version,
        pid=info.pid,
        capabilities=tuple(Capability(*each) for each in info.capabilities),
        sandboxes=info.sandboxes,
        templates=tuple(info.templates),
        counters=Counters(
            sandboxes_claimed=counters.sandboxes_claimed,
            sandboxes_lost=counters.sandboxes_lost,
            execs_started=counters.execs_started,
            execs_ended=counters.execs_ended,
            output_bytes=counters.output_bytes,
            spilled_bytes=counters.spilled_bytes,
            stdin_bytes=counters.stdin_bytes,
            file_read_bytes=counters.file_read_bytes,
            file_written_bytes=counters.file_written_bytes,
            cpu_time=counters.cpu_time,
        ),
    )


def sandbox_info(record: SandboxRecord) -> SandboxInfo:
    """Build the description of a sandbox."""
    memory, pids, cpu_millis, disk, output = record.limits
    return SandboxInfo(
        id=record.sandbox_id,
        template=record.template,
        state=cast("Literal['starting', 'ready', 'ended']", record.state),
        launch=cast("Literal['warm', 'cold']", record.launch),
        limits=Limits(
            memory=memory,
            pids=pids,
            cpus=None if cpu_millis is None else cpu_millis / 1000,
            disk=disk,
            output=output,
        ),
        id_range=record.id_range,
        startup=record.startup,
        created_at=_moment(record.created_at),
        expires_at=_moment(record.expires_at),
        running_execs=record.running_execs,
        labels=record.labels,
        init_pid=record.init_pid,
    )


def file_entry(record: FileRecord) -> FileEntry:
    """Build the description of a file."""
    return FileEntry(
        name=os.fsdecode(record.name),
        kind=cast("Literal['file', 'directory', 'symlink', 'other']", record.kind),
        size=record.size,
        mode=record.mode,
        uid=record.uid,
        gid=record.gid,
        modified_at=_moment(record.modified_at),
        target=os.fsdecode(record.target),
    )


def _in_unit(cause: Cause, value: int | None) -> float | int | None:
    return value / 1e9 if value is not None and cause in _TIMES else value


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
