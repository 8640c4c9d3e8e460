"""Check that the documents are true: links, commands, fleet files, error names."""

import ast
import builtins
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forewarn.cli import parser
from forewarn.fleet.file import read_fleet
from tests.support.pages import DOCS, ROOT
from tests.support.sources import statements

HOME = "index.md"
"""The page at the top of the documentation, which no other page lists."""

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PICTURE_WORDS_MIN = 4
"""Words that say what a picture shows, for those who do not see it."""
STATIC = DOCS / "_static"
HEADING = re.compile(r"^#+ +(.*?) *#*$", re.MULTILINE)
ERROR = re.compile(r"(?<![\w.-])[A-Z][a-z]\w*Error\b(?!-)")

SHELLS = frozenset({"sh", "bash", "shell", "console"})
FLEET_TABLES = frozenset({"tenant", "scope", "host", "vm"})

BY_NAME = re.compile(r"\b(?:pip|pipx) (?:install|run)\b[^\n]* '?forewarn\b")
"""A command that takes our package from an index."""

COMMANDS_MIN = 150
"""So many are shown at least; fewer are found where we no longer look right."""


README_LINES_MAX = 120
"""Maximum length of the README: more belongs on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block, and where it begins."""

    file: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    files = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
    assert files, "no documents"
    return files


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    return FENCE.sub("", text_of(path))


def blocks(*languages: str) -> Iterator[Block]:
    for path in documents():
        text = text_of(path)
        for block in FENCE.finditer(text):
            if block["language"] in languages:
                yield Block(
                    file=name_of(path),
                    line=text.count("\n", 0, block.start()) + 1,
                    language=block["language"],
                    text=block["text"],
                )


def slug_of(heading: str) -> str:
    """Return the anchor of a heading that is the first of its text."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings have, as GitHub makes them."""
    counts: dict[str, int] = {}
    for heading in HEADING.findall(prose_of(path)):
        slug = slug_of(heading)
        count = counts.get(slug, 0)
        counts[slug] = count + 1
        if count:
            counts[f"{slug}-{count}"] = 1
    return {*counts}


def broken_links(path: Path) -> Iterator[str]:
    for inline, reference in LINK.findall(prose_of(path)):
        target = inline or reference
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        where, _, anchor = target.partition("#")
        linked = (path.parent / where).resolve() if where else path
        if not linked.exists():
            yield f"{name_of(path)}: {target} does not exist"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{name_of(path)}: {target} has no such heading"


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words after `forewarn` of each such command in a shell's block."""
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    else:
        lines = text.splitlines()
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.commenters = "#"
        lexer.whitespace_split = True
        arguments: list[str] = []
        for word in [*lexer, ";"]:
            if not word or not set(word) <= set("();<>|&"):
                arguments.append(word)
                continue
            # Settings may stand before a command, and a path may lead to it.
            while arguments and re.match(r"[A-Z_]+=", arguments[0]):
                del arguments[0]
            # So may who it is done as.
            if arguments[:1] == ["runuser"]:
                del arguments[: arguments.index("--") + 1]
            if arguments and Path(arguments[0]).name == "forewarn":
                yield arguments[1:]
            arguments = []


def error_names() -> set[str]:
    """Return the name of every exception class of ours."""
    return {
        node.name
        for path in (ROOT / "src").rglob("*.py")
        if "Error(" in (text := text_of(path))
        for node in statements(ast.parse(text))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }


def test_every_relative_link_has_a_target() -> None:
    broken = [line for path in documents() for line in broken_links(path)]
    assert not broken, "\n".join(broken)


