"""docs/reference/pytest-plugin.md lists every name of the test kit, in the words of the code."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.sim.faults.syntax import parse_playbook
from forewarn.sim.scenario import builtin
from forewarn.testing import Event, ScheduledEvents, Vm
from forewarn.testing.kit.calls import shown_signature
from forewarn.testing.kit.faults import Faults

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "pytest-plugin.md"
BLOCK = re.compile(
    r"^<!-- names of (\w+) -->\n.*?^<!-- /names -->$", re.MULTILINE | re.DOTALL
)
KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (ScheduledEvents, Vm, Event, Faults)
}


def rows(kind: type) -> Iterator[tuple[str, str]]:
    """Yield what is public of a class, with the first line of its docstring."""
    members = [pair for part in kind.__mro__[:-1] for pair in vars(part).items()]
    for name, member in members:
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property):
            yield f"`.{name}`", summary(member.fget)
        elif inspect.isfunction(member):
            shown = kind.__name__ if name == "__init__" else f".{member.__name__}"
            if name not in {member.__name__, "__init__"}:
                yield f"`.{name}(…)`", f"The same as `{shown}`."
            elif name != "__init__" or kind is ScheduledEvents:
                yield f"`{shown}{shown_signature(member)}`", summary(member)


def summary(member: object) -> str:
    """Return the first sentence of a docstring, as it may be in a table."""
    text = inspect.getdoc(member) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def block(kind: type) -> str:
    """Return the table of a class."""
    lines = [f"<!-- names of {kind.__name__} -->", "| name | what it is |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in rows(kind)]
    return "\n".join([*lines, "<!-- /names -->"])


def test_every_name_of_the_kit_is_listed(request: pytest.FixtureRequest) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert {*BLOCK.findall(text)} == {*KINDS}
    wanted = BLOCK.sub(lambda match: block(KINDS[match[1]]), text)
    if request.config.getoption("--rewrite"):
        DOCUMENT.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run `pytest --rewrite tests/house`"


def test_shown_faults_and_scenarios_exist() -> None:
    shown = "\n".join(
        (DOCUMENT.parent / name).read_text(encoding="utf-8")
        for name in (
            "pytest-plugin.md",
            "../tutorials/test-your-service.md",
            "testkit.md",
        )
    )
    lines = re.findall(r'(?:\.fault\(|faults=)"([^"…]+)"', shown)
    names = re.findall(r'(?:scenario=|simulate )"([^"…]+)"', shown)
    assert len(lines) > 1
    assert len(names) > 1
    for line in lines:
        parse_playbook(line)
    for name in names:
        builtin.find(name)
