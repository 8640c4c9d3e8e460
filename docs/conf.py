"""How Sphinx builds the documentation site: `make docs`.

The pages are Markdown that a forge shows too. Links from a page to a file outside
`docs/` lead to the repository on the site.
"""

import os
import re
import tomllib
from pathlib import Path

from pygments.lexers.configs import TOMLLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

_about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY = _about["urls"]["Source"]

project = "forewarn"
author = "The forewarn maintainers"
release = re.findall(
    r'^__version__ = "(.*)"$',
    (ROOT / "src" / "forewarn" / "__init__.py").read_text("utf-8"),
    re.MULTILINE,
)[0]

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.mermaid",
]
html_theme = "furo"
html_title = f"forewarn {release}"
html_baseurl = _about["urls"]["Documentation"]
# `make docs` adds mermaid.min.js, which no package of Python has.
html_static_path = ["_static", *map(str, ROOT.glob(".build/mermaid"))]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Diagrams are fences that a forge draws as well.
myst_fence_as_directive = ["mermaid"]
# Nothing on the site is loaded from another server.
mermaid_use_local = "mermaid.mjs"
mermaid_include_elk = False
# `$ ` is a prompt. Lines without it are output.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = [
    r"http://127\.0\.0\.1",
    r"https?://[^/]*\.(example|invalid)\b",
    r"https?://([^/]*\.)?example\.(com|org)\b",
]

FENCE = re.compile(r"^ *(```+)")
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")
ROOT_PAGES = {
    "contributing/workflow": "CONTRIBUTING.md",
    "contributing/architecture": "ARCHITECTURE.md",
    "contributing/changelog": "CHANGELOG.md",
}
"""Pages that a forge wants at the top of the repository, and that the site has too."""


def target_of(link: str, *, source: Path, page: Path) -> str:
    """Return where a link of `source` leads to when it is shown at `page`."""
    path, mark, anchor = link.partition("#")
    if not path or re.match(r"[a-z][a-z0-9+.-]*:", path):
        return link
    target = Path(os.path.normpath(source.parent / path))
    for name, root_page in ROOT_PAGES.items():
        if target == ROOT / root_page:
            target = DOCS / f"{name}.md"
    if target.is_relative_to(DOCS):
        return os.path.relpath(target, page.parent) + mark + anchor
    kind = "tree" if target.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}{mark}{anchor}"


def read_source(_app: Sphinx, name: str, source: list[str]) -> None:
    """Show a page of the repository's top in its place, and map links."""
    page = DOCS / f"{name}.md"
    file = ROOT / ROOT_PAGES[name] if name in ROOT_PAGES else page
    lines, fence = list[str](), ""
    for line in file.read_text("utf-8").splitlines():
        if found := FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        shown = line
        if not fence:
            shown = LINK.sub(
                lambda link: (
                    f"[{link[1]}]({target_of(link[2], source=file, page=page)})"
                ),
                line,
            )
        lines.append(shown)
    source[0] = "\n".join(lines) + "\n"


def setup(app: Sphinx) -> None:
    """Register what is done to each page before it is parsed."""
    app.connect("source-read", read_source)
    # Fences that Pygments has no lexer for, or one that knows another dialect.
    app.add_lexer("scenario", TOMLLexer)
    app.add_lexer("faults", TextLexer)
    app.add_lexer("hcl", TextLexer)