@pytest.mark.slow
def test_every_shown_command_is_valid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong: list[str] = []
    count = 0
    checked: set[tuple[str, ...]] = set()
    for block in blocks(*SHELLS):
        for arguments in commands(block):
            count += 1
            if tuple(arguments) in checked:
                continue
            checked.add(tuple(arguments))
            try:
                parser.build(arguments).parse_args(arguments)
            except SystemExit as ended:
                if ended.code:
                    message = capsys.readouterr().err.strip().splitlines()[-1:]
                    wrong.append(
                        f"{block}: forewarn {shlex.join(arguments)}: {message}"
                    )
    assert not wrong, "\n".join(wrong)
    assert count >= COMMANDS_MIN


def test_readme_is_short_and_has_pictures() -> None:
    text = text_of(ROOT / "README.md")
    assert len(text.splitlines()) <= README_LINES_MAX
    assert PICTURE.search(text)


def test_each_picture_of_a_page_exists_and_is_described() -> None:
    wrong: list[str] = []
    named: set[Path] = set()
    for page in documents():
        for description, path in PICTURE.findall(text_of(page)):
            picture = (page.parent / path).resolve()
            named.add(picture)
            if not picture.is_file():
                wrong.append(f"{name_of(page)}: there is no {path}")
            if len(description.split()) < PICTURE_WORDS_MIN:
                wrong.append(f"{name_of(page)}: {path}: say what it shows")
    there = {*STATIC.rglob("*.webp"), *STATIC.rglob("*.svg")}
    wrong += [f"no page shows {name_of(picture)}" for picture in sorted(there - named)]
    assert not wrong, "\n".join(wrong)


def listed_in_toctrees(page: Path) -> Iterator[str]:
    """Yield the pages that the tables of contents of a page name, below docs/."""
    for tree in re.findall(
        r"^```{toctree}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL
    ):
        for line in tree.splitlines():
            if line and not line.startswith(":"):
                listed = (page.parent / f"{line}.md").resolve()
                yield listed.relative_to(DOCS).as_posix()


def test_table_of_contents_lists_every_page() -> None:
    pages = [*DOCS.rglob("*.md")]
    listed = [name for page in pages for name in listed_in_toctrees(page)]
    assert sorted(listed) == sorted(
        name for page in pages if (name := page.relative_to(DOCS).as_posix()) != HOME
    )


def test_pages_that_name_the_package_link_to_the_unpublished_note() -> None:
    shown = {block.file for block in blocks(*SHELLS) if BY_NAME.search(block.text)}
    assert {"README.md", "docs/how-to/operate/install.md"} <= shown
    for name in shown:
        assert "#before-it-is-published)" in prose_of(ROOT / name), name


def test_every_shown_fleet_file_is_valid() -> None:
    for block in blocks("toml"):
        tables = tomllib.loads(block.text)
        if tables.keys() & FLEET_TABLES:
            read_fleet(block.text, name=str(block))


@pytest.mark.slow
def test_every_named_error_exists() -> None:
    known = error_names() | set(dir(builtins))
    wrong = [
        f"{name_of(path)}: {name}"
        for path in documents()
        for name in ERROR.findall(text_of(path))
        if name not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_are_found_in_shell_blocks() -> None:
    block = Block(
        file="x",
        line=1,
        language="sh",
        text=(
            "cd x && .venv/bin/forewarn serve --fleet fleet.toml &  # the service\n"
            "FOREWARN_URL=http://x:1 forewarn maintain h1 \\\n  --impact freeze\n"
            "curl x | forewarn fleet validate -; echo forewarn\n"
            "# forewarn nothing\n"
        ),
    )
    assert list(commands(block)) == [
        ["serve", "--fleet", "fleet.toml"],
        ["maintain", "h1", "--impact", "freeze"],
        ["fleet", "validate", "-"],
    ]
    console = Block(
        file="x", line=1, language="console", text="$ forewarn events\nforewarn: no\n"
    )
    assert list(commands(console)) == [["events"]]


def test_headings_have_the_anchors_that_links_use(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# 1.6 The `Metadata` header\n\n## A, b\n\n## A, b\n")
    assert anchors(page) == {"16-the-metadata-header", "a-b", "a-b-1"}
