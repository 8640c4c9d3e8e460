"""`history` and `availability` as they are printed."""

import json
from collections.abc import Callable

import pytest

from forewarn.cli import history
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]


def test_unknown_name_is_refused(service: Served, forewarn: Run) -> None:
    for command in (
        ("history", "--vm", "nope"),
        ("history", "--summary", "--vm", "nope"),
        ("availability", "--vm", "nope"),
    ):
        ended = forewarn(*command)
        assert (ended.status, ended.out) == (4, "")
        assert "there is no VM 'nope'" in ended.err


def test_a_period_is_checked(service: Served, forewarn: Run) -> None:
    for command in ("history", "availability"):
        assert forewarn(command, "--since", "yesterday").status == 2
        assert forewarn(command, "--since", "1m", "--until", "2m").status == 2


def test_history_entries_are_filtered(service: Served, forewarn: Run) -> None:
    forewarn("fail", "web_0")
    ended = forewarn("history", "--what", "event started", "--json")
    assert [entry["what"] for entry in json.loads(ended.out)] == ["event started"]
    assert forewarn("history", "--actor", "nobody").out == "no entries\n"


def test_summary_lists_operations(service: Served, forewarn: Run) -> None:
    assert forewarn("history", "--summary").out == "no operations\n"
    forewarn("fail", "h1", "--reason", "smoke")
    forewarn("restore", "h1")
    head, *rows = forewarn("history", "--summary").out.splitlines()
    assert head.split()[:3] == ["OPERATION", "STATE", "WHAT"]
    (row,) = rows
    # Two VMs; a failure needs no approval.
    assert "fail of host h1  2    -         2030-01-01T00:00:00Z" in row
    assert len(forewarn("history", "--summary", "--all").out.splitlines()) == 3
    (row,) = forewarn("history", "--summary", "--vm", "web_0").out.splitlines()[1:]
    name = row.split()[0]
    message = forewarn("history", "--summary", "--operation", name).out
    assert message.startswith(f"{name}, fail of host h1: Done, completed\n")
    assert "smoke" in message
    assert "started" in message
    (account,) = json.loads(forewarn("history", "--summary", "--json").out)
    assert {vm["vm"] for vm in account["vms"]} == {"web_0", "db_0"}


def test_summary_names_the_approver_of_the_event_of_each_vm(
    service: Served, forewarn: Run
) -> None:
    forewarn("maintain", "h1", "--impact", "reboot")
    (event,) = json.loads(forewarn("events", "--scope", "web", "--json").out)
    forewarn("approve", event["EventId"])
    (operation,) = json.loads(forewarn("history", "--summary", "--json").out)
    approvers = {vm["vm"]: vm["approved_by"] for vm in operation["vms"]}
    assert approvers == {"web_0": "(operator)", "db_0": None}
    head, *rows = forewarn("history", "--summary", "--all").out.splitlines()
    shown = {
        vm: row[head.index("VM ") : head.index("STARTED")].split()
        for vm, row in zip(approvers, rows, strict=True)
    }
    assert shown == {"web_0": ["web_0", "(operator)"], "db_0": ["db_0", "-"]}


def test_vm_that_left_its_event_keeps_its_approver(
    service: Served, forewarn: Run
) -> None:
    forewarn("fail", "h1")
    forewarn("restore", "h1")
    (operation,) = json.loads(forewarn("history", "--summary", "--json").out)
    approvers = {vm["vm"]: vm["approved_by"] for vm in operation["vms"]}
    assert approvers == {"web_0": "(failure)", "db_0": "(failure)"}


def test_summary_cannot_be_combined_with_entry_filters(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("history", "--summary", "--what", "event")
    assert ended.status == 2
    assert "--what cannot be combined with --summary" in ended.err


def test_availability_is_printed_as_a_table(service: Served, forewarn: Run) -> None:
    forewarn("fail", "web_0")
    ended = forewarn("availability", "--scope", "web")
    period, head, first, second, total, several = ended.out.splitlines()
    assert period.startswith("from ")
    assert head.split()[:5] == ["VM", "UP", "PLANNED", "UNPLANNED", "SCOPE"]
    assert first.startswith("web_0 (down)")
    assert second.startswith("web_1")
    assert total.startswith("2 VMs")
    assert several.startswith("several fault domains of the scope were down at once")


def test_availability_pages_are_merged_into_one_document(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(forewarn("availability", "--json").out)
    assert (len(whole["vms"]), whole["total"]["vms"]) == (5, 5)
    monkeypatch.setattr(history, "PAGE", "2")
    paged = json.loads(forewarn("availability", "--json").out)
    assert paged["vms"] == whole["vms"]
    assert paged["total"] == whole["total"]


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (0.0, "0 s"),
        (0.0000004, "<1 ms"),
        (0.001, "0.001 s"),
        (7.5, "7.5 s"),
        (60.0, "1 m"),
        (3725.2, "1 h 2 m"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_lengths_are_never_rounded_to_zero(length: float, told: str) -> None:
    assert history._length(length) == told


@pytest.mark.parametrize(
    ("percent", "told"),
    [(None, "-"), (100.0, "100 %"), (99.999999, "99.999999 %"), (0.0, "0.000000 %")],
)
def test_hundred_percent_is_shown_only_without_downtime(
    percent: float | None, told: str
) -> None:
    assert history._percent(percent) == told
