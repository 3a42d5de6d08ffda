from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAUSE_UNSPECIFIED: _ClassVar[Cause]
    CAUSE_EXITED: _ClassVar[Cause]
    CAUSE_SIGNALED: _ClassVar[Cause]
    CAUSE_TIMEOUT: _ClassVar[Cause]
    CAUSE_CPU_LIMIT: _ClassVar[Cause]
    CAUSE_MEMORY_LIMIT: _ClassVar[Cause]
    CAUSE_PIDS_LIMIT: _ClassVar[Cause]
    CAUSE_DISK_LIMIT: _ClassVar[Cause]
    CAUSE_OUTPUT_LIMIT: _ClassVar[Cause]
    CAUSE_CANCELED: _ClassVar[Cause]
    CAUSE_IDLE_OUTPUT_TIMEOUT: _ClassVar[Cause]

class OutputPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_POLICY_UNSPECIFIED: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_SPILL: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_BLOCK: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_DROP_OLDEST: _ClassVar[OutputPolicy]

class OutputStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_STREAM_UNSPECIFIED: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDOUT: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDERR: _ClassVar[OutputStream]
CAUSE_UNSPECIFIED: Cause
CAUSE_EXITED: Cause
CAUSE_SIGNALED: Cause
CAUSE_TIMEOUT: Cause
CAUSE_CPU_LIMIT: Cause
CAUSE_MEMORY_LIMIT: Cause
CAUSE_PIDS_LIMIT: Cause
CAUSE_DISK_LIMIT: Cause
CAUSE_OUTPUT_LIMIT: Cause
CAUSE_CANCELED: Cause
CAUSE_IDLE_OUTPUT_TIMEOUT: Cause
OUTPUT_POLICY_UNSPECIFIED: OutputPolicy
OUTPUT_POLICY_SPILL: OutputPolicy
OUTPUT_POLICY_BLOCK: OutputPolicy
OUTPUT_POLICY_DROP_OLDEST: OutputPolicy
OUTPUT_STREAM_UNSPECIFIED: OutputStream
OUTPUT_STREAM_STDOUT: OutputStream
OUTPUT_STREAM_STDERR: OutputStream

class ExecEnvVar(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("argv", "shell", "env", "cwd", "user", "timeout_ns", "idle_output_timeout_ns", "cpu_time_limit_ns", "pty", "grader")
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_OUTPUT_TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_LIMIT_NS_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    GRADER_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[bytes]
    shell: bytes
    env: _containers.RepeatedCompositeFieldContainer[ExecEnvVar]
    cwd: bytes
    user: str
    timeout_ns: int
    idle_output_timeout_ns: int
    cpu_time_limit_ns: int
    pty: Pty
    grader: bool
    def __init__(self, argv: _Optional[_Iterable[bytes]] = ..., shell: _Optional[bytes] = ..., env: _Optional[_Iterable[_Union[ExecEnvVar, _Mapping]]] = ..., cwd: _Optional[bytes] = ..., user: _Optional[str] = ..., timeout_ns: _Optional[int] = ..., idle_output_timeout_ns: _Optional[int] = ..., cpu_time_limit_ns: _Optional[int] = ..., pty: _Optional[_Union[Pty, _Mapping]] = ..., grader: _Optional[bool] = ...) -> None: ...

class Pty(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class ExecRunRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "command", "stdin", "max_output_bytes")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    command: Command
    stdin: bytes
    max_output_bytes: int
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., stdin: _Optional[bytes] = ..., max_output_bytes: _Optional[int] = ...) -> None: ...

