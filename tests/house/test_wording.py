"""Decisions stay values: sentences are made where they are shown, and none is read back.

That `control` and what is below it import no module of sentences is a contract of the
import linter ("control | wording" stand side by side).
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import statements

SOURCE = Path(__file__).parents[2] / "src" / "forewarn"

PROSE = frozenset(
    {"description", "detail", "hint", "message", "note", "reason", "said", "sentence"}
    | {"text", "what", "why"}
)
"""Attributes that hold sentences, and members of answers."""

TEXTS_OF_VALUES = frozenset({"actor", "approved_by", "blocked_by"})
"""Members of answers that show values beside them, as texts."""

MATCHING = frozenset(
    {"count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix"}
    | {"rpartition", "rsplit", "split", "startswith"}
)
PATTERNS = frozenset({"findall", "fullmatch", "match", "search", "sub"})

NO_PROSE = {
    "agent/integrations/kubernetes/yaml.py": "lines of YAML",
    "agent/integrations/slurm/client.py": "a mark that the agent put into Slurm's reason",
    "drivers/libvirt/worker/orders.py": "the mark that the driver gives",
    "drivers/programs.py": "what an operator's program prints, as docs/reference/driver-programs.md has it",
}
"""Modules whose texts of these names are written for programs."""

OF_ERRORS = {
    "control/requests/approvals.py": {"_not_shown"},
    "control/requests/choices.py": {"text"},
    "control/requests/campaign_changes.py": {"change"},
    "control/requests/campaign_starts.py": {"_changed"},
    "control/requests/campaigns.py": {"resume"},
    "control/requests/cordons.py": {"cordon"},
    "control/requests/fleet_changes.py": {"_check_removes_nothing"},
    "control/requests/fleet_conflicts.py": {"_way_out_of"},
    "control/tokens.py": {"_check_is_free"},
    "control/requests/verbs/__init__.py": {"_what_became"},
    "control/requests/verbs/emptying.py": {"_sums"},
    "control/requests/visiting.py": {"_begin_again", "_ways_out"},
    "control/rules/remedies.py": {"way_out"},
    "control/rules/second_person.py": {"why_not"},
    "control/rules/steerable.py": {
        "_why_no_approval_now",
        "why_ended",
        "why_no_approval",
        "why_no_halt",
        "why_no_more_hosts",
        "why_no_skip",
    },
    "control/rules/steerable_hosts.py": {
        "nothing_to_choose",
        "too_late",
        "why_no_retry",
        "why_not_waiting",
        "why_started",
    },
}
"""Functions that make a part of an error's message, which is made where it is raised."""


def modules(*directories: str) -> Iterator[tuple[str, ast.Module]]:
    for directory in directories:
        for file in sorted((SOURCE / directory).rglob("*.py")):
            name = file.relative_to(SOURCE).as_posix()
            yield name, ast.parse(file.read_text("utf-8"))


def is_prose(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in PROSE) or is_text(node)


def is_text(node: ast.expr) -> bool:
    """Return whether a node is a member with a sentence in an answer of the API."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key in PROSE | TEXTS_OF_VALUES
        case _:
            return False


def compares_texts(node: ast.AST) -> bool:
    """Return whether members of answers are compared, or used as keys."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            if isinstance(operator, ast.Eq | ast.NotEq):
                return any(map(is_text, (left, right)))
            return isinstance(operator, ast.In | ast.NotIn) and is_text(left)
        case ast.DictComp(key=key) | ast.SetComp(elt=key):
            return is_text(key)
        case ast.Call(func=ast.Attribute(attr=name), args=args):
            return name in {"isdisjoint", "issubset", "issuperset"} and any(
                map(is_text, args)
            )
        case _:
            return False


def matches_prose(node: ast.AST) -> bool:
    if compares_texts(node):
        return True
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in MATCHING:
            return is_prose(value)
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in PATTERNS:
            return any(map(is_prose, args))
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[where]):
            return is_prose(where)
        case ast.Compare(
            left=left,
            ops=[ast.Eq() | ast.NotEq()],
            comparators=[ast.Constant(value=str(text))],
        ):
            return is_prose(left) and " " in text
        case _:
            return False


def test_no_code_matches_sentences() -> None:
    places = {
        f"{name}:{node.lineno}: {ast.unparse(node)}": name
        for name, module in modules("")
        for node in ast.walk(module)
        if isinstance(node, ast.expr) and matches_prose(node)
    }
    wrong = [path for path, name in places.items() if name not in NO_PROSE]
    assert not wrong, "\n".join(wrong)
    assert {*places.values()} == {*NO_PROSE}, "an exception is needed no more"


