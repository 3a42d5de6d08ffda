"""Counting from outside, on processes that the test makes."""

from __future__ import annotations

import os
import subprocess

from sandboxd.cli.demo import leaks


def test_what_is_new_is_counted_and_what_is_gone_is_not_held_against_it() -> None:
    before = leaks.Holdings(processes=2, mounts=40, cgroups=0, namespaces=6, descriptors=30)
    after = leaks.Holdings(processes=3, mounts=39, cgroups=2, namespaces=6, descriptors=30)

    assert after.beyond(before) == {
        "processes": 1,
        "mounts": 0,
        "cgroups": 2,
        "namespaces": 0,
        "descriptors": 0,
    }


def test_a_child_and_a_descriptor_are_seen() -> None:
    before = leaks.count(os.getpid())
    reader, writer = os.pipe()
    try:
        with subprocess.Popen(["cat"], stdin=reader):
            held = leaks.count(os.getpid()).beyond(before)
            os.close(writer)
            writer = -1
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)

    assert held["processes"] == 1
    # Counted once for the agent and once for the process that counts: here both are this one.
    assert held["descriptors"] == 4
    assert not any(leaks.count(os.getpid()).beyond(before).values())
