"""Words that make a sentence hard to read: their counts may only fall.

The patterns are those of docs/contributing/language.md. Each count is for all
docstrings, comments and strings of the code, or for all documents outside of code.
A few hits are correct English; the counts are limits, and new text needs none of them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.sources import statements

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("language_limits.txt")
CODE = ("src", "tests", "bench", "deploy", "examples")
DOCUMENTS = ("docs", "deploy", "examples")

PATTERNS = {
    "negated noun": (
        r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer|more|way|doubt)[a-z]+"
    ),
    "anew": r"\banew\b",
    "no more": r"\bno more[.,;:)\"]",
    "docstring that starts with a preposition": r"^(?:Of|For(?! each)|That|By|Between)\b[^?]*$",
    "in the place of": r"\bin the place of\b",
    "who as a noun": r"(?:^|[.:;] )(?:Who|Whoever) [a-z][^?]*$",
    "what as a noun": r"(?:^|[.:;] )(?:What|Whatever) [a-z][^?]*$",
    "nobody, somebody": r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b(?! group)",
    "told": r"\b(?:is|are|was|be) told\b|\btells? (?:of|what|why|whether)\b",
    "also if": r"\balso (?:if|when|where|after|while)\b",
    "quaint words": (
        r"\b(?:all the same|as ever|for ever|now and then|in the midst|befall\w*"
        r"|mend(?:s|ed)?|shall|thrice|in earnest)\b"
    ),
    "in hand": r"\b(?:in the hands of|has [a-z ]{0,8}in hand|let(?:s|ting)? go)\b",
    "as X has it": r"\bas (?:[\w.`-]+ ){1,4}(?:has|have) (?:it|them)\b",
    "that is none": (
        r"\b(?:that|which|who) (?:is|are) none\b|\bthat there (?:is|are)[.,;:)\"]"
    ),
    "docstring that starts with a pronoun": r"^(?:What|Where|Who|Whom|Whose|Which)\b[^?]*$",
    "tell whether": r"\bTells? whether\b",
    "is over, is away": r"\b(?:is|are|was|were) (?:over|away)(?=[.,;:)\"]| and | so |$)",
    "goes on": r"\b(?:go|goes|going|went) on\b(?! to\b)",
    "a text": r"\ba text\b",
    "metaphors": (
        r"\b(?:miss(?:es|ed)? the (?:mark|bar)|a calm|seats?|seated|shelf|shelves|deeds?"
        r"|obey(?:s|ed|ing)?|troubles?)\b"
    ),
    "folder": r"\b[Ff]olders?\b",
}

DISCOURAGED_NAMES = frozenset(
    [
        "found",
        "told",
        "said",
        "asked",
        "given",
        "made",
        "it",
        "what",
        "words",
        "met",
        "seen",
        "kept",
        "mine",
    ]
)
"""Names of values that do not say what they hold."""

NAMES = {
    "generic name": (
        r"^ *(?:async )?(?:with .* as |for )?"
        rf"(?:{'|'.join(sorted(DISCOURAGED_NAMES))})\b"
        r"(?:: [^=]+)?(?: = | in |:$)"
    ),
    "method that tells, hears, says, looks or learns": (
        r"^ *(?:async )?def _?(?:tell|hear|say|look|learn|meets?)\("
    ),
}
"""Patterns for the lines of code itself: names that do not say what they hold."""

Counts = dict[tuple[str, str], int]
"""The number of each pattern, by kind of text and name of the pattern."""


class Passage(NamedTuple):
    """A paragraph of prose, with where it begins."""

    place: str
    text: str
    is_docstring: bool = False


def folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def docstrings(module: ast.Module) -> set[int]:
    """Return the lines in which docstrings and notes on a field begin."""
    return {
        node.value.lineno
        for node in statements(module)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph with the number of its first line, from zero."""
    line = 0
    for part in re.split(r"(\n\s*\n)", text):
        if part.strip():
            yield line, folded(part)
        line += part.count("\n")


def of_code(file: Path) -> Iterator[Passage]:
    source = file.read_text("utf-8")
    name = file.relative_to(ROOT).as_posix()
    module = ast.parse(source)
    documented = docstrings(module)
    within: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            within.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
            for line, text in paragraphs(node.value):
                place = f"{name}:{node.lineno + line}"
                yield Passage(place, text, node.lineno in documented and not line)
    yield from comments(name, source.splitlines(), within)


