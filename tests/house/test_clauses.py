"""Every clause of the protocol has a test, and every test's clause exists.

What a test covers is read from its text, not from a run: marks on functions,
classes and parameters, `pytestmark` of a module, and `# clauses:` lines at the top
of transcripts.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.testing.conformance.checks import CHECKS, UNTRIED
from tests.house.test_docs import slug_of
from tests.support.pages import EXPLANATION, REFERENCE, check_block

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PROTOCOL = REFERENCE / "protocol.md"
LISTS = EXPLANATION / "clause-tests.md"

SECTIONS_TESTED = (1, 2, 3, 4, 5, 6, 7, 8, 9)
"""All clauses of the specification."""

HEADING = re.compile(r"^### (\d+\.\d+) ", re.MULTILINE)
TITLE = re.compile(r"^### (\d+\.\d+) (.+)$", re.MULTILINE)
TRANSCRIPT_LINE = re.compile(r"#\s*clauses:\s*(.*)")

Cited = dict[str, dict[str, list[str]]]
"""For each clause, the files that cite it, and the tests in them."""


def protocol() -> str:
    return PROTOCOL.read_text(encoding="utf-8")


def clauses() -> list[str]:
    return HEADING.findall(protocol())


def marks(node: ast.AST) -> Iterator[str]:
    """Yield the clauses of every `pytest.mark.clause(...)` below a node."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "clause"
            and isinstance(call.func.value, ast.Attribute)
            and call.func.value.attr == "mark"
        ):
            for argument in call.args:
                assert isinstance(argument, ast.Constant), ast.unparse(call)
                yield str(argument.value)


def citations_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each test of a file with each clause that it cites."""
    text = path.read_text(encoding="utf-8")
    if "clause(" not in text:
        return
    module = ast.parse(text)
    everywhere: list[str] = []
    for node in module.body:
        if isinstance(node, ast.Assign):
            everywhere += marks(node)
    yield from _tests_in(module.body, above=everywhere, prefix="")


def _tests_in(
    body: list[ast.stmt], *, above: list[str], prefix: str
) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            own = [c for decorator in node.decorator_list for c in marks(decorator)]
            yield from _tests_in(
                node.body, above=above + own, prefix=f"{prefix}{node.name}."
            )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = [c for decorator in node.decorator_list for c in marks(decorator)]
            if node.name.startswith("test"):
                for clause in dict.fromkeys(above + own):
                    yield f"{prefix}{node.name}", clause


def transcript_clauses(path: Path) -> Iterator[str]:
    """Yield what the comment lines at the top of a transcript cite."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            return
        if match := TRANSCRIPT_LINE.match(line):
            yield from re.findall(r"\d+\.\d+", match[1])


@functools.cache
def cited() -> Cited:
    citations: Cited = defaultdict(dict)
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        for test, clause in citations_of(path):
            citations[clause].setdefault(name, []).append(test)
    for path in sorted((TESTS / "scenarios").rglob("*.txt")):
        for clause in transcript_clauses(path):
            citations[clause].setdefault(path.relative_to(ROOT).as_posix(), [])
    return dict(citations)


def lists() -> str:
    """Return the list of tests of each clause, below a heading for each."""
    citations, lines = cited(), list[str]()
    for clause, title in TITLE.findall(protocol()):
        heading = f"{clause} {title}"
        link = f"../reference/protocol.md#{slug_of(heading)}"
        lines += ["", f"## {clause}", "", f"[{title}]({link})", ""]
        for name, tests in citations.get(clause, {}).items():
            listed = ", ".join(f"`{test}`" for test in tests)
            lines.append(f"- [{name}](../../{name}){': ' if listed else ''}{listed}")
    return "\n".join([*lines, "", ""])


@pytest.mark.slow
def test_every_clause_has_a_test() -> None:
    citations = cited()
    bare = [
        clause
        for clause in clauses()
        if int(clause.partition(".")[0]) in SECTIONS_TESTED and clause not in citations
    ]
    assert not bare, f"no test cites {bare}"


def test_every_clause_that_a_test_cites_exists() -> None:
    known = {*clauses()}
    unknown = {
        clause: files for clause, files in cited().items() if clause not in known
    }
    assert not unknown, f"the protocol has no such clauses: {unknown}"


def test_conformance_report_covers_every_clause() -> None:
    """One that is asked about, or one that says why not, by its title here."""
    titles = dict(TITLE.findall(protocol()))
    untried = {clause: title for clause, title, _why in UNTRIED}
    tried = {check.clause for check in CHECKS}
    assert untried == {
        clause: title for clause, title in titles.items() if clause not in tried
    }
    assert tried <= titles.keys()


def test_the_clauses_are_numbered_without_a_gap() -> None:
    by_section: dict[int, list[int]] = defaultdict(list)
    for clause in clauses():
        section, number = clause.split(".")
        by_section[int(section)].append(int(number))
    assert tuple(by_section) == SECTIONS_TESTED
    for section, numbers in by_section.items():
        assert numbers == list(range(1, len(numbers) + 1)), section
    counts = [len(numbers) for numbers in by_section.values()]
    assert counts == [12, 10, 6, 8, 9, 3, 4, 8, 4]


def test_each_clause_lists_its_tests(request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    check_block(LISTS, "tests of clauses", lists(), rewrite=rewrite)


def test_clause_marks_are_found_in_every_position(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.clause('1.1')\n"
        "@pytest.mark.clause('1.2', '1.3')\n"
        "def test_a(): ...\n"
        "@pytest.mark.clause('1.4')\n"
        "class TestB:\n"
        "    @pytest.mark.parametrize('x', [\n"
        "        pytest.param(1, marks=pytest.mark.clause('1.5'))])\n"
        "    async def test_c(self): ...\n"
        "def helper(): ...\n",
        encoding="utf-8",
    )
    assert list(citations_of(path)) == [
        ("test_a", "1.1"),
        ("test_a", "1.2"),
        ("test_a", "1.3"),
        ("TestB.test_c", "1.1"),
        ("TestB.test_c", "1.4"),
        ("TestB.test_c", "1.5"),
    ]


def test_transcript_header_lists_its_clauses(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(
        "# A story.\n# clauses: 1.1, 2.10\n\nget\n# clauses: 9.9\n", encoding="utf-8"
    )
    assert list(transcript_clauses(path)) == ["1.1", "2.10"]
