"""`campaign plan` from the command line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.cli import campaigns
from tests.unit.cli.conftest import Ended, Screen, Served

Run = Callable[..., Ended]
Json = dict[str, Any]

TEXT = """\
[campaign]
name = "kernel"
reason = "CVE-2026-1234"
impact = "freeze"
select = { all = true }
[campaign.budget]
in_flight = "50%"
unavailable = 3
[[campaign.budget.by]]
label = "rack"
max = 1
[[campaign.window]]
start = "06:00"
length = "3h"
"""


def test_plan_shows_order_constraint_and_end(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "kernel.toml"
    file.write_text(TEXT)
    ended = forewarn("campaign", "plan", str(file))
    assert ended.status == 0, ended.err
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    lines = ended.out.splitlines()
    hosts = plan["host_count"]
    assert lines[0].startswith(f"campaign kernel: freeze of {hosts} hosts with ")
    assert f"  in_flight 50%: {hosts // 2} host" in ended.out
    assert "  rack 1: no host has this label" in lines
    assert f"binds: {plan['bounds'][0]['message']}: at least" in ended.out
    assert "warning: no host has the label rack of [[campaign.budget.by]]" in lines
    assert lines[-1] == f"plan {plan['digest']}; nothing was announced or changed"
    # A host with VMs gets its notice of 15 minutes before the window opens.
    for host in plan["hosts"][:1]:
        assert host["begins"][11:] == ("05:45:00Z" if host["vms"] else "06:00:00Z")
    assert [host["stage"] for host in plan["hosts"]] == [1, *[2] * (hosts - 1)]


def told_in(page: Path) -> Json:
    """Return the data that a page shows."""
    text = page.read_text(encoding="utf-8")
    match = re.search(
        r'<script type="application/json" id="sheet-data">(.*?)</script>', text
    )
    assert match is not None
    return json.loads(match[1])


def test_page_has_each_host_with_its_place(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file, page = tmp_path / "kernel.toml", tmp_path / "kernel.html"
    file.write_text(TEXT.replace('"kernel"', '"kernel-6.12"'))
    ended = forewarn("campaign", "plan", str(file), "--html", str(page))
    assert ended.status == 0, ended.err
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    assert "<title>plan: kernel-6.12</title>" in page.read_text(encoding="utf-8")
    page_data = told_in(page)
    assert [host["host"] for host in page_data["hosts"]] == [
        host["host"] for host in plan["hosts"]
    ]
    assert all({"cluster", "rack"} <= set(host) for host in page_data["hosts"])


def test_plan_names_hosts_of_other_campaigns_and_what_frees_them(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file, page = tmp_path / "kernel.toml", tmp_path / "kernel.html"
    file.write_text(TEXT)
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    assert plan["held"] == []
    digest = ("--plan", plan["digest"], "--reason", "night")
    assert forewarn("campaign", "start", str(file), *digest).status == 0
    file.write_text(TEXT.replace('"kernel"', '"bios"'))
    ended = forewarn("campaign", "plan", str(file), "--html", str(page))
    assert ended.status == 0, ended.err
    (held,) = json.loads(forewarn("campaign", "plan", str(file), "--json").out)["held"]
    lines = ended.out.splitlines()
    place = lines.index(f"the start would be refused: {held['message']}")
    assert lines[place + 1].startswith(f"  kernel ({held['campaign']}, Running): ")
    assert lines[place + 2] == f"  hint: {held['hint']}"
    assert "`forewarn campaign skip kernel " in held["hint"]
    assert told_in(page)["held"] == [held]


def test_invalid_file_and_unknown_names_have_their_statuses(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "kernel.toml"
    file.write_text(TEXT.replace("all = true", 'zone = ["z9"]'))
    ended = forewarn("campaign", "plan", str(file))
    assert (ended.status, ended.out) == (4, "")
    assert 'select.zone: no host has zone "z9"' in ended.err
    file.write_text(TEXT.replace("freeze", "thaw"))
    ended = forewarn("campaign", "plan", str(file))
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.splitlines()[:2] == [
        (
            f"{file}:4: campaign.impact: must be one of freeze, reboot, live-migrate, "
            'redeploy, none, not "thaw"'
        ),
        "forewarn: the campaign file cannot be used",
    ]
    file.write_text(TEXT.replace('"3h"', '"30m"'))
    ended = forewarn("campaign", "plan", str(file))
    assert ended.status == 4
    assert "no window is long enough for a host" in ended.err


def test_report_of_a_running_campaign_in_all_forms(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "kernel.toml"
    file.write_text(
        '[campaign]\nname = "kernel"\nreason = "CVE"\nimpact = "freeze"\n'
        "select = { all = true }\n"
    )
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    started = forewarn("campaign", "start", str(file), "--plan", plan["digest"])
    assert started.status == 0, started.err
    ended = forewarn("campaign", "report", "kernel")
    assert ended.status == 0, ended.err
    hosts = plan["host_count"]
    assert f"{hosts} attempts: " in ended.out
    document = json.loads(forewarn("campaign", "report", "kernel", "--json").out)
    assert document["sums"]["attempts"] == len(document["attempts"]) == hosts
    shown = forewarn("campaign", "show", "kernel", "--racks")
    assert shown.out.splitlines()[-1].split()[:3] == ["2", "-", str(hosts - 1)]
    racks = json.loads(forewarn("campaign", "show", "kernel", "--racks", "--json").out)
    assert sum(rack["hosts"] for rack in racks["racks"]) == hosts
    rows, page = tmp_path / "kernel.csv", tmp_path / "kernel.html"
    forewarn("campaign", "report", "kernel", "--csv", str(rows), "--html", str(page))
    lines = rows.read_text("utf-8").splitlines()
    assert lines[0].startswith("host,stage,operation,state,")
    assert len(lines) == 1 + hosts
    assert "<title>report: kernel</title>" in page.read_text("utf-8")
    document = told_in(page)
    assert document["campaign"]["state"] == "Running"
    assert document["sums"]["attempts"] == hosts
    explained = forewarn("explain", "kernel")
    assert f"0 of {hosts} hosts are done" in explained.out


def test_start_of_a_plan_that_has_changed_names_the_difference(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "kernel.toml"
    file.write_text(TEXT)
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    host = plan["hosts"][0]["host"]
    file.write_text(TEXT.replace("all = true", f'all = true, except = ["{host}"]'))
    refused = forewarn("campaign", "start", str(file), "--plan", plan["digest"])
    assert refused.status == 4
    assert "the campaign file was changed; 1 host " in refused.err
    assert f"({host}) is gone" in refused.err


def test_an_expected_end_names_what_it_depends_on() -> None:
    eta = {"at": "2031-01-02T03:04:05Z", "hosts": 7, "approvals": 2, "unknown": None}
    assert campaigns.expected_end(eta) == (
        "2031-01-02T03:04:05Z (7 hosts measured, if 2 stages are approved at once)"
    )


def test_show_of_an_emergency_says_so_and_has_the_hosts_that_are_left_by_stage(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "cve.toml"
    file.write_text(
        '[campaign]\nname = "cve"\nreason = "CVE"\nimpact = "reboot"\n'
        "emergency = true\nselect = { all = true }\nbudget = { in_flight = 2 }\n"
    )
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    forewarn("campaign", "start", str(file), "--plan", plan["digest"])
    last = plan["hosts"][-1]["host"]
    forewarn("campaign", "skip", "cve", last, "--reason", "is gone")
    shown = forewarn("campaign", "show", "cve").out.splitlines()
    assert f"skipped: {last}: left out of campaign cve by operator: is gone" in shown
    assert "expected end: unknown (no host is done)" in shown
    document = json.loads(forewarn("campaign", "show", "cve", "--json").out)
    assert [host["host"] for host in document["skipped_hosts"]] == [last]
    assert document["eta"]["unknown"] == "no host is done"
    listed = forewarn("campaign", "list").out.splitlines()
    assert "EXPECTED END" in listed[0]
    assert "unknown" in listed[1]
    report = forewarn("campaign", "report", "cve").out.splitlines()
    assert f"skipped: {last}: left out of campaign cve by operator: is gone" in report
    at = shown.index("budgets: in_flight 2")
    assert shown[at + 1] == "emergency: windows, blackouts and deferrals do not stop it"
    assert shown[at + 2].startswith("tolerance: 2 failures of the last 50 hosts, 1 in")
    assert shown[at + 2].endswith(", from stage 2 on")
    stages = [line.split()[:3] for line in shown if line[:1].isdigit()][-2:]
    hosts = plan["host_count"]
    assert stages == [["1", "1", "1"], ["2", f"{hosts - 1}", f"{hosts - 2}"]]


def test_show_has_changed_tolerance_and_the_hosts_of_percentages(
    tmp_path: Path, service: Served, forewarn: Run
) -> None:
    file = tmp_path / "kernel.toml"
    file.write_text(TEXT)
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    forewarn("campaign", "start", str(file), "--plan", plan["digest"])
    terms = ("--in-a-row", "2", "--vms-down", "4", "--in-flight", "50%")
    changed = forewarn("campaign", "set", "kernel", *terms, "--unavailable", "100%")
    half, hosts = plan["host_count"] // 2, plan["host_count"]
    assert f"in_flight 50% ({half} host" in changed.out
    assert f"unavailable 100% ({hosts} hosts)" in changed.out
    assert (
        "tolerance: 2 failures of the last 50 hosts, 2 in a row, 4 VMs down, from stage 2"
        in changed.out
    )


def test_long_reasons_are_folded_on_a_terminal(
    tmp_path: Path, service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, long = tmp_path / "kernel.toml", "the image is not on its host " * 6
    file.write_text(TEXT)
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    digest = ("--plan", plan["digest"], "--reason", "night")
    assert forewarn("campaign", "start", str(file), *digest).status == 0
    assert forewarn("campaign", "pause", "kernel", "--reason", long).status == 0
    document = json.loads(forewarn("campaign", "show", "kernel", "--json").out)
    document["failed"] = [{"host": "h1", "operation": "op-1", "reason": long}]
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout", screen)
    campaigns.show_campaign(document)
    shown = screen.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    arguments = shown.split()
    assert " ".join(["failed:", "h1:", *long.split()]) in " ".join(arguments)
