"""Generated messages are those of the sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = Path("sandboxd/_proto")


def test_generated_messages_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts/proto", tmp_path], check=True)

    assert _sources(ROOT / GENERATED) == _sources(tmp_path / GENERATED), "run `make proto`"


def _sources(folder: Path) -> dict[str, bytes]:
    """Every file by its path; compiled files of the interpreter are not sources."""
    files = (path for path in folder.rglob("*.py*") if path.suffix in {".py", ".pyi"})
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
