"""Every way to give an order is made of the table of verbs, or holds to it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cli_reference import usage
from forewarn.admin import orders
from forewarn.cli import orders as cli_orders
from forewarn.cli.commands import COMMANDS
from forewarn.control.requests.verbs import DECISIONS
from forewarn.protocol.operations import Verb
from forewarn.store.records import AuditKind
from forewarn.testing import ScheduledEvents, Vm
from forewarn.testing.channel import VERBS as CHANNEL
from forewarn.verbs.arguments import REASON
from forewarn.verbs.model import Answer, Entry, Form, Refusal
from forewarn.verbs.table import SHARED_REFUSALS, VERBS
from tests.support.pages import DOCS, REFERENCE

PAGE = REFERENCE / "verbs-and-refusals.md"
HTTP = REFERENCE / "http-api.md"
TOKENS = DOCS / "how-to" / "operate" / "tenant-tokens.md"
SIMULATOR = REFERENCE / "simulator.md"
REQUESTS = re.compile(r"<!-- requests -->\n.*?<!-- /requests -->", re.DOTALL)
BLOCK = re.compile(r"<!-- verb (\S+) -->\n.*?<!-- /verb -->", re.DOTALL)
ANSWERS = {
    Answer.REQUEST: "the request",
    Answer.RESTORED: "`restored`: `kind`, `name` and `state` of each",
    Answer.CANCELLED: "`cancelled`: the operations",
    Answer.APPROVED: "`approved`: the events",
    Answer.HOSTS: "`hosts`: the changed hosts",
    Answer.CHOICES: "`deferrals`: the new choices",
    Answer.SCOPES: "`scopes`: the windows of the changed scopes",
    Answer.CAMPAIGN: "the campaign",
    Answer.CAMPAIGN_HOSTS: "the campaign",
    Answer.BLACKOUTS: "`blackouts`: all blackouts of the service",
    Answer.OPERATION: "the operation",
}


def _verb(entry: Entry) -> Iterator[str]:
    command = next(command for command in COMMANDS if command.path == entry.path)
    who = "operators, and tenants for their own" if entry.for_tenants else "operators"
    role = "any role but `view`" if entry.stops else f"role `{entry.role.value}`"
    yield f"`forewarn {entry.command}{usage(command.options)}` · for {who} · {role}"
    yield ""
    yield "| argument | option | meaning |"
    yield "|---|---|---|"
    targets = entry.targets
    shown = targets.metavar.replace("|", "\\|")
    yield f"| `{targets.key}` | `{shown}` | {targets.about} |"
    for argument in (*entry.arguments, REASON):
        choices = f" `{'`, `'.join(argument.words)}`." if argument.words else ""
        role = f" Needs the role `{argument.role.value}` too." if argument.role else ""
        yield f"| `{argument.key}` | `{argument.name}` | {argument.about}{choices}{role} |"
    yield ""
    yield from _refusals(entry.refusals)


def _refusals(refusals: tuple[Refusal, ...]) -> Iterator[str]:
    yield "| refused when | error message |"
    yield "|---|---|"
    for refusal in refusals:
        yield f"| {refusal.when} | {', '.join(f'`{text}`' for text in refusal.sentences)} |"


def _routes() -> Iterator[str]:
    yield "| POST | body | answer |"
    yield "|---|---|---|"
    for entry in VERBS.values():
        keys = (
            entry.targets.key,
            *(argument.key for argument in entry.arguments),
            "reason",
        )
        members = ", ".join(f"`{key}`" for key in keys)
        yield f"| `/v1/{entry.name}` | {members} | {ANSWERS[entry.answer]} |"


def _block(name: str) -> str:
    lines = {
        "shared": lambda: _refusals(SHARED_REFUSALS),
        "routes": _routes,
    }.get(name, lambda: _verb(VERBS[name]))()
    return "\n".join([f"<!-- verb {name} -->", *lines, "<!-- /verb -->"])


@pytest.mark.parametrize("page", [PAGE, HTTP], ids=["verbs", "api"])
def test_pages_match_the_verb_table(page: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    named = {"routes"} if page is HTTP else {"shared", *VERBS}
    assert {*BLOCK.findall(text)} == named, (
        f"{page.name}: each verb needs a section with the lines `<!-- verb NAME -->` and "
        "`<!-- /verb -->`; `pytest --rewrite tests/house` writes the text between them"
    )
    wanted = BLOCK.sub(lambda match: _block(match[1]), text)
    if request.config.getoption("--rewrite"):
        page.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run `pytest --rewrite tests/house`"


def test_every_verb_has_its_decision() -> None:
    assert set(DECISIONS) == set(VERBS)


def test_every_kind_of_answer_has_a_response_an_output_and_a_description() -> None:
    for shown in (orders.ANSWERS, cli_orders.SHOWN, ANSWERS):
        assert set(shown) == set(Answer)


def test_every_stored_verb_is_in_the_table() -> None:
    for verb in Verb:
        assert VERBS[verb.value].answer is Answer.REQUEST
        assert AuditKind[f"{verb.name}_ORDERED"].value == f"{verb.value} ordered"


@pytest.mark.parametrize("entry", VERBS.values(), ids=list(VERBS))
def test_verb_entry_is_complete(entry: Entry) -> None:
    keys = [
        entry.targets.key,
        *(argument.key for argument in entry.arguments),
        REASON.key,
    ]
    assert len(keys) == len(set(keys))
    assert entry.refusals
    assert set(entry.body) <= set(keys)
    for argument in entry.arguments:
        assert bool(argument.words) == (argument.form is Form.WORD)
    for example in entry.examples:
        assert example.startswith(f"forewarn {entry.command} ")


def test_kit_methods_have_the_names_in_the_table() -> None:
    """The others are given by `ScheduledEvents.order`."""
    named = {name.replace("-", "_") for name in VERBS}
    methods = {
        name for kind in (ScheduledEvents, Vm) for name in dir(kind) if name in named
    }
    # Cancelled and approved is an event, by its own methods.
    without = {
        *("upgrade_os", "reimage", "cancel", "approve", "resolve"),
        *("host_cordon", "host_open", "host_drain", "visit_retry", "visit_skip"),
        *("window_set", "window_clear", "blackout_set", "blackout_remove"),
        *(name for name in named if name.startswith("campaign_")),
        *("defer", "expedite"),
    }
    assert methods == named - without, (
        "write a method of ScheduledEvents or Vm for the verb, or add its name to "
        "`without`: `ScheduledEvents.order` gives every verb"
    )
    assert methods <= set(CHANNEL), "add the method to forewarn.testing.channel.VERBS"


def test_page_of_the_simulator_lists_all_requests(
    request: pytest.FixtureRequest,
) -> None:
    commands = ", ".join(f"`{entry.command}`" for entry in VERBS.values())
    text = SIMULATOR.read_text("utf-8")
    block = f"<!-- requests -->\n{commands}.\n<!-- /requests -->"
    wanted = REQUESTS.sub(lambda _: block, text)
    if request.config.getoption("--rewrite"):
        SIMULATOR.write_text(wanted, "utf-8")
        text = wanted
    assert commands in text
    assert text == wanted, "run `pytest --rewrite tests/house`"


def test_page_of_tokens_lists_the_rights_for_each_verb() -> None:
    _, _, table = TOKENS.read_text("utf-8").partition("| allowed | not allowed |\n")
    rows = [line.split("|")[1:3] for line in table.partition("\n\n")[0].splitlines()]
    allowed, denied = (
        {*re.findall(r"`([a-z-]+)`", " ".join(row[at] for row in rows))} & {*VERBS}
        for at in (0, 1)
    )
    for_tenants = {name for name, entry in VERBS.items() if entry.for_tenants}
    assert allowed == for_tenants, TOKENS.name
    # `cancel` is on both sides: a tenant cancels only the requests of its tokens.
    assert denied == {*VERBS} - for_tenants | {"cancel"}, TOKENS.name


NEW_VERB = '''
import dataclasses, json, sys

from forewarn.verbs import table
from forewarn.verbs.model import Argument, Form

TIMES = Argument(key="times", form=Form.COUNT, about="How often they bounce.")
table.VERBS["bounce"] = dataclasses.replace(
    table.VERBS["reboot"],
    name="bounce",
    summary="bounce VMs",
    arguments=(TIMES, *table.VERBS["reboot"].arguments),
    examples=("forewarn bounce web_0 --times 2",),
)

from forewarn.control.requests import verbs
from forewarn.protocol.operations import Verb

def bounce(work, given):
    asked.append((given.targets, given.number("times")))
    return verbs.DECISIONS["reboot"](work, given)

asked = []
verbs.DECISIONS["bounce"] = bounce

from forewarn.admin.access import DEMANDS
from forewarn.cli import main
from forewarn.testing import ScheduledEvents

SCENARIO = """
description = "it bounces"
[[step]]
bounce = "web_0"
times = 4
"""

with ScheduledEvents(vms=2, clock="virtual") as world:
    made = world.order("web_0", verb="bounce", arguments={"times": 2})
    assert [event.type for event in made] == ["Reboot"], made
    made[0].cancel()
    status = main(
        ["bounce", "web_1", "--times", "3", "--json", "--url", world.api_url]
    )
    assert status == 0
import pathlib
file = pathlib.Path(sys.argv[1])
file.write_text(SCENARIO)
with ScheduledEvents(vms=1, clock="virtual") as world:
    world.run_scenario(file, expect="none")
assert DEMANDS["POST /v1/bounce"] is DEMANDS["POST /v1/reboot"]
print(json.dumps(asked))
'''


def test_verb_is_added_with_an_entry_and_a_decision(tmp_path: Path) -> None:
    program = tmp_path / "bounce.py"
    program.write_text(NEW_VERB, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "bounce.toml")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == (
        '[[["web_0"], 2], [["web_1"], 3], [["web_0"], 4]]'
    )
