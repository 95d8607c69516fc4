"""Every page, docstring, comment and message follows the project's word list."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("words.toml")


def faults(text: str) -> list[str]:
    """Return the phrases that the word list rejects, with their lines and the advice."""
    advice = tomllib.loads(WORDS.read_text())
    found = []
    for pattern, instead in advice.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {match.group()!r}; say: {instead}")
    return found


def test_every_page_and_file_follows_the_word_list():
    names = subprocess.run(
        ["git", "ls-files", "-z", "--", "*.md", "*.py", "*.jinja"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    found = [f"{name}: {fault}" for name in names if name for fault in faults((ROOT / name).read_text())]
    assert found == []


def test_the_word_list_is_read():
    phrase = " ".join(["bytes", "a", "row"])  # in pieces, since this file is read too
    assert faults(f"One share\ntakes 3 {phrase}.") == [f"line 2: '{phrase}'; say: per tree, per row, ..."]


def test_no_page_installs_by_a_name_that_no_index_has():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [
        (page.name, line) for page in pages for line in re.findall(r"pip install\s+'?sharewood\b.*", page.read_text())
    ]
    assert len(pages) > 20 and found == []
