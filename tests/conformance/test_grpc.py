"""gRPC and frames reach one handler: what one began the other sees, and both say the same."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from sandboxd import AsyncSandbox, Sandbox
from sandboxd._proto.agent.v1 import (
    connection_pb2,
    exec_pb2,
    exec_pb2_grpc,
    files_pb2,
    files_pb2_grpc,
    sandboxes_pb2,
    sandboxes_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    """A plain gRPC connection to the agent of this process."""
    with Sandbox() as sandbox:
        sandbox.ready()
    (path,) = Path(os.environ["SANDBOXD_STATE"], "sockets").glob("*.sock")
    options = [
        ("grpc.default_authority", "localhost"),
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.insecure_channel(f"unix:{path}", options=options) as made:
        yield made


@pytest.fixture
def claimed(channel: grpc.Channel) -> Iterator[str]:
    """A sandbox that was claimed over gRPC."""
    sandbox_id = f"grpc-{secrets.token_hex(4)}"
    stub = sandboxes_pb2_grpc.SandboxesStub(channel)
    request = sandboxes_pb2.SandboxesClaimRequest(sandbox_id=sandbox_id, template="host")
    answer = stub.Claim(request)
    assert answer.sandbox.state == sandboxes_pb2.SANDBOX_STATE_READY
    yield sandbox_id
    stub.Release(sandboxes_pb2.SandboxesReleaseRequest(sandbox_id=sandbox_id))


def _run(sandbox_id: str, shell: bytes) -> exec_pb2.ExecRunRequest:
    command = exec_pb2.Command(shell=shell)
    return exec_pb2.ExecRunRequest(
        sandbox_id=sandbox_id, exec_id=secrets.token_hex(8), command=command
    )


def test_a_command_has_the_same_result_over_both(channel: grpc.Channel) -> None:
    line = "seq 1 2000; echo err >&2; exit 7"
    with Sandbox() as sandbox:
        ours = sandbox.run(line)
        theirs = exec_pb2_grpc.ExecStub(channel).Run(_run(sandbox.id, line.encode()))

    assert theirs.stdout == ours.stdout_bytes
    assert theirs.stderr == ours.stderr_bytes
    assert theirs.end.exit_code == ours.exit_code == 7
    assert theirs.end.cause == exec_pb2.CAUSE_EXITED
    assert theirs.end.stdout_total_bytes == ours.stdout_total_bytes


def test_a_sandbox_claimed_over_one_is_listed_and_released_over_the_other(
    channel: grpc.Channel,
) -> None:
    stub = sandboxes_pb2_grpc.SandboxesStub(channel)
    with Sandbox(labels={"who": "frames"}) as sandbox:
        sandbox.ready()
        request = sandboxes_pb2.SandboxesListRequest(labels={"who": "frames"})
        assert [each.sandbox_id for each in stub.List(request).sandboxes] == [sandbox.id]
        released = stub.Release(sandboxes_pb2.SandboxesReleaseRequest(sandbox_id=sandbox.id))
        assert released.released
        again = stub.Release(sandboxes_pb2.SandboxesReleaseRequest(sandbox_id=sandbox.id))
        assert not again.released
        assert stub.List(request).sandboxes == []


async def test_an_exec_started_by_frames_is_attached_to_over_grpc(channel: grpc.Channel) -> None:
    async with AsyncSandbox() as sandbox:
        process = await sandbox.start("echo early; sleep 0.5; echo late; exit 3", exec_id="shared")
        assert (await process.wait()).exit_code == 3
        request = exec_pb2.ExecAttachRequest(sandbox_id=sandbox.id, exec_id="shared")
        events = list(exec_pb2_grpc.ExecStub(channel).Attach(request))

    output = b"".join(each.stdout.data for each in events if each.WhichOneof("event") == "stdout")
    assert output == b"early\nlate\n"
    assert events[-1].end.exit_code == 3


def test_stdin_written_twice_at_one_offset_is_taken_once(
    channel: grpc.Channel, claimed: str
) -> None:
    stub = exec_pb2_grpc.ExecStub(channel)
    command = exec_pb2.Command(argv=[b"cat"])
    stub.Start(
        exec_pb2.ExecStartRequest(sandbox_id=claimed, exec_id="cat", command=command, stdin=True)
    )
    for _ in range(2):
        write = exec_pb2.ExecWriteStdinRequest(
            sandbox_id=claimed, exec_id="cat", offset=0, data=b"once"
        )
        assert stub.WriteStdin(write).offset == 4
    end = exec_pb2.ExecWriteStdinRequest(
        sandbox_id=claimed, exec_id="cat", offset=4, data=b"!", eof=True
    )
    stub.WriteStdin(end)
    events = list(stub.Attach(exec_pb2.ExecAttachRequest(sandbox_id=claimed, exec_id="cat")))

    output = b"".join(each.stdout.data for each in events)
    assert output == b"once!"


def test_a_terminal_is_resized_and_nothing_else_is(channel: grpc.Channel, claimed: str) -> None:
    stub = exec_pb2_grpc.ExecStub(channel)
    argv = [b"sh", b"-c", b"read x; stty size"]
    command = exec_pb2.Command(argv=argv, pty=exec_pb2.Pty(rows=5, columns=6))
    start = exec_pb2.ExecStartRequest(sandbox_id=claimed, exec_id="terminal", command=command)
    stub.Start(start)
    size = exec_pb2.Pty(rows=41, columns=43)
    resize = exec_pb2.ExecResizeRequest(sandbox_id=claimed, exec_id="terminal", size=size)
    assert stub.Resize(resize).resized
    stub.WriteStdin(
        exec_pb2.ExecWriteStdinRequest(sandbox_id=claimed, exec_id="terminal", data=b"\n")
    )
    events = list(stub.Attach(exec_pb2.ExecAttachRequest(sandbox_id=claimed, exec_id="terminal")))
    assert b"".join(each.stdout.data for each in events).endswith(b"41 43\r\n")
    assert not stub.Resize(resize).resized
    command = exec_pb2.Command(argv=[b"sleep", b"5"])
    start = exec_pb2.ExecStartRequest(sandbox_id=claimed, exec_id="plain", command=command)
    stub.Start(start)
    resize.exec_id = "plain"
    with pytest.raises(grpc.RpcError, match="pty"):
        stub.Resize(resize)


def test_a_file_is_written_and_read_in_parts(channel: grpc.Channel, claimed: str) -> None:
    stub = files_pb2_grpc.FilesStub(channel)
    target = files_pb2.FilesWriteTarget(sandbox_id=claimed, path=b"/tmp/f")
    parts = [files_pb2.FilesWriteRequest(target=target)]
    parts += [files_pb2.FilesWriteRequest(data=bytes([n]) * 100_000) for n in range(20)]

    assert stub.Write(iter(parts)).size == 2_000_000
    read = stub.Read(files_pb2.FilesReadRequest(sandbox_id=claimed, path=b"/tmp/f"))
    data = b"".join(each.data for each in read)

    assert data == b"".join(bytes([n]) * 100_000 for n in range(20))


def test_a_failure_carries_the_same_code_as_over_frames(
    channel: grpc.Channel, claimed: str
) -> None:
    """The details of the status are our own error message."""
    failing = {
        "sandbox_not_found": _run("no-such-sandbox", b"true"),
        "invalid_argument": _run(claimed, b""),
        "exec_failed": exec_pb2.ExecRunRequest(
            sandbox_id=claimed,
            exec_id="missing",
            command=exec_pb2.Command(argv=[b"/nope"]),
        ),
    }
    for code, request in failing.items():
        with pytest.raises(grpc.RpcError) as raised:
            exec_pb2_grpc.ExecStub(channel).Run(request)
        assert _details(raised.value).code == code


def test_an_attach_says_whether_an_id_never_was_or_is_not_kept_any_more(
    channel: grpc.Channel, claimed: str
) -> None:
    stub = exec_pb2_grpc.ExecStub(channel)
    early = _run(claimed, b"echo early")
    stub.Run(early)
    for _ in range(1_024):
        stub.Run(_run(claimed, b"true"))
    for exec_id, code, reason, may_have_run in (
        ("never", "exec_not_found", "", False),
        (early.exec_id, "exec_expired", "forgotten", True),
    ):
        request = exec_pb2.ExecAttachRequest(sandbox_id=claimed, exec_id=exec_id)
        with pytest.raises(grpc.RpcError) as raised:
            list(stub.Attach(request))
        error = _details(raised.value)
        assert error.code == code
        assert (error.reason, error.may_have_run) == (reason, may_have_run)
        assert exec_id in error.message


def test_what_a_call_cannot_take_is_refused_by_name(channel: grpc.Channel, claimed: str) -> None:
    """The agent does not rely on what our own SDK checks."""
    stub = exec_pb2_grpc.ExecStub(channel)
    command = exec_pb2.Command(argv=[b"cat"])
    started = exec_pb2.ExecStartRequest(
        sandbox_id=claimed, exec_id="cat", command=command, stdin=True
    )
    stub.Start(started)
    stub.WriteStdin(
        exec_pb2.ExecWriteStdinRequest(sandbox_id=claimed, exec_id="cat", data=b"x", eof=True)
    )
    long = exec_pb2.Command(argv=[b"touch", b"x" * (10 << 20)])
    other = exec_pb2.Command(argv=[b"touch", b"/tmp/ran"])
    refused: dict[str, Callable[[], object]] = {
        "argv[1]": lambda: stub.Run(
            exec_pb2.ExecRunRequest(sandbox_id=claimed, exec_id="long", command=long)
        ),
        "names another command": lambda: stub.Run(
            exec_pb2.ExecRunRequest(sandbox_id=claimed, exec_id="cat", command=other)
        ),
        "ended after 1 bytes": lambda: stub.WriteStdin(
            exec_pb2.ExecWriteStdinRequest(sandbox_id=claimed, exec_id="cat", offset=1, data=b"y")
        ),
        "signal is 99": lambda: stub.Signal(
            exec_pb2.ExecSignalRequest(sandbox_id=claimed, exec_id="cat", signal=99)
        ),
    }
    for named, call in refused.items():
        with pytest.raises(grpc.RpcError) as raised:
            call()
        error = _details(raised.value)
        assert named in error.message
        assert not error.may_have_run


def _details(error: grpc.RpcError) -> connection_pb2.Error:
    """Our own error message in a status."""
    assert isinstance(error, grpc.Call)
    metadata = {entry.key: entry.value for entry in error.trailing_metadata()}
    details = metadata["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    message = connection_pb2.Error.FromString(details)
    assert message.message == error.details()
    return message


def test_large_output_meets_no_default_of_the_protocol(channel: grpc.Channel, claimed: str) -> None:
    request = _run(claimed, b"head -c 6000000 /dev/zero")

    assert len(exec_pb2_grpc.ExecStub(channel).Run(request).stdout) == 6_000_000
