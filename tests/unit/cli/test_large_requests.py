"""Requests with many targets: each result and each explanation fits on a screen."""

import json
import re
from collections.abc import Callable, Sequence

import pytest

from forewarn.cli.orders import SHOWN_MAX
from forewarn.reporting.explanations import EXPLAINED_MAX
from tests.unit.admin.gateway import LocalGateway
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

HOSTS = [f"h{number}" for number in range(EXPLAINED_MAX + 5)]


def fleet_of(hosts: Sequence[str]) -> str:
    """Return a fleet with a VM of a scope of its own on each host."""
    return '[[tenant]]\nname = "shop"\n' + "".join(
        f"""
[[scope]]
name = "s-{host}"
tenant = "shop"
kind = "availability-set"

[[host]]
name = "{host}"

[[vm]]
name = "vm-{host}"
host = "{host}"
scope = "s-{host}"
"""
        for host in hosts
    )


@pytest.fixture
def large(service: Served) -> Served:
    """Return a service with a VM on each of many hosts."""
    service.gateway = service.app.state.gateway = LocalGateway(fleet_of(HOSTS))
    return service


def test_explanation_of_a_rollout_counts_the_operations_and_reasons_it_leaves_out(
    large: Served, forewarn: Run
) -> None:
    forewarn("maintain", *HOSTS, "--impact", "freeze", "--at-once", "5")
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    name = rollout["rollout"]
    document = json.loads(forewarn("explain", name, "--json").out)
    assert {operation["state"] for operation in document["operations"]} == {"Announced"}
    assert (len(document["operations"]), document["more_operations"]) == (5, 20)
    (turn,) = (blocker for blocker in document["blockers"] if blocker["kind"] == "turn")
    assert turn["text"] == (
        "20 hosts wait for their turn, with 5 in flight and at most 5 at once"
    )
    lines = forewarn("explain", name).out.splitlines()
    assert lines[-1] == (
        f"and 20 more open operations: forewarn operations --rollout {name}"
    )
    assert len(lines) < 30


ROLLOUT_OF_120 = """\
ROLLOUT, maintain: Open
0 of 120 operations have ended (1 announced, 119 planned); the reasons are those of the \
first 20 of 120 open operations:
  * tenant shop has not enabled Scheduled Events for scope s-h0, so its event waits for \
NotBefore
  * 119 hosts wait for their turn, with 1 in flight and at most 1 at once
  * NotBefore is in 15 m

OPERATION, maintain (freeze) of host h0: Announced
its events are published, and it waits for approval or NotBefore:
  * tenant shop has not enabled Scheduled Events for scope s-h0, so its event waits for \
NotBefore
  * NotBefore is in 15 m

and 119 more open operations: forewarn operations --rollout ROLLOUT
"""


def test_explanation_of_120_hosts_fits_on_a_screen_with_true_counts(
    service: Served, forewarn: Run
) -> None:
    hosts = [f"h{number}" for number in range(120)]
    service.gateway = service.app.state.gateway = LocalGateway(fleet_of(hosts))
    forewarn("maintain", *hosts, "--impact", "freeze", "--at-once", "1")
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    text = forewarn("explain", rollout["rollout"]).out
    text = text.replace(rollout["rollout"], "ROLLOUT")
    assert re.sub(r"^op-\w+", "OPERATION", text, flags=re.MULTILINE) == ROLLOUT_OF_120


def test_explanation_of_one_operation_leaves_nothing_out(
    large: Served, forewarn: Run
) -> None:
    forewarn("maintain", *HOSTS[:2], "--impact", "freeze", "--at-once", "1")
    document = json.loads(forewarn("explain", HOSTS[1], "--json").out)
    assert document["more_operations"] == 0
    assert [blocker["kind"] for blocker in document["blockers"]] == ["turn"]
    planned = forewarn("explain", HOSTS[1]).out.splitlines()
    assert planned[-1] == "it is not announced"
    assert sum("turn" in line for line in planned) == 1


def test_request_prints_its_first_operations_and_the_sums_of_all(
    large: Served, forewarn: Run
) -> None:
    ended = forewarn("maintain", *HOSTS, "--impact", "freeze", "--at-once", "2")
    lines = ended.out.splitlines()
    assert sum(line.startswith("op-") for line in lines) == SHOWN_MAX
    (total,) = (line for line in lines if line.startswith("25 operations, 25 VMs: "))
    (more,) = (line for line in lines if line.startswith("and "))
    assert more.startswith("and 5 more operations: forewarn operations --rollout ro-")
    assert lines.index(more) == lines.index(total) + 1


def test_request_with_all_prints_every_operation(large: Served, forewarn: Run) -> None:
    ended = forewarn("maintain", *HOSTS, "--impact", "freeze", "--all")
    lines = ended.out.splitlines()
    assert sum(line.startswith("op-") for line in lines) == len(HOSTS)


def test_refusals_are_bounded_and_name_their_target_once(
    large: Served, forewarn: Run
) -> None:
    forewarn("maintain", *HOSTS[1:], "--impact", "freeze")
    ended = forewarn("maintain", *HOSTS, "--impact", "freeze")
    assert ended.status == 1
    refusals = [line for line in ended.err.splitlines() if "hint" not in line]
    assert len(refusals) == SHOWN_MAX + 1
    assert refusals[0].startswith("forewarn: host h1 already has ")
    assert refusals[-1] == "forewarn: and 4 more targets refused"


def test_cancelled_operations_are_bounded(large: Served, forewarn: Run) -> None:
    forewarn("maintain", *HOSTS, "--impact", "freeze")
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    lines = forewarn("cancel", rollout["rollout"]).out.splitlines()
    assert lines[-1] == "and 5 more operations"
    assert len(lines) == SHOWN_MAX + 1
    ended = forewarn("cancel", rollout["rollout"])
    assert ended.status == 4
    first, *_ = ended.err.splitlines()
    assert first.endswith(" and 20 more are already Cancelled")
    assert first.count("op-") == 5


def test_planned_operation_has_the_vms_of_its_host_in_the_summary(
    large: Served, forewarn: Run
) -> None:
    forewarn("maintain", *HOSTS[:2], "--impact", "freeze", "--at-once", "1")
    document = json.loads(forewarn("history", "--summary", "--json").out)
    assert [(operation["state"], operation["vm_count"]) for operation in document] == [
        ("Announced", 1),
        ("Planned", 1),
    ]
    lines = forewarn("history", "--summary").out.splitlines()
    assert lines[-1] == "2 operations, 2 VMs: 1 Planned, 1 Announced"


def test_fleet_without_a_match_is_one_sentence(large: Served, forewarn: Run) -> None:
    ended = forewarn("fleet", "show", "--tag", "role=none")
    assert ended.out == "no host, scope or VM matches\n"
    large.gateway = large.app.state.gateway = LocalGateway("")
    assert forewarn("fleet", "show").out == "the fleet is empty\n"


def test_events_have_the_time_format_of_other_lists(
    large: Served, forewarn: Run
) -> None:
    forewarn("maintain", HOSTS[0], "--impact", "freeze")
    assert " 2030-01-01T00:15:00Z " in forewarn("events").out
    forewarn("fail", HOSTS[1])
    assert "GMT" not in forewarn("events").out