CONSOLE = SOURCE / "console" / "js"

_MEMBER = r"(?<!\.)\.(?:actor|description|detail|message|reason|said|sentence|text|what|why)\b"
_BARE = r"(?<![\w.])(?:actor|detail|message|sentence|what|why)"
_CONSTANT = r"(?:[\"'`](?![\"'`])|[A-Z]{2})"
SCRIPT_MATCHES = re.compile(
    rf"(?:{_MEMBER}|{_BARE})(?:\?\.|\.)(?:endsWith|includes|indexOf|match|matchAll|replace"
    r"|search|split|startsWith|substring)\("
    rf"|{_MEMBER}\s*[!=]==\s*{_CONSTANT}"
    rf"|(?:[\"'`][^\"'`\n]+[\"'`]|\b[A-Z]{{2,}})\s*[!=]==\s*[\w.]+{_MEMBER}"
    rf"|\.(?:exec|has|includes|test)\((?:[\w.\[\]]+{_MEMBER}|{_BARE}\b)"
    rf"|/[gimsuy]*\.(?:exec|test)\([^)\n]*{_MEMBER}"
)
"""Scripts that match the texts of people: lists in brackets, patterns and constants too."""

SCRIPT_TEXTS = {
    "feed.js": {
        'entry.detail.split("\\n")': "only the first line is shown",
        "detail.endsWith(named": "a name is not shown twice",
        "detail.endsWith(each.why)": "a reason is not shown twice",
    },
    "pages/history.js": {
        'entry.what.startsWith(asked("what"))': "the filter that the service has",
    },
}
"""Places that lay out texts, or filter by what a person has typed."""


def script_matches(code: str) -> list[str]:
    return [line.strip() for line in code.splitlines() if SCRIPT_MATCHES.search(line)]


def test_no_script_matches_sentences() -> None:
    wrong: list[str] = []
    needed: dict[str, set[str]] = {}
    for path in sorted(CONSOLE.rglob("*.js")):
        name = path.relative_to(CONSOLE).as_posix()
        for line in script_matches(path.read_text("utf-8")):
            places = {text for text in SCRIPT_TEXTS.get(name, {}) if text in line}
            needed.setdefault(name, set()).update(places)
            if not places:
                wrong.append(f"{name}: {line}")
    assert not wrong, "\n".join(wrong)
    allowed = {name: set(texts) for name, texts in SCRIPT_TEXTS.items()}
    assert needed == allowed, "an exception is needed no more"


@pytest.mark.parametrize(
    "line",
    [
        'actor.startsWith("vm ")',
        'entry.actor.includes("/")',
        "const isApproval = (entry) => entry.what === APPROVED;",
        'if (each.what === "event approved") return;',
        "if (/^token /.test(entry.what)) return;",
        "group.find((each) => BAD.test(each.what))",
        'other.what.endsWith(" paused")',
        'const isOfRoom = ({ what }) => !what.startsWith("token ");',
        'const [noun] = entry.what.split(" ");',
        '["driver", "clock"].includes(entry.actor)',
    ],
)
def test_matching_of_scripts_is_found(line: str) -> None:
    assert script_matches(line)


def sentences(module: ast.Module) -> Iterator[tuple[str, ast.JoinedStr]]:
    """Yield formatted texts with a blank in them, outside of errors and assertions."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.JoinedStr]]:
        if isinstance(node, ast.Raise | ast.Assert):
            return
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            if any(" " in str(part.value) for part in parts):
                yield function, node
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    yield from walk(module, "")


def test_control_formats_only_error_messages() -> None:
    keys = {"f'tenant aliases:{tenant}'"}
    functions: dict[str, set[str]] = {}
    for name, module in modules("control"):
        for function, text in sentences(module):
            if ast.unparse(text) not in keys:
                functions.setdefault(name, set()).add(function)
    assert functions == OF_ERRORS


def test_value_modules_format_no_sentences() -> None:
    wrong = [
        f"{name}:{node.lineno}: {node.name}"
        for name, module in modules("protocol", "fleet", "store", "control")
        for node in statements(module)
        if isinstance(node, ast.FunctionDef)
        and node.name in {"sentence", "sentences", "told", "describe", "wording"}
    ]
    assert not wrong, "\n".join(wrong)
