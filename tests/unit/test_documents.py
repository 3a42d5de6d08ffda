"""Links of the documents lead somewhere, and a test that a claim names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(#[^)]*)?\)")


def links(document: Path) -> list[tuple[str, Path]]:
    """Text and target of every link into the repository."""
    found = _LINK.finditer(document.read_text(encoding="utf-8"))
    inside = (match for match in found if "://" not in match["target"])
    return [(match["text"], document.parent / match["target"]) for match in inside]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_to_tests_that_exist(document: Path) -> None:
    for text, target in links(document):
        assert target.exists(), f"{target} does not exist"
        name = text.strip("`")
        if name.startswith("test_") and target.suffix == ".py":
            source = target.read_text(encoding="utf-8")
            assert re.search(rf"def {re.escape(name)}\(", source), f"{name} is not in {target}"
