"""Orders as they are typed: what is printed, and how a command ends."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]


def made(run: Run, *words: str) -> Any:
    ended = run(*words, "--json")
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


def test_request_prints_its_result_and_the_next_commands(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("maintain", "h1", "h2", "--impact", "live-migrate")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert re.fullmatch(r"maintain: rollout ro-\w{16}", lines[0])
    head, first, second, summary, next_, follow = lines[1:]
    assert head.split()[:2] == ["OPERATION", "STATE"]
    assert "Announced  maintain (live-migrate) of host h1  2    0/2 " in first
    assert "Planned    maintain (live-migrate) of host h2  3    -   " in second
    assert summary == "2 operations, 5 VMs: 1 Planned, 1 Announced"
    assert re.fullmatch(r"next: forewarn explain op-\w{16}", next_)
    rollout = lines[0].split()[-1]
    assert follow == f"next: forewarn operations --rollout {rollout} --watch"
    ended = forewarn(*next_.split()[2:])
    assert ended.status == 0
    assert "  * NotBefore is in 15 m" in ended.out


def test_every_vm_of_a_request_is_shown_with_its_event(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("maintain", "h1", "--impact", "freeze", "--all")
    lines = ended.out.splitlines()
    table = lines[lines.index("") + 1 : -1]
    assert table[0].split() == ["VM", "EVENT", "STATUS", "SCOPE", "TENANT", "OPERATION"]
    cells = {(row.split()[0], *row.split()[2:5]) for row in table[1:]}
    assert cells == {
        ("web_0", "Scheduled", "web", "shop"),
        ("db_0", "Scheduled", "db", "bank"),
    }
    (silent,) = [
        line
        for line in forewarn("terminate", "web_1", "--all").out.splitlines()
        if line.startswith("web_1 ")
    ]
    assert silent.split()[:5] == ["web_1", "-", "-", "-", "-"]


def test_request_options_are_applied(service: Served, forewarn: Run) -> None:
    request = made(
        forewarn,
        *("maintain", "h1", "--impact", "freeze", "--duration", "-1"),
        *("--not-before", "+1h", "--description", "new disks", "--reason", "ticket 1"),
    )
    assert request["reason"] == "ticket 1"
    (event, *_) = made(forewarn, "events")
    assert event["DurationInSeconds"] == -1
    assert event["Description"] == "new disks"
    assert event["NotBefore"] == "Tue, 01 Jan 2030 01:00:00 GMT"


def test_at_once_option_sets_the_rollout_limit(service: Served, forewarn: Run) -> None:
    ended = forewarn(*["maintain", "h1", "h2", "--impact", "freeze", "--at-once", "2"])
    assert ended.status == 0, ended.err
    rollout = ended.out.splitlines()[0].split()[-1]
    output = forewarn("history", "--operation", rollout)
    assert "2 hosts, at most 2 at once" in output.out
    for wrong in ("banana", "0", "-1"):
        ended = forewarn(*f"maintain h1 h2 --impact freeze --at-once={wrong}".split())
        assert ended.status != 0, wrong
        assert "--at-once: must be" in ended.err


@pytest.mark.parametrize(("text", "seconds"), [("12", 12), ("12s", 12), ("2m", 120)])
def test_event_duration_without_a_unit_is_in_seconds(
    service: Served, forewarn: Run, text: str, seconds: int
) -> None:
    made(forewarn, "maintain", "h1", "--impact", "freeze", "--duration", text)
    (event, *_) = made(forewarn, "events")
    assert event["DurationInSeconds"] == seconds


@pytest.mark.parametrize(
    "words",
    [
        ("maintain", "h1", "--impact", "freeze", "--not-before", "+12"),
        ("predict-failure", "h1", "--in", "12"),
    ],
)
def test_other_durations_need_a_unit(
    service: Served, forewarn: Run, words: tuple[str, ...]
) -> None:
    ended = forewarn(*words)
    assert ended.status == 2
    assert "'12' is not a duration such as 500ms, 7s, 15m" in ended.err


def test_emergency_is_named_in_the_event_description(
    service: Served, forewarn: Run
) -> None:
    made(forewarn, "maintain", "h1", "--impact", "redeploy", "--emergency")
    (event, *_) = made(forewarn, "events")
    assert "emergency" in event["Description"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["reboot", "web_0"], "reboot"),
        (["redeploy", "web_0", "web_1"], "redeploy"),
        (["evict", "db_0"], "evict"),
        (["terminate", "db_1"], "terminate"),
        (["upgrade-os", "db_1"], "upgrade-os"),
        (["reimage", "db_1"], "reimage"),
        (["fail", "h1"], "fail"),
        (["predict-failure", "h1"], "predict-failure"),
        (["predict-failure", "h1", "--in", "3d"], "predict-failure"),
    ],
)
def test_each_request_is_accepted_and_explained(
    service: Served, forewarn: Run, words: list[str], kind: str
) -> None:
    assert made(forewarn, *words)["kind"] == kind
    explained = forewarn(
        "explain", made(forewarn, "operations", "--all")[0]["operation"]
    )
    assert kind in explained.out


def test_request_without_an_event_reports_that_no_vm_gets_notice(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("terminate", "web_0")
    assert "no event, so no VM gets notice" in ended.out


def test_fail_and_restore_accept_a_kind(service: Served, forewarn: Run) -> None:
    assert forewarn("fail", "same").status == 4
    assert forewarn("fail", "same", "--kind", "vm").status == 0
    ended = forewarn("restore", "same", "--kind", "vm")
    assert ended.out == "vm same is running\n"


def test_cancel_ends_the_operations_of_a_rollout(
    service: Served, forewarn: Run
) -> None:
    request = made(forewarn, "maintain", "h1", "h2", "--impact", "reboot")
    ended = forewarn("cancel", request["rollout"], "--reason", "late")
    assert len(ended.out.splitlines()) == 2
    assert " is cancelled: maintain (reboot) of host h1" in ended.out
    ended = forewarn("cancel", request["rollout"])
    assert ended.status == 4
    assert "no operation of" in ended.err


def test_approve_accepts_only_vms_of_the_event(service: Served, forewarn: Run) -> None:
    made(forewarn, "maintain", "h1", "--impact", "reboot")
    (event, *_) = made(forewarn, "events", "--scope", "web")
    ended = forewarn("approve", event["EventId"], "--as", "web_1")
    assert ended.status == 4
    assert "cannot approve it" in ended.err
    ended = forewarn("approve", event["EventId"])
    assert f"event {event['EventId']} is approved by (operator)" in ended.out
    assert f"next: forewarn explain {event['operation']}" in ended.out


def test_late_approval_reports_that_it_changes_nothing(
    service: Served, forewarn: Run
) -> None:
    operation = made(forewarn, "maintain", "h1", "--impact", "reboot")["operations"][0]
    name = operation["events"][0]["EventId"]
    forewarn("cancel", operation["operation"])
    ended = forewarn("approve", name)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(
        f"event {name} was cancelled: the approval changes nothing\n"
    )

    service.gateway.driver.is_silent = True
    operation = made(forewarn, "maintain", "h1", "--impact", "reboot")["operations"][0]
    name = operation["events"][0]["EventId"]
    service.do(lambda: service.gateway.advance("16m"))
    ended = forewarn("approve", name)
    assert ended.out.startswith(
        f"event {name} has started without approval: the approval changes nothing\n"
    )

    service.gateway.driver.forgets = True
    service.do(lambda: service.gateway.advance("31m"))
    forewarn("resolve", operation["operation"], "done")
    service.do(lambda: service.gateway.advance("31m"))
    ended = forewarn("approve", name)
    assert ended.out.startswith(
        f"event {name} ended without approval (completed): "
        "the approval changes nothing\n"
    )

    forewarn("fail", "web_1")
    (event,) = made(forewarn, "events", "--vm", "web_1")
    ended = forewarn("approve", event["EventId"])
    assert ended.out.startswith(
        f"event {event['EventId']} reports a failure, which needs no approval: "
        "the approval changes nothing\n"
    )


def test_resolve_records_an_unknown_outcome(service: Served, forewarn: Run) -> None:
    service.gateway.driver.is_silent = True
    service.gateway.driver.forgets = True
    operation = made(forewarn, "reboot", "web_0")["operations"][0]["operation"]
    ended = forewarn("resolve", operation, "done")
    assert ended.status == 4
    service.do(lambda: service.gateway.advance("31m"))
    ended = forewarn("resolve", operation, "failed", "--down", "web_0")
    assert ended.out == f"{operation} is Failed: reboot of vm web_0\n"


def test_refusal_gives_the_reason_and_a_hint(service: Served, forewarn: Run) -> None:
    ended = forewarn("reboot", "web_0", "--not-before", "+1m")
    assert (ended.status, ended.out) == (4, "")
    assert ended.err == (
        "forewarn: Reboot needs a notice of at least 15 m\n"
        "  hint: Use a later time, or omit it.\n"
    )
    ended = forewarn("reboot", "web_9")
    assert ended.status == 4
    assert "there is no VM 'web_9'" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["fleet"],
        ["maintain", "h1"],
        ["maintain", "h1", "--impact", "burn"],
        ["reboot"],
        ["reboot", "web_0", "--not-before", "tomorrow"],
        ["maintain", "h1", "--impact", "freeze", "--duration", "soon"],
        ["resolve", "op-x", "maybe"],
        ["operations", "--state", "asleep"],
        ["history", "--since", "ever"],
        ["operations", "--url", "127.0.0.1:8200"],
        ["operations", "--url", "http://[::1"],
        ["operations", "--token", "t\u00f6ken"],
    ],
)
def test_wrong_usage_exits_with_status_2(
    service: Served, forewarn: Run, words: list[str]
) -> None:
    ended = forewarn(*words)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err


@pytest.mark.parametrize(
    "words",
    [
        ["history", "--vm", ""],
        ["explain", ""],
        ["cancel", ""],
        ["reboot", "web_0", ""],
        ["approve", "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "--as", ""],
        # It would be an operator's.
        ["token", "create", "--tenant", ""],
        ["resolve", "op-x", "failed", "--down="],
    ],
)
def test_empty_value_from_an_unset_variable_is_rejected(
    service: Served, forewarn: Run, words: list[str]
) -> None:
    ended = forewarn(*words)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.endswith(": the value is empty; check for an unset variable\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            "reboot web_0 --not-before tomorrow",
            "--not-before: 'tomorrow' is not a time",
        ),
        ("maintain h1 --impact freeze --at-once 0", "--at-once: must be at least 1"),
        ("predict-failure h1 --in soon", "--in: 'soon' is not a duration"),
        ("operations --tag role", "--tag: must be KEY=VALUE, such as role=web"),
        ("history --since ever", "--since: 'ever' is not a duration"),
        (f"reboot web_0 {'x' * 300}", "VM number 2: must have at most 256 characters"),
        (f"approve x --as {'x' * 300}", "--as: must have at most 256 characters"),
    ],
)
def test_invalid_value_is_reported_with_its_option_and_form(
    service: Served, forewarn: Run, words: str, error: str
) -> None:
    ended = forewarn(*words.split())
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"forewarn: {error}")
    assert "openapi" not in ended.err
    assert "  hint: " in ended.err


def test_a_reason_may_be_empty(service: Served, forewarn: Run) -> None:
    request = made(forewarn, "reboot", "web_0", "--reason", "", "--description", "")
    assert request["reason"] == ""


def test_options_may_precede_the_command(service: Served, forewarn: Run) -> None:
    ended = forewarn("--json", "--reason", "early", "reboot", "web_0")
    assert json.loads(ended.out)["reason"] == "early"


def test_names_are_also_read_from_a_file(
    service: Served, forewarn: Run, tmp_path: Path
) -> None:
    file = tmp_path / "names.txt"
    file.write_text("web_1\n\n  db_1  \n", encoding="utf-8")
    request = made(forewarn, "redeploy", "web_0", "--file", str(file))
    targets = [operation["target"] for operation in request["operations"]]
    assert targets == ["web_0", "web_1", "db_1"]


def test_request_without_a_name_is_a_usage_error(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("reboot")
    assert ended.status == 2
    assert "needs a name or a selector" in ended.err
    assert "--file" in ended.err


def test_file_without_names_is_a_usage_error(
    service: Served, forewarn: Run, tmp_path: Path
) -> None:
    file = tmp_path / "names.txt"
    file.write_text("\n", encoding="utf-8")
    for command in (["fail"], ["operations"], ["fleet", "show"], ["history"]):
        ended = forewarn(*command, "--file", str(file))
        assert (ended.status, ended.out) == (2, "")
        assert f"{file} has no names" in ended.err


def test_request_runs_for_the_valid_names(service: Served, forewarn: Run) -> None:
    ended = forewarn("redeploy", "web_9", "web_0", "web_8")
    assert ended.status == 1
    assert "web_0" in ended.out
    assert "forewarn: there is no VM 'web_9'\n" in ended.err
    assert "forewarn: there is no VM 'web_8'\n" in ended.err
    ended = forewarn("redeploy", "web_9", "web_8")
    assert ended.status == 4
    assert ended.err.startswith("there is no VM 'web_9'\n")
    assert "all 2 targets were refused" in ended.err


def test_several_vms_are_restored_at_once(service: Served, forewarn: Run) -> None:
    assert forewarn("fail", "web_0", "web_1").status == 0
    ended = forewarn("restore", "web_0", "web_1", "db_0")
    assert ended.status == 1
    assert ended.out == "vm web_0 is running\nvm web_1 is running\n"
    assert ended.err.startswith("forewarn: VM db_0 is not down\n")
