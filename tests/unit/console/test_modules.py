"""The modules of the console: their size, and what they must not use."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest

from forewarn.console.assets import read_assets

CONSOLE = Path(__file__).parents[3] / "src" / "forewarn" / "console"
LIT = CONSOLE / "vendor" / "lit"
LINES_MAX = 250
COMPRESSED_BYTES_MAX = 90_000
"""Of all modules and lit-html: a tenth of a second on a slow link of an operations room."""

MODULES = {
    name: asset.content.decode()
    for name, asset in read_assets().files.items()
    if name.endswith(".js")
}
OWN = sorted(name for name in MODULES if name.startswith("js/"))

FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|unsafeHTML|insertAdjacentHTML|document\.write|\beval\(|"
    r"new Function|style=|<script|javascript:|localStorage\.setItem\([^)]*token"
)
"""Markup from text, code from text, and attributes that the content policy blocks."""


@pytest.mark.parametrize("name", OWN)
def test_module_is_short_and_makes_no_markup_of_text(name: str) -> None:
    text = MODULES[name]
    assert text.startswith("//"), "a module begins with its purpose"
    assert len(text.splitlines()) <= LINES_MAX
    assert FORBIDDEN.findall(text) == []


def test_modules_are_small() -> None:
    sizes = [len(gzip.compress(text.encode())) for text in MODULES.values()]
    assert sum(sizes) <= COMPRESSED_BYTES_MAX


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition("  ")


def test_vendored_files_have_their_hashes() -> None:
    lines = (LIT / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    named = {name: digest for digest, _, name in map(_parted, lines)}
    files = {
        str(path.relative_to(LIT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in LIT.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert files == named
