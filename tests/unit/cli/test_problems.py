"""`forewarn problems`: the worst first also with --watch, and a command for each problem."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from forewarn.cli.attention import PROBLEMS
from forewarn.cli.list_state import ListState
from forewarn.cli.live_list import drawn
from forewarn.cli.parser import build
from forewarn.cli.problem_commands import command_for
from forewarn.instants import parse_instant
from tests.unit.cli.conftest import Ended, Served
from tests.unit.cli.test_blackouts import LINE

Run = Callable[..., Ended]

NOW = parse_instant("2030-01-02T10:00:00Z")


def problem(kind: str, name: str, **members: Any) -> dict[str, Any]:
    return {
        "problem": f"{kind}:{name}",
        "kind": kind,
        "since": "2030-01-02T09:00:00Z",
        "text": f"{kind} of {name}",
        "actions": [],
        "operation": None,
        "target": name,
        "tenants": [],
        "hosts": [name],
        "webhook": None,
        "campaign": None,
        **members,
    }


def test_worst_problems_come_first_with_watch_and_stay_if_lines_run_out() -> None:
    state = ListState(PROBLEMS)
    changes = [
        problem("blackout", "freeze"),
        problem("vm-down", "h2"),
        problem("a-newer-kind", "h4"),
        problem("vm-down", "h1", since="2030-01-02T09:30:00Z"),
        problem("held", "h3"),
        problem("not-ready", "1", since=None),
    ]
    for problem_ in changes:
        state.take("problems", problem_, now=NOW)
    state.take("ready", {}, now=NOW)
    # The last change is that of the least urgent problem.
    state.take("problems", {**changes[0], "text": "changed"}, now=NOW)

    def lines(height: int) -> list[str]:
        return drawn(state, title="problems", width=120, height=height).plain.split(
            "\n"
        )

    worst_first = ["1", "h2", "h1", "h3", "freeze", "h4"]
    rows = [row for row in lines(40)[2:] if not row.startswith(" ")]
    assert [row.split()[0] for row in rows] == worst_first
    *rows, rest = lines(5)[2:]
    assert [row.split()[0] for row in rows] == worst_first[:2]
    assert rest == "and 4 more, which are less urgent"


COMMANDS: tuple[tuple[dict[str, Any], str], ...] = (
    (problem("vm-down", "h1", actions=["restore", "redeploy"]), "restore h1"),
    (
        problem("held", "h1", actions=["explain", "cancel"], operation="op-1"),
        "explain op-1",
    ),
    (
        problem("held", "h1", actions=["brake off", "cancel"], operation="op-1"),
        "brake off",
    ),
    # The VM of the operation is on a host with a silent relay.
    (
        problem("held", "web_0", actions=["relay list", "cancel"], hosts=["h1"]),
        "relay list --host h1",
    ),
    (
        problem("brake", "brake", actions=["brake off"], target=None),
        "brake off",
    ),
    (problem("host-cordoned", "h1", actions=["host open"]), "host open h1"),
    (
        problem("relay-silent", "h1", actions=["relay list", "token revoke"]),
        "relay list --host h1",
    ),
    (
        problem("shared-host", "h1/web", target="h1", actions=["maintain", "redeploy"]),
        "maintain h1 --impact live-migrate",
    ),
    (
        problem("blackout", "freeze", target=None, actions=["blackout remove"]),
        "blackout remove freeze --reason TEXT",
    ),
    (
        problem("visit-failed", "h1", actions=["visit retry", "visit skip"]),
        "visit retry h1",
    ),
    (
        problem(
            "campaign-failed-hosts",
            "ca-1",
            campaign="bios",
            hosts=["h1", "h2"],
            actions=["campaign retry", "campaign skip"],
        ),
        "campaign retry bios --failed",
    ),
    (
        problem("visit-failed", "h1", campaign="bios", actions=["campaign retry"]),
        "campaign retry bios h1",
    ),
    (
        problem(
            "campaign-halted", "ca-1", campaign="bios", actions=["campaign resume"]
        ),
        "explain bios",
    ),
    (problem("vm-not-running", "web_0", actions=["fail"]), "explain web_0"),
    (
        problem("webhook-late", "pager", webhook="pager", actions=["webhook test"]),
        "webhook test pager",
    ),
    (
        problem("no-standby", "database", target=None, actions=["cluster show"]),
        "cluster show",
    ),
    (problem("not-ready", "1", target=None), ""),
)


@pytest.mark.parametrize(("example", "command"), COMMANDS)
def test_each_problem_has_a_command_that_can_be_copied(
    example: dict[str, Any], command: str
) -> None:
    assert command_for(example) == (f"forewarn {command}" if command else "")
    if command:
        arguments = shlex.split(command)
        assert build(arguments).parse_args(arguments)


def test_commands_of_the_list_end_its_problems(service: Served, forewarn: Run) -> None:
    why = ("--reason", "a test")
    assert forewarn("host", "cordon", "h2", *why).status == 0
    assert forewarn("blackout", "set", "freeze", LINE, *why).status == 0
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    service.do(lambda: service.gateway.advance("25h"))
    assert forewarn("brake", "on", *why).status == 0
    assert forewarn("fail", "h2").status == 0
    ended = ("brake", "vm-down", "blackout", "host-cordoned")
    for kind in ended:
        _, row = forewarn("problems", "--kind", kind).out.splitlines()
        _, _, command = row.rpartition("forewarn ")
        assert forewarn(*command.split()).status == 0
        assert (
            json.loads(forewarn("problems", "--json", "--kind", kind).out)["problems"]
            == []
        )


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("words", ["operations", "events", "campaign list"])
def test_watched_list_refuses_all(forewarn: Run, words: str) -> None:
    ended = forewarn(*words.split(), "--all", "--watch")
    assert (ended.status, ended.out) == (2, "")
    assert "--all cannot be used with --watch" in ended.err
    assert "hint: Leave out one of them" in ended.err
