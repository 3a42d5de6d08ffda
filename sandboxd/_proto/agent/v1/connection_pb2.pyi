from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("client_version", "token")
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    client_version: str
    token: str
    def __init__(self, client_version: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("agent_version", "pid")
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    agent_version: str
    pid: int
    def __init__(self, agent_version: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "may_have_run", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAY_HAVE_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    may_have_run: bool
    reason: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., may_have_run: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
