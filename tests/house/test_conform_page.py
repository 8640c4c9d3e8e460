"""The page on `conform` lists the clauses that no client can decide, as the tests
prove."""

import re
from pathlib import Path

import pytest

from tests.support import planted
from tests.support.planted_expected import UNDECIDABLE

PAGE = (
    Path(__file__).resolve().parents[2]
    / "docs"
    / "how-to"
    / "test"
    / "check-an-endpoint.md"
)

BLOCK = re.compile(r"(<!-- undecidable -->\n).*?(<!-- /undecidable -->)", re.DOTALL)


def listed() -> str:
    """Return the table, in the order of the clauses."""

    def clause(name: str) -> list[int]:
        return [int(part) for part in planted.DEFECTS[name].clause.split(".")]

    lines = [
        "| clause | what a server does | why it cannot be decided |",
        "|---|---|---|",
    ]
    for name in sorted(UNDECIDABLE, key=clause):
        defect = planted.DEFECTS[name]
        lines.append(f"| {defect.clause} | {defect.wrong} | {UNDECIDABLE[name]} |")
    return "".join(f"{line}\n" for line in lines)


def test_page_lists_the_undecidable_defects(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    wanted, count = BLOCK.subn(lambda block: block[1] + listed() + block[2], text)
    assert count == 1
    if request.config.getoption("--rewrite") and text != wanted:
        PAGE.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run `pytest --rewrite tests/house`"
