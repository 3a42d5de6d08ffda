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
        _native.start_request(
            "s", "e", [b"true"], [], b"", "", NEVER, None, NO, NO, NO, "spill", None
        ),
    ),
    "attach": (YES, _native.attach_request("s", "e", 0, 0, NO)),
    "write stdin": (YES, _native.write_stdin_request("s", "e", 0, b"", NO, NO)),
    "read output": (YES, _native.read_output_request("s", "e", "stdout", 0, 1)),
    "cancel": (YES, _native.signal_request("s", "e", 0, YES)),
    "signal": (NO, _native.signal_request("s", "e", 15, NO)),
    "resize": (YES, _native.resize_request("s", "e", 24, 80)),
    "list execs": (YES, _native.list_execs_request("s")),
    "read file": (YES, _native.read_file_request("s", b"/f", 0, None, None, b"")),
    "stat file": (YES, _native.stat_file_request("s", b"/f", YES)),
    "list files": (YES, _native.list_files_request("s", b"/", NO)),
    "write file": (
        NO,
        _native.write_file_request("s", b"/f", b"", 0, 0, None, "", NO, NO, ("", 0, NO)),
    ),
    "upload": (
        YES,
        _native.write_file_request("s", b"/f", b"ab", 1, 2, None, "", NO, NO, ("u", 1, YES)),
    ),
    "extract": (YES, _native.extract_request("s", b"/d", b"", 0, 0, "", ("u", 0, NO))),
    "abandon": (YES, _native.abandon_request("s", "u")),
    "archive": (YES, _native.archive_request("s", b"/d")),
    "move file": (NO, _native.move_file_request("s", b"/f", b"/g", NO)),
    "watch": (YES, _native.watch_request("s", b"/d", NO)),
    "remove file": (NO, _native.remove_file_request("s", b"/f", NO)),
    "make directory": (NO, _native.make_dir_request("s", b"/d", NO, None, NO)),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_r3_only_what_finds_its_first_arrival_is_repeatable(name: str) -> None:
    expected, request = REQUESTS[name]
    assert request.repeatable is expected


def test_every_request_is_in_the_table() -> None:
    built = {name for name in _native.__all__ if name.endswith("_request")}
    # Twice: a signal, as to end an exec is repeatable and to signal it is not; and a write, as one
    # that has an id is repeatable.
    assert len(REQUESTS) == len(built) + 2
