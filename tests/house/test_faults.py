"""The page of faults lists what there is, and what it shows can be given."""

import re

import pytest

from forewarn.sim.deviations import RULES
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import FAULTS, READS, Kind
from forewarn.sim.faults.file import read_faults
from forewarn.sim.journal import SEEN_MAX
from tests.support.pages import REFERENCE, TESTING

PAGE = REFERENCE / "faults.md"
GUIDE = TESTING / "faults.md"
BLOCK = re.compile(r"<!-- (kinds|deviations) -->\n.*?<!-- /\1 -->", re.DOTALL)
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def line_of(kind: Kind) -> str:
    name = f"`{kind.name}`"
    if kind.argument is not None:
        optional = "" if kind.argument.required else ", or alone"
        name = (
            f"`{kind.name} {kind.argument.example}` (`{kind.argument.key}`){optional}"
        )
    hits = "GET" if kind.methods == READS else "GET, POST"
    approval = ", ".join(approval.value for approval in kind.approvals) or "not hit"
    return f"| {name} | {kind.sentence} | {hits} | {approval} |"


def tables() -> dict[str, str]:
    kinds = ["| kind | what the VM sees | hits | approval |", "|---|---|---|---|"]
    kinds += map(line_of, FAULTS.values())
    rules = ["| name | what the client did | clause |", "|---|---|---|"]
    rules += [
        f"| `{rule.name}` | {rule.sentence} | {rule.clause} |"
        for rule in RULES.values()
    ]
    return {"kinds": "\n".join(kinds), "deviations": "\n".join(rules)}


def test_the_page_lists_every_kind_and_deviation(
    request: pytest.FixtureRequest,
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    text_by_table = tables()
    wanted = BLOCK.sub(
        lambda block: (
            f"<!-- {block[1]} -->\n{text_by_table[block[1]]}\n<!-- /{block[1]} -->"
        ),
        text,
    )
    assert {block[1] for block in BLOCK.finditer(text)} == {*text_by_table}
    if request.config.getoption("--rewrite"):
        PAGE.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run `pytest --rewrite tests/house`"


def test_documented_faults_can_be_parsed() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = [(match[1], match[2]) for match in FENCE.finditer(text)]
    lines = [
        line for kind, body in blocks if kind == "faults" for line in body.split("\n")
    ]
    assert len(lines) > 5
    for line in filter(None, lines):
        syntax.parse_playbook(line)
    (file,) = [body for kind, body in blocks if kind == "toml"]
    assert len(read_faults(file, name="faults.toml")) == 4
    for written in re.findall(r"forewarn sim fault web_0 ([^-#\n]+)\n", text):
        syntax.parse_playbook(written)
    assert f"the latest {SEEN_MAX:,} requests" in text


def test_clauses_of_deviations_exist() -> None:
    protocol = (PAGE.parent / "protocol.md").read_text(encoding="utf-8")
    for rule in RULES.values():
        section = rule.clause.partition(".")[0]
        assert f"\n## {section}" in protocol or rule.clause in protocol, rule.name
