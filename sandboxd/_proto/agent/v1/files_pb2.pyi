from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FileKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_KIND_UNSPECIFIED: _ClassVar[FileKind]
    FILE_KIND_FILE: _ClassVar[FileKind]
    FILE_KIND_DIRECTORY: _ClassVar[FileKind]
    FILE_KIND_SYMLINK: _ClassVar[FileKind]
    FILE_KIND_OTHER: _ClassVar[FileKind]

class FileEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_EVENT_KIND_UNSPECIFIED: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_CREATED: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_MODIFIED: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_CLOSED: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_ATTRIBUTES: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_DELETED: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_MOVED_FROM: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_MOVED_TO: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_OVERFLOW: _ClassVar[FileEventKind]
    FILE_EVENT_KIND_GONE: _ClassVar[FileEventKind]
FILE_KIND_UNSPECIFIED: FileKind
FILE_KIND_FILE: FileKind
FILE_KIND_DIRECTORY: FileKind
FILE_KIND_SYMLINK: FileKind
FILE_KIND_OTHER: FileKind
FILE_EVENT_KIND_UNSPECIFIED: FileEventKind
FILE_EVENT_KIND_CREATED: FileEventKind
FILE_EVENT_KIND_MODIFIED: FileEventKind
FILE_EVENT_KIND_CLOSED: FileEventKind
FILE_EVENT_KIND_ATTRIBUTES: FileEventKind
FILE_EVENT_KIND_DELETED: FileEventKind
FILE_EVENT_KIND_MOVED_FROM: FileEventKind
FILE_EVENT_KIND_MOVED_TO: FileEventKind
FILE_EVENT_KIND_OVERFLOW: FileEventKind
FILE_EVENT_KIND_GONE: FileEventKind

class FilesReadRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "offset", "length", "tail", "version")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    offset: int
    length: int
    tail: int
    version: bytes
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., tail: _Optional[int] = ..., version: _Optional[bytes] = ...) -> None: ...

class FilesReadResponse(_message.Message):
    __slots__ = ("data", "version", "offset", "size")
    DATA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    version: bytes
    offset: int
    size: int
    def __init__(self, data: _Optional[bytes] = ..., version: _Optional[bytes] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class FilesWriteRequest(_message.Message):
    __slots__ = ("target", "data")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    target: FilesWriteTarget
    data: bytes
    def __init__(self, target: _Optional[_Union[FilesWriteTarget, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class FilesWriteTarget(_message.Message):
    __slots__ = ("sandbox_id", "path", "mode", "user", "parents", "upload_id", "offset", "partial", "protected")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    mode: int
    user: str
    parents: bool
    upload_id: str
    offset: int
    partial: bool
    protected: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., mode: _Optional[int] = ..., user: _Optional[str] = ..., parents: _Optional[bool] = ..., upload_id: _Optional[str] = ..., offset: _Optional[int] = ..., partial: _Optional[bool] = ..., protected: _Optional[bool] = ...) -> None: ...

class FilesWriteResponse(_message.Message):
    __slots__ = ("size", "sha256")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    size: int
    sha256: bytes
    def __init__(self, size: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class FileEntry(_message.Message):
    __slots__ = ("name", "kind", "size", "mode", "uid", "gid", "modified_unix_ns", "target")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    kind: FileKind
    size: int
    mode: int
    uid: int
    gid: int
    modified_unix_ns: int
    target: bytes
    def __init__(self, name: _Optional[bytes] = ..., kind: _Optional[_Union[FileKind, str]] = ..., size: _Optional[int] = ..., mode: _Optional[int] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., modified_unix_ns: _Optional[int] = ..., target: _Optional[bytes] = ...) -> None: ...

class FilesStatRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "follow")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    follow: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., follow: _Optional[bool] = ...) -> None: ...

class FilesStatResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: FileEntry
    def __init__(self, entry: _Optional[_Union[FileEntry, _Mapping]] = ...) -> None: ...

class FilesListRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "recursive")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    recursive: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., recursive: _Optional[bool] = ...) -> None: ...

class FilesListResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[FileEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ...) -> None: ...

class FilesRemoveRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "recursive")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    recursive: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., recursive: _Optional[bool] = ...) -> None: ...

class FilesRemoveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FilesMakeDirRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "parents", "mode", "protected")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    parents: bool
    mode: int
    protected: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., parents: _Optional[bool] = ..., mode: _Optional[int] = ..., protected: _Optional[bool] = ...) -> None: ...

class FilesMakeDirResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FilesMoveRequest(_message.Message):
    __slots__ = ("sandbox_id", "source", "target", "replace")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    source: bytes
    target: bytes
    replace: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., source: _Optional[bytes] = ..., target: _Optional[bytes] = ..., replace: _Optional[bool] = ...) -> None: ...

class FilesMoveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FilesAbandonRequest(_message.Message):
    __slots__ = ("sandbox_id", "upload_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    upload_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., upload_id: _Optional[str] = ...) -> None: ...

class FilesAbandonResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FilesArchiveRequest(_message.Message):
    __slots__ = ("sandbox_id", "path")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ...) -> None: ...

class FilesArchiveResponse(_message.Message):
    __slots__ = ("data", "entries", "skipped")
    DATA_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    entries: int
    skipped: int
    def __init__(self, data: _Optional[bytes] = ..., entries: _Optional[int] = ..., skipped: _Optional[int] = ...) -> None: ...

class FilesExtractRequest(_message.Message):
    __slots__ = ("target", "data")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    target: FilesExtractTarget
    data: bytes
    def __init__(self, target: _Optional[_Union[FilesExtractTarget, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class FilesExtractTarget(_message.Message):
    __slots__ = ("sandbox_id", "path", "user", "upload_id", "offset", "partial")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    user: str
    upload_id: str
    offset: int
    partial: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., user: _Optional[str] = ..., upload_id: _Optional[str] = ..., offset: _Optional[int] = ..., partial: _Optional[bool] = ...) -> None: ...

class FilesExtractResponse(_message.Message):
    __slots__ = ("size", "entries")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    size: int
    entries: int
    def __init__(self, size: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...

class FilesWatchRequest(_message.Message):
    __slots__ = ("sandbox_id", "path", "recursive")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    path: bytes
    recursive: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., path: _Optional[bytes] = ..., recursive: _Optional[bool] = ...) -> None: ...

class FilesWatchResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[FileEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[FileEvent, _Mapping]]] = ...) -> None: ...

class FileEvent(_message.Message):
    __slots__ = ("kind", "path", "is_directory", "cookie")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    IS_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    COOKIE_FIELD_NUMBER: _ClassVar[int]
    kind: FileEventKind
    path: bytes
    is_directory: bool
    cookie: int
    def __init__(self, kind: _Optional[_Union[FileEventKind, str]] = ..., path: _Optional[bytes] = ..., is_directory: _Optional[bool] = ..., cookie: _Optional[int] = ...) -> None: ...
