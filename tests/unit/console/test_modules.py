"""The modules and styles of the console: their size, and the hashes of what is not our
own."""

import gzip
import hashlib
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from forewarn.console.assets import STYLES, read_assets
from forewarn.console.modules import ordered, resolved, routes

CONSOLE = Path(__file__).parents[3] / "src" / "forewarn" / "console"
DOCS = CONSOLE.parents[2] / "docs" / "contributing" / "console.md"
LIT = CONSOLE / "vendor" / "lit"
LINES_MAX = 400
WIDTH_MAX = 100
"""The formatter leaves longer lines where it finds no place to break them."""
COMPRESSED_BYTES_MAX = 85_000
"""Maximum size of the modules that a page loads: a tenth of a second on a slow link of
an operations room. The modules of other pages are loaded when they are opened."""

ASSETS = read_assets()
TEXTS = {
    name: asset.content.decode()
    for name, asset in ASSETS.files.items()
    if name.endswith((".js", ".css"))
}
MODULES = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
OWN = sorted(name for name in MODULES if name.startswith("js/"))
SHEETS = sorted(name for name in TEXTS if name.startswith("css/"))


@pytest.mark.parametrize("name", [*OWN, *SHEETS])
def test_file_is_short_and_begins_with_its_purpose(name: str) -> None:
    text = TEXTS[name]
    assert text.startswith(("//", "/*"))
    assert len(text.splitlines()) <= LINES_MAX
    assert max(map(len, text.splitlines())) <= WIDTH_MAX


@pytest.mark.parametrize("page", [path for path in OWN if path.startswith("js/pages/")])
def test_what_a_page_loads_is_small(page: str) -> None:
    modules = set(ordered(MODULES, "js/main.js", page))
    assert {"js/store.js", "vendor/lit/lit-html.js"} <= modules
    sizes = {name: len(gzip.compress(MODULES[name].encode())) for name in modules}
    assert sum(sizes.values()) <= COMPRESSED_BYTES_MAX, sizes


def test_limits_are_those_in_the_documentation() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert f"at most {LINES_MAX} lines of at most {WIDTH_MAX} characters" in text
    assert f"at most {COMPRESSED_BYTES_MAX // 1000} kB, compressed" in text


IMPORTED = re.compile(r'(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)"')
"""The path of a module that is imported, at once or when it is needed."""


@cache
def code_of(name: str) -> str:
    """Return a module without its comments, whose types name modules too."""
    return re.sub(r"/\*.*?\*/", "", MODULES[name], flags=re.DOTALL)


def test_no_module_imports_itself_through_others() -> None:
    """A page that is loaded later counts: what pages share does not know the pages."""
    imported = {
        name: [resolved(name, path) for path in IMPORTED.findall(code_of(name))]
        for name in OWN
    }
    assert "js/pages/now.js" in imported["js/pages.js"]
    TopologicalSorter(imported).prepare()


def test_each_style_sheet_is_in_the_one_that_the_shell_loads() -> None:
    assert sorted(f"css/{name}.css" for name in STYLES) == SHEETS
    assert ASSETS.style == "\n".join(TEXTS[f"css/{name}.css"] for name in STYLES)
    assert 'href="{assets}/style.css"' in ASSETS.shell


def test_shell_of_an_address_names_what_its_page_loads() -> None:
    pages = {f"js/pages/{page}.js" for page in ("campaign", "wall", "history")}
    for path, page in [
        ("campaigns/ca-1", "js/pages/campaign.js"),
        ("wall", "js/pages/wall.js"),
        ("wall/ca-1", "js/pages/wall.js"),
        ("history", "js/pages/history.js"),
    ]:
        modules = ASSETS.modules_of(path)
        assert modules == set(ordered(MODULES, "js/main.js", page))
        assert modules & pages == {page}
    # The caller decides which page it is, and there may be none.
    assert {"js/parts.js", "js/main.js"} <= ASSETS.modules_of("")
    assert ASSETS.modules_of("").isdisjoint({"js/pages/now.js", "js/pages/tenant.js"})
    assert ASSETS.modules_of("no/such") == set(ordered(MODULES, "js/main.js"))


def test_each_page_is_found_among_the_routes() -> None:
    assert len(routes(MODULES)) == MODULES["js/pages.js"].count("load: ()")


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
