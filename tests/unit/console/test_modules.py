"""The modules and styles of the console: their size, and the hashes of what is not our
own."""

import gzip
import hashlib
import posixpath
import re
from pathlib import Path

import pytest

from forewarn.console.assets import read_assets

CONSOLE = Path(__file__).parents[3] / "src" / "forewarn" / "console"
LIT = CONSOLE / "vendor" / "lit"
LINES_MAX = 400
WIDTH_MAX = 100
"""The formatter leaves longer lines where it finds no place to break them."""
COMPRESSED_BYTES_MAX = 71_000
"""Of the modules that a page loads: a tenth of a second on a slow link of an operations
room. The modules of other pages are loaded when they are opened."""

ASSETS = read_assets()
TEXTS = {
    name: asset.content.decode()
    for name, asset in ASSETS.files.items()
    if name.endswith((".js", ".css"))
}
MODULES = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
OWN = sorted(name for name in MODULES if name.startswith("js/"))
STYLES = sorted(name for name in TEXTS if name.endswith(".css"))


@pytest.mark.parametrize("name", [*OWN, *STYLES])
def test_file_is_short_and_begins_with_its_purpose(name: str) -> None:
    text = TEXTS[name]
    assert text.startswith(("//", "/*"))
    assert len(text.splitlines()) <= LINES_MAX
    assert max(map(len, text.splitlines())) <= WIDTH_MAX


IMPORT = re.compile(r'(?:import|export)\b[^;()]*?from\s*"([^"]+)"')


def loaded(name: str, known: set[str]) -> set[str]:
    """Add a module and all that it imports to those that are known; return them."""
    if name not in known:
        known.add(name)
        for path in IMPORT.findall(MODULES[name]):
            loaded(
                posixpath.normpath(posixpath.join(posixpath.dirname(name), path)), known
            )
    return known


@pytest.mark.parametrize("page", [each for each in OWN if each.startswith("js/pages/")])
def test_what_a_page_loads_is_small(page: str) -> None:
    modules = loaded(page, loaded("js/main.js", set()))
    assert {"js/store.js", "vendor/lit/lit-html.js"} <= modules
    sizes = {name: len(gzip.compress(MODULES[name].encode())) for name in modules}
    assert sum(sizes.values()) <= COMPRESSED_BYTES_MAX, sizes


def test_each_style_is_loaded_once_and_in_the_order_of_the_shell() -> None:
    loaded = re.findall(r'href="{assets}/(css/[^"]+)"', ASSETS.shell)
    assert sorted(loaded) == STYLES
    assert ASSETS.style == "\n".join(TEXTS[name] for name in loaded)


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