class ExecEnd(_message.Message):
    __slots__ = ("cause", "exit_code", "signal", "duration_ns", "cpu_time_ns", "peak_memory_bytes", "limit", "limit_peak", "stdout_total_bytes", "stderr_total_bytes", "io_read_bytes", "io_write_bytes", "stdout_sha256", "stderr_sha256")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PEAK_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    IO_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    IO_WRITE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDOUT_SHA256_FIELD_NUMBER: _ClassVar[int]
    STDERR_SHA256_FIELD_NUMBER: _ClassVar[int]
    cause: Cause
    exit_code: int
    signal: int
    duration_ns: int
    cpu_time_ns: int
    peak_memory_bytes: int
    limit: int
    limit_peak: int
    stdout_total_bytes: int
    stderr_total_bytes: int
    io_read_bytes: int
    io_write_bytes: int
    stdout_sha256: bytes
    stderr_sha256: bytes
    def __init__(self, cause: _Optional[_Union[Cause, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., duration_ns: _Optional[int] = ..., cpu_time_ns: _Optional[int] = ..., peak_memory_bytes: _Optional[int] = ..., limit: _Optional[int] = ..., limit_peak: _Optional[int] = ..., stdout_total_bytes: _Optional[int] = ..., stderr_total_bytes: _Optional[int] = ..., io_read_bytes: _Optional[int] = ..., io_write_bytes: _Optional[int] = ..., stdout_sha256: _Optional[bytes] = ..., stderr_sha256: _Optional[bytes] = ...) -> None: ...

class ExecRunResponse(_message.Message):
    __slots__ = ("end", "stdout", "stderr", "stdout_head_bytes", "stderr_head_bytes")
    END_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDOUT_HEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_HEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    end: ExecEnd
    stdout: bytes
    stderr: bytes
    stdout_head_bytes: int
    stderr_head_bytes: int
    def __init__(self, end: _Optional[_Union[ExecEnd, _Mapping]] = ..., stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., stdout_head_bytes: _Optional[int] = ..., stderr_head_bytes: _Optional[int] = ...) -> None: ...

class ExecStartRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "command", "stdin", "output", "output_window_bytes", "control")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    command: Command
    stdin: bool
    output: OutputPolicy
    output_window_bytes: int
    control: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., stdin: _Optional[bool] = ..., output: _Optional[_Union[OutputPolicy, str]] = ..., output_window_bytes: _Optional[int] = ..., control: _Optional[bool] = ...) -> None: ...

class ExecStartResponse(_message.Message):
    __slots__ = ("pid", "started")
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    pid: int
    started: bool
    def __init__(self, pid: _Optional[int] = ..., started: _Optional[bool] = ...) -> None: ...

class ExecAttachRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "stdout_offset", "stderr_offset", "no_wait", "stream", "length")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NO_WAIT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    stdout_offset: int
    stderr_offset: int
    no_wait: bool
    stream: OutputStream
    length: int
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ..., no_wait: _Optional[bool] = ..., stream: _Optional[_Union[OutputStream, str]] = ..., length: _Optional[int] = ...) -> None: ...

class ExecAttachResponse(_message.Message):
    __slots__ = ("stdout", "stderr", "end")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    stdout: ExecOutput
    stderr: ExecOutput
    end: ExecEnd
    def __init__(self, stdout: _Optional[_Union[ExecOutput, _Mapping]] = ..., stderr: _Optional[_Union[ExecOutput, _Mapping]] = ..., end: _Optional[_Union[ExecEnd, _Mapping]] = ...) -> None: ...

class ExecOutput(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ExecWriteStdinRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "offset", "data", "eof", "control")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    offset: int
    data: bytes
    eof: bool
    control: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., control: _Optional[bool] = ...) -> None: ...

class ExecWriteStdinResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class ExecSignalRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "signal", "cancel")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    signal: int
    cancel: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., signal: _Optional[int] = ..., cancel: _Optional[bool] = ...) -> None: ...

class ExecSignalResponse(_message.Message):
    __slots__ = ("delivered",)
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    delivered: bool
    def __init__(self, delivered: _Optional[bool] = ...) -> None: ...

class ExecResizeRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "size")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    size: Pty
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., size: _Optional[_Union[Pty, _Mapping]] = ...) -> None: ...

class ExecResizeResponse(_message.Message):
    __slots__ = ("resized",)
    RESIZED_FIELD_NUMBER: _ClassVar[int]
    resized: bool
    def __init__(self, resized: _Optional[bool] = ...) -> None: ...

class ExecListRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class ExecSummary(_message.Message):
    __slots__ = ("exec_id", "running", "pid", "started_unix_ns", "end", "stdin_offset", "stdin_ended")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STDIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDIN_ENDED_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    running: bool
    pid: int
    started_unix_ns: int
    end: ExecEnd
    stdin_offset: int
    stdin_ended: bool
    def __init__(self, exec_id: _Optional[str] = ..., running: _Optional[bool] = ..., pid: _Optional[int] = ..., started_unix_ns: _Optional[int] = ..., end: _Optional[_Union[ExecEnd, _Mapping]] = ..., stdin_offset: _Optional[int] = ..., stdin_ended: _Optional[bool] = ...) -> None: ...

class ExecListResponse(_message.Message):
    __slots__ = ("execs",)
    EXECS_FIELD_NUMBER: _ClassVar[int]
    execs: _containers.RepeatedCompositeFieldContainer[ExecSummary]
    def __init__(self, execs: _Optional[_Iterable[_Union[ExecSummary, _Mapping]]] = ...) -> None: ...
