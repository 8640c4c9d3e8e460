"""Every refusal that control can raise stands in the documents, word for word."""

import ast
import re
from pathlib import Path
from typing import get_args

from forewarn.protocol.blockers import AnyBlocker
from tests.support.pages import OPERATE, REFERENCE

ROOT = Path(__file__).parents[2]
CONTROL = ROOT / "src" / "forewarn" / "control"
DOCUMENTS = (
    REFERENCE / "verbs-and-refusals.md",
    REFERENCE / "fleet-file.md",
    OPERATE / "change-the-fleet.md",
)
REFUSALS = {"RefusedError", "NotFoundError"}
GAP = "…"
"""The placeholder for a name or a number in a document."""


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else GAP
            for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return GAP


def _refusals() -> list[tuple[str, str]]:
    return [
        (path.name, sentence)
        for path in sorted(CONTROL.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in REFUSALS
        and (sentence := _text(node.args[0])).strip(GAP)
    ]


def test_each_refusal_is_documented() -> None:
    documents = "".join(path.read_text() for path in DOCUMENTS)
    refusals = _refusals()
    assert len(refusals) > 20
    missing = [refusal for refusal in refusals if refusal[1] not in documents]
    assert not missing, "these modules raise texts that no document tells"


def test_every_kind_of_reason_is_in_the_table_of_explain() -> None:
    page = (REFERENCE / "verbs-and-refusals.md").read_text()
    section = page.partition("\n## explain ID\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z ]+) \| .*`.*\|$", section, re.MULTILINE)
    assert sorted(rows) == sorted(blocker.kind for blocker in get_args(AnyBlocker))
