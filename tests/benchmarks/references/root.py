"""A small read-only root folder that every reference's box is made on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def make_root(folder: Path) -> Path:
    """Fills `folder` with an empty Linux tree whose programs are those of the machine's /usr."""
    for name in ("usr", "dev/pts", "dev/shm", "proc", "sys", "tmp", "etc", "root"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name in DEVICES:
        (folder / "dev" / name).touch()
    return folder
