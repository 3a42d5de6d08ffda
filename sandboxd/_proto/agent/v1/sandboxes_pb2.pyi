from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Launch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAUNCH_UNSPECIFIED: _ClassVar[Launch]
    LAUNCH_WARM: _ClassVar[Launch]
    LAUNCH_COLD: _ClassVar[Launch]

class SandboxState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_STATE_UNSPECIFIED: _ClassVar[SandboxState]
    SANDBOX_STATE_STARTING: _ClassVar[SandboxState]
    SANDBOX_STATE_READY: _ClassVar[SandboxState]
    SANDBOX_STATE_ENDED: _ClassVar[SandboxState]
    SANDBOX_STATE_WARM: _ClassVar[SandboxState]
LAUNCH_UNSPECIFIED: Launch
LAUNCH_WARM: Launch
LAUNCH_COLD: Launch
SANDBOX_STATE_UNSPECIFIED: SandboxState
SANDBOX_STATE_STARTING: SandboxState
SANDBOX_STATE_READY: SandboxState
SANDBOX_STATE_ENDED: SandboxState
SANDBOX_STATE_WARM: SandboxState

class SandboxesInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SandboxesInfoResponse(_message.Message):
    __slots__ = ("version", "pid", "capabilities", "sandboxes", "templates", "counters")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    version: str
    pid: int
    capabilities: _containers.RepeatedCompositeFieldContainer[Capability]
    sandboxes: int
    templates: _containers.RepeatedScalarFieldContainer[str]
    counters: Counters
    def __init__(self, version: _Optional[str] = ..., pid: _Optional[int] = ..., capabilities: _Optional[_Iterable[_Union[Capability, _Mapping]]] = ..., sandboxes: _Optional[int] = ..., templates: _Optional[_Iterable[str]] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("sandboxes_claimed", "sandboxes_lost", "execs_started", "execs_ended", "output_bytes", "spilled_bytes", "stdin_bytes", "file_read_bytes", "file_written_bytes", "cpu_time_ns")
    class ExecsEndedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SANDBOXES_CLAIMED_FIELD_NUMBER: _ClassVar[int]
    SANDBOXES_LOST_FIELD_NUMBER: _ClassVar[int]
    EXECS_STARTED_FIELD_NUMBER: _ClassVar[int]
    EXECS_ENDED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILE_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILE_WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    sandboxes_claimed: int
    sandboxes_lost: int
    execs_started: int
    execs_ended: _containers.ScalarMap[str, int]
    output_bytes: int
    spilled_bytes: int
    stdin_bytes: int
    file_read_bytes: int
    file_written_bytes: int
    cpu_time_ns: int
    def __init__(self, sandboxes_claimed: _Optional[int] = ..., sandboxes_lost: _Optional[int] = ..., execs_started: _Optional[int] = ..., execs_ended: _Optional[_Mapping[str, int]] = ..., output_bytes: _Optional[int] = ..., spilled_bytes: _Optional[int] = ..., stdin_bytes: _Optional[int] = ..., file_read_bytes: _Optional[int] = ..., file_written_bytes: _Optional[int] = ..., cpu_time_ns: _Optional[int] = ...) -> None: ...

class Capability(_message.Message):
    __slots__ = ("name", "available", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    available: bool
    detail: str
    def __init__(self, name: _Optional[str] = ..., available: _Optional[bool] = ..., detail: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("memory_bytes", "pids", "cpu_millis", "disk_bytes", "output_bytes")
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    memory_bytes: int
    pids: int
    cpu_millis: int
    disk_bytes: int
    output_bytes: int
    def __init__(self, memory_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., cpu_millis: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ...) -> None: ...

class EnvVar(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class SandboxesClaimRequest(_message.Message):
    __slots__ = ("sandbox_id", "template", "limits", "ttl_ns", "idle_timeout_ns", "env", "cwd", "user", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TTL_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    template: str
    limits: Limits
    ttl_ns: int
    idle_timeout_ns: int
    env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    cwd: bytes
    user: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, sandbox_id: _Optional[str] = ..., template: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., ttl_ns: _Optional[int] = ..., idle_timeout_ns: _Optional[int] = ..., env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., cwd: _Optional[bytes] = ..., user: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SandboxesClaimResponse(_message.Message):
    __slots__ = ("sandbox",)
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ...) -> None: ...

class SandboxesWarmRequest(_message.Message):
    __slots__ = ("sandbox_id", "template")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    template: str
    def __init__(self, sandbox_id: _Optional[str] = ..., template: _Optional[str] = ...) -> None: ...

class SandboxesWarmResponse(_message.Message):
    __slots__ = ("sandbox",)
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ...) -> None: ...

class Sandbox(_message.Message):
    __slots__ = ("sandbox_id", "template", "state", "launch", "startup_ns", "limits", "id_range", "created_unix_ns", "expires_unix_ns", "running_execs", "labels", "init_pid", "warmed_as", "warmed_startup_ns", "cold_because")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    STARTUP_NS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    ID_RANGE_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_EXECS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INIT_PID_FIELD_NUMBER: _ClassVar[int]
    WARMED_AS_FIELD_NUMBER: _ClassVar[int]
    WARMED_STARTUP_NS_FIELD_NUMBER: _ClassVar[int]
    COLD_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    template: str
    state: SandboxState
    launch: Launch
    startup_ns: int
    limits: Limits
    id_range: int
    created_unix_ns: int
    expires_unix_ns: int
    running_execs: int
    labels: _containers.ScalarMap[str, str]
    init_pid: int
    warmed_as: str
    warmed_startup_ns: int
    cold_because: str
    def __init__(self, sandbox_id: _Optional[str] = ..., template: _Optional[str] = ..., state: _Optional[_Union[SandboxState, str]] = ..., launch: _Optional[_Union[Launch, str]] = ..., startup_ns: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., id_range: _Optional[int] = ..., created_unix_ns: _Optional[int] = ..., expires_unix_ns: _Optional[int] = ..., running_execs: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., init_pid: _Optional[int] = ..., warmed_as: _Optional[str] = ..., warmed_startup_ns: _Optional[int] = ..., cold_because: _Optional[str] = ...) -> None: ...

class SandboxesListRequest(_message.Message):
    __slots__ = ("labels", "include_ended", "include_warm")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ENDED_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_WARM_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    include_ended: bool
    include_warm: bool
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., include_ended: _Optional[bool] = ..., include_warm: _Optional[bool] = ...) -> None: ...

class SandboxesListResponse(_message.Message):
    __slots__ = ("sandboxes",)
    SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    sandboxes: _containers.RepeatedCompositeFieldContainer[Sandbox]
    def __init__(self, sandboxes: _Optional[_Iterable[_Union[Sandbox, _Mapping]]] = ...) -> None: ...

class SandboxesReleaseRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class SandboxesReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: _Optional[bool] = ...) -> None: ...
