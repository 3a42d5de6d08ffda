"""Which calls may be sent twice: reads, and those that carry an id or an offset of the caller."""

from __future__ import annotations

import pytest

from sandboxd import _native

NO_LIMITS = (None, None, None, None, None)
NEVER = (None, None, None)
YES, NO = True, False

REQUESTS = {
    "claim": (YES, _native.claim_request("s", "host", NO_LIMITS, None, None, [], b"", "", {})),
    "release": (YES, _native.release_request("s")),
    "info": (YES, _native.info_request()),
    "list sandboxes": (YES, _native.list_sandboxes_request({}, NO)),
    "run": (YES, _native.run_request("s", "e", [b"true"], [], b"", "", NEVER, None, NO, None, 1)),
    "start": (
        YES,
        _native.start_request("s", "e", [b"true"], [], b"", "", NEVER, None, NO, NO, "spill", None),
    ),
    "attach": (YES, _native.attach_request("s", "e", 0, 0, NO)),
    "write stdin": (YES, _native.write_stdin_request("s", "e", 0, b"", NO)),
    "cancel": (YES, _native.signal_request("s", "e", 0, YES)),
    "signal": (NO, _native.signal_request("s", "e", 15, NO)),
    "list execs": (YES, _native.list_execs_request("s")),
    "read file": (YES, _native.read_file_request("s", b"/f", 0, None)),
    "stat file": (YES, _native.stat_file_request("s", b"/f", YES)),
    "list files": (YES, _native.list_files_request("s", b"/")),
    "write file": (NO, _native.write_file_request("s", b"/f", b"", None, "", NO)),
    "remove file": (NO, _native.remove_file_request("s", b"/f", NO)),
    "make directory": (NO, _native.make_dir_request("s", b"/d", NO, None)),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_r3_only_what_finds_its_first_arrival_is_repeatable(name: str) -> None:
    expected, request = REQUESTS[name]
    assert request.repeatable is expected


def test_every_request_is_in_the_table() -> None:
    built = {name for name in _native.__all__ if name.endswith("_request")}
    # A signal appears twice: to end an exec is repeatable, to signal it is not.
    assert len(REQUESTS) == len(built) + 1