def vague_names(kind: str) -> Iterator[tuple[str, str]]:
    """Yield each line that gives a vague name, with the name of its pattern."""
    for file in sorted((ROOT / kind).rglob("*.py")):
        place = file.relative_to(ROOT).as_posix()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            for name, pattern in NAMES.items():
                if re.search(pattern, line):
                    yield name, f"{place}:{number}: {line.strip()}"


def comments(name: str, lines: list[str], within: set[int]) -> Iterator[Passage]:
    """Yield the comments of a file, those on following lines as one passage.

    `within` has the lines on which a text goes on: a # there begins no comment.
    """
    comment: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        _, mark, text = line.partition("# ") if number not in within else ("", "", "")
        if mark:
            comment.append(text)
        elif comment:
            yield Passage(f"{name}:{number - len(comment)}", folded(" ".join(comment)))
            comment = []


def of_document(file: Path) -> Iterator[Passage]:
    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"(?ms)^( *)(`{3,}|~{3,}).*?^\1\2", blank, file.read_text("utf-8"))
    text = re.sub(r"(?s)<!--.*?-->", blank, text)
    text = re.sub(r"(?m)^(\s*)(?=(?:[*-]|\d+\.|\|) )", r"\n\1", text)
    name = file.relative_to(ROOT).as_posix()
    for part in text.split("\n\n"):
        clean = folded(re.sub(r"(?m)^\s*(?:#+|[*>-]|\d+\.) ", "", part))
        if clean:
            yield Passage(f"{name}: {clean[:40]!r}", clean)


def passages(kind: str) -> Iterator[Passage]:
    if kind == "documents":
        files = [*ROOT.glob("*.md")]
        files += [path for top in DOCUMENTS for path in (ROOT / top).rglob("*.md")]
        for file in sorted(files):
            yield from of_document(file)
        return
    for file in sorted((ROOT / kind).rglob("*.py")):
        # This file has the discouraged words as patterns.
        if file != Path(__file__):
            yield from of_code(file)


def hits(kind: str) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {name: [] for name in PATTERNS}
    if kind != "documents":
        places |= {name: [] for name in NAMES}
        for name, place in vague_names(kind):
            places[name].append(place)
    for passage in passages(kind):
        for name, pattern in PATTERNS.items():
            if name.startswith("docstring") and not passage.is_docstring:
                continue
            places[name] += [
                f"{passage.place}: …{passage.text[max(0, hit.start() - 30) : hit.end() + 30]}…"
                for hit in re.finditer(pattern, passage.text)
            ]
    return places


def limits() -> Counts:
    if not LIMITS.exists():
        return {}
    rows = (line.split(" · ") for line in LIMITS.read_text("utf-8").splitlines())
    return {(kind, name): int(count) for kind, name, count in rows}


def lowered(limits: Counts, counts: Counts) -> Counts:
    """Return the new limits: none rises, and one that is missing begins at its count."""
    return {
        **limits,
        **{key: min(limits.get(key, count), count) for key, count in counts.items()},
    }


def test_rewrite_lowers_a_limit_and_never_raises_one() -> None:
    limits = {("src", "anew"): 2, ("src", "told"): 2, ("docs", "told"): 1}
    counts = {("src", "anew"): 1, ("src", "told"): 3, ("src", "new pattern"): 4}
    assert lowered(limits, counts) == {
        ("src", "anew"): 1,
        ("src", "told"): 2,
        ("docs", "told"): 1,
        ("src", "new pattern"): 4,
    }


@pytest.mark.parametrize("kind", [*CODE, "documents"])
def test_counts_of_discouraged_words_only_fall(
    kind: str, request: pytest.FixtureRequest
) -> None:
    hits_of_kind = hits(kind)
    counts = {(kind, name): len(places) for name, places in hits_of_kind.items()}
    allowed = limits()
    if request.config.getoption("--rewrite"):
        allowed = lowered(allowed, counts)
        rows = sorted(
            f"{of} · {name} · {count}\n" for (of, name), count in allowed.items()
        )
        LIMITS.write_text("".join(rows), "utf-8")
    more = {
        name: places
        for name, places in hits_of_kind.items()
        if len(places) > allowed.get((kind, name), 0)
    }
    assert not more, "\n".join(
        f"{name}: {len(places)}, and at most {allowed.get((kind, name), 0)} are allowed\n  "
        + "\n  ".join(places)
        for name, places in more.items()
    )
