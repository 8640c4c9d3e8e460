"""Selectors and files of names: targets of requests, and filters of lists."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.admin.lists import Selectors
from forewarn.cli.selecting import KEYS
from forewarn.verbs.table import VERBS
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]


FLEET_WITH_ZONES = FLEET.replace(
    'name = "h2"',
    'name = "h2"\nzone = "2"\ncluster = "c2"\nrack = "r2"\npool = "amd"\n'
    'labels = { model = "r7525" }',
).replace('name = "web_0"', 'name = "web_0"\ntags = { role = "web" }')


@pytest.fixture
def zoned(service: Served) -> Served:
    service.gateway = service.app.state.gateway = LocalGateway(FLEET_WITH_ZONES)
    return service


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["redeploy", "--host", "h1"], ["db_0", "web_0"]),
        (["redeploy", "--scope", "web"], ["web_0", "web_1"]),
        (["redeploy", "--tenant", "bank", "--host", "h2"], ["db_1", "same"]),
        (["redeploy", "--zone", "2", "--scope", "web"], ["web_1"]),
        (["redeploy", "--tag", "role=web"], ["web_0"]),
        (["upgrade-os", "--scope", "db"], ["db_0", "db_1"]),
        (["redeploy", "--rack", "r2", "--scope", "db"], ["db_1"]),
        (["maintain", "--zone", "2", "--impact", "freeze"], ["h2"]),
        (["maintain", "--cluster", "c2", "--impact", "freeze"], ["h2"]),
        (["maintain", "--pool", "amd", "--impact", "freeze"], ["h2"]),
        (["maintain", "--label", "model=r7525", "--impact", "freeze"], ["h2"]),
        (["maintain", "--scope", "web", "--impact", "freeze"], ["h1", "h2"]),
        (["maintain", "--host", "h1", "--impact", "freeze"], ["h1"]),
        (["predict-failure", "--tag", "role=web"], ["db_0", "web_0"]),
        (["fail", "--scope", "web"], ["web_0", "web_1"]),
        (["fail", "--kind", "host", "--zone", "2"], ["h2"]),
    ],
)
def test_selectors_name_the_targets_of_a_request(
    zoned: Served, forewarn: Run, words: list[str], targets: list[str]
) -> None:
    ended = forewarn(*words, "--json")
    assert ended.status == 0, ended.err
    operations = json.loads(ended.out)["operations"]
    assert sorted(operation["target"] for operation in operations) == targets


@pytest.mark.parametrize(
    "name", [name for name, entry in VERBS.items() if entry.targets.is_list]
)
def test_names_together_with_selectors_are_refused(
    zoned: Served, forewarn: Run, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "names.txt"
    file.write_text("h1\n")
    needed = {
        "maintain": ["--impact", "freeze"],
        "defer": ["--until", "+2h"],
        "window-set": ["--window", "22:00 1h"],
    }.get(name, [])
    command = VERBS[name].command
    for hosts in (["h1"], ["--file", str(file)]):
        ended = forewarn(*command.split(), *hosts, *needed, "--zone", "2")
        assert (ended.status, ended.out) == (2, "")
        assert (
            f"{command} takes names or selectors, not both: h1 and --zone 2"
            in ended.err
        )
        assert "hint: Leave out the selectors" in ended.err
    assert json.loads(forewarn("operations", "--json").out) == []


def test_restore_of_vms_on_a_down_host_names_the_host(
    zoned: Served, forewarn: Run
) -> None:
    forewarn("fail", "h1")
    ended = forewarn("restore", "--host", "h1")
    assert (ended.status, ended.out) == (4, "")
    first, hint = ended.err.splitlines()
    assert first.endswith("match --host h1 are on hosts that are down: h1")
    assert "`forewarn restore h1`" in hint
    forewarn("fail", "web_1")
    ended = forewarn("restore", "--scope", "web")
    assert (ended.status, ended.out) == (1, "vm web_1 is running\n")
    assert "VM web_0 cannot run: its host h1 is down" in ended.err


def test_restore_cancel_and_approve_accept_selectors(
    zoned: Served, forewarn: Run
) -> None:
    forewarn("fail", "web_0", "db_0")
    document = json.loads(forewarn("restore", "--scope", "web", "--json").out)
    assert [target["name"] for target in document["restored"]] == ["web_0"]
    ended = forewarn("restore", "--scope", "web")
    assert (ended.status, ended.out) == (4, "")
    assert "nothing to restore matches --scope web" in ended.err
    zoned.do(lambda: zoned.gateway.enable("web_1"))
    forewarn("maintain", "h2", "--impact", "reboot")
    ended = forewarn("approve", "--tenant", "shop")
    assert "is approved by (operator)" in ended.out
    assert "is cancelled" in forewarn("cancel", "--host", "h2").out
    assert forewarn("cancel").status == 2


def test_lists_accept_all_selectors(
    zoned: Served, forewarn: Run, tmp_path: Path
) -> None:
    zoned.do(lambda: zoned.gateway.enable("web_0"))
    for host in ("h1", "h2"):
        forewarn("maintain", host, "--impact", "freeze")
    names = tmp_path / "names"
    names.write_text("web_1\n\n")
    for selected, host in (
        (["--zone", "2"], "h2"),
        (["--cluster", "c2"], "h2"),
        (["--rack", "r2", "--pool", "amd"], "h2"),
        (["--label", "model=r7525"], "h2"),
        (["--tag", "role=web"], "h1"),
        (["--host", "h1"], "h1"),
        (["--scope", "web", "--zone", "2"], "h2"),
        (["--file", str(names)], "h2"),
    ):
        (one,) = json.loads(forewarn("operations", "--json", *selected).out)
        assert one["host"] == host, selected
        events = json.loads(forewarn("events", "--json", *selected).out)
        assert {event["operation"] for event in events} == {one["operation"]}
        fleet = json.loads(forewarn("fleet", "show", "--json", *selected).out)
        assert [host_["name"] for host_ in fleet["hosts"]] == [host]
        assert fleet["vms"]
        assert {vm["host"] for vm in fleet["vms"]} == {host}
        entries = json.loads(forewarn("history", "--json", *selected).out)
        assert any(f"host:{host}" in entry["subjects"] for entry in entries)
        accounts = json.loads(forewarn("history", "--summary", "--json", *selected).out)
        assert [account["host"] for account in accounts] == [host]
    assert forewarn("operations", "--tag", "role").status == 2
    assert forewarn("rollout", "list", "--json", "--zone", "2").out.count("ro-") == 1


def test_all_selectors_of_the_api_are_options_of_the_commands() -> None:
    assert {"vm", *KEYS} == set(Selectors.model_fields)


@pytest.mark.parametrize(
    "words",
    [
        ["operations"],
        ["events"],
        ["rollout", "list"],
        ["problems"],
        ["waits"],
        ["history"],
        ["history", "--summary"],
        ["availability"],
        ["fleet", "show"],
        ["operations", "--watch"],
        ["maintain", "--impact", "freeze"],
        ["restore"],
    ],
)
def test_place_that_no_host_has_is_refused(
    zoned: Served, forewarn: Run, words: list[str]
) -> None:
    for kind in ("zone", "cluster", "rack", "pool"):
        ended = forewarn(*words, f"--{kind}", "nope")
        assert (ended.status, ended.out) == (4, "")
        assert f"there is no {kind} 'nope'" in ended.err
    ended = forewarn(*words, "--label", "model=r6515")
    assert (ended.status, ended.out) == (4, "")
    assert "there is no host with label model=r6515" in ended.err
    assert "hint: Run `forewarn fleet show` to list the places" in ended.err
    assert forewarn(*words, "--label", "model").status == 2


LISTS_WITH_NAMES = (
    ["operations"],
    ["events"],
    ["rollout", "list"],
    ["problems"],
    ["fleet", "show"],
    ["history"],
    ["history", "--summary"],
    ["operations", "--watch"],
    ["problems", "--watch"],
)


@pytest.mark.parametrize("words", LISTS_WITH_NAMES)
def test_unknown_name_in_a_file_is_refused(
    service: Served, forewarn: Run, tmp_path: Path, words: list[str]
) -> None:
    forewarn("maintain", "h1", "h2", "--impact", "freeze")
    file = tmp_path / "names.txt"
    file.write_text("h1\nnope\n")
    ended = forewarn(*words, "--file", str(file))
    assert (ended.status, ended.out) == (4, "")
    assert f"{file}: there is no operation" in ended.err
    assert "'nope'" in ended.err


@pytest.mark.parametrize("words", LISTS_WITH_NAMES[:-2])
def test_names_in_a_file_can_be_of_any_kind(
    service: Served, forewarn: Run, tmp_path: Path, words: list[str]
) -> None:
    forewarn("reboot", "same")
    (reboot,) = json.loads(forewarn("operations", "--json").out)
    file = tmp_path / "names.txt"
    file.write_text(f"h1\nweb_1\nshop\ndb\nsame\n{reboot['operation']}\n")
    ended = forewarn(*words, "--file", str(file))
    assert (ended.status, ended.err) == (0, "")


def test_rollouts_are_filtered_by_the_names_in_a_file(
    service: Served, forewarn: Run, tmp_path: Path
) -> None:
    document = json.loads(
        forewarn("maintain", "h1", "h2", "--impact", "freeze", "--json").out
    )
    file = tmp_path / "names.txt"
    for name, found in (("h2", 1), (document["rollout"], 1), ("db_0", 1), ("same", 0)):
        file.write_text(name)
        ended = forewarn("rollout", "list", "--file", str(file), "--json")
        rollouts = json.loads(ended.out)
        assert len(rollouts) == found, name
        assert all(set(rollout) >= {"rollout", "states"} for rollout in rollouts)


def test_rollouts_are_filtered_by_names_on_standard_input(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    forewarn("maintain", "h1", "h2", "--impact", "freeze")
    for name, found in (("h2", 1), ("same", 0)):
        text = io.TextIOWrapper(io.BytesIO(name.encode()))
        monkeypatch.setattr("sys.stdin", text)
        ended = forewarn("rollout", "list", "--file", "-", "--json")
        assert ended.status == 0, ended.err
        assert len(json.loads(ended.out)) == found, name


@pytest.mark.parametrize(
    ("selected", "tenants", "vms"),
    [
        (["--host", "h1"], {"shop", "bank"}, {"web_0", "db_0"}),
        (["--host", "h1", "--scope", "web"], {"shop"}, {"web_0"}),
        (["--zone", "2"], set(), {"web_1", "db_1", "same"}),
        (["--label", "model=r7525"], set(), {"web_1", "db_1", "same"}),
        (["--tag", "role=web"], {"shop"}, {"web_0"}),
        (["--vm", "db_0"], {"bank"}, {"db_0"}),
        (["--tenant", "bank", "--host", "h1"], {"bank"}, {"db_0"}),
    ],
)
def test_waits_and_availability_accept_all_selectors(
    zoned: Served,
    forewarn: Run,
    selected: list[str],
    tenants: set[str],
    vms: set[str],
) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    document = json.loads(forewarn("waits", "--json", *selected).out)
    assert {wait["tenant"] for wait in document["waits"]} == tenants
    document = json.loads(forewarn("availability", "--json", *selected).out)
    assert {vm["vm"] for vm in document["vms"]} == vms


@pytest.mark.parametrize("command", ["waits", "availability"])
def test_unknown_selectors_of_waits_and_availability_are_refused(
    service: Served, forewarn: Run, command: str
) -> None:
    for kind in ("vm", "host", "scope", "tenant"):
        ended = forewarn(command, f"--{kind}", "nope")
        assert (ended.status, ended.out) == (4, "")
        assert f"there is no {kind.replace('vm', 'VM')} 'nope'" in ended.err


CAMPAIGN = """\
[campaign]
name = "bios"
reason = "CVE-2026-1234"
impact = "freeze"
select = { all = true, except = ["same"] }
"""


@pytest.fixture
def campaign(zoned: Served, forewarn: Run, tmp_path: Path) -> Served:
    """A campaign of the hosts with VMs, none of which has started."""
    file = tmp_path / "bios.toml"
    file.write_text(CAMPAIGN)
    plan = json.loads(forewarn("campaign", "plan", str(file), "--json").out)
    started = forewarn("campaign", "start", str(file), "--plan", plan["digest"])
    assert started.status == 0, started.err
    return zoned


def hosts_of(run: Run) -> list[str]:
    rows = json.loads(run("campaign", "show", "bios", "--all", "--json").out)
    return sorted(
        operation["target"]
        for operation in rows["operations"]
        if operation["state"] in {"Planned", "Announced"}
    )


def test_hosts_of_a_campaign_are_selected(
    campaign: Served, forewarn: Run, tmp_path: Path
) -> None:
    assert hosts_of(forewarn) == ["h1", "h2"]
    why = ("--reason", "a look")
    ended = forewarn("campaign", "skip", "bios", "--tag", "role=web", *why)
    assert (ended.status, ended.err) == (0, "")
    assert hosts_of(forewarn) == ["h2"]
    # A host that has no more work in the campaign is left out, and not refused.
    ended = forewarn("campaign", "skip", "bios", "--tag", "role=web", *why)
    assert ended.status == 4
    assert "nothing to campaign skip matches --tag role=web" in ended.err
    ended = forewarn("campaign", "add", "bios", "--scope", "web", *why)
    assert ended.err == ""
    assert hosts_of(forewarn) == ["h1", "h2"]
    file = tmp_path / "hosts"
    file.write_text("h2\nh1\n")
    ended = forewarn("campaign", "skip", "bios", "--file", str(file), *why)
    assert (ended.status, ended.err) == (0, "")
    assert hosts_of(forewarn) == []


def test_hosts_of_a_campaign_are_named_or_selected(
    campaign: Served, forewarn: Run
) -> None:
    ended = forewarn("campaign", "skip", "bios", "--reason", "a look")
    assert ended.status == 2
    assert "campaign skip needs a name or a selector" in ended.err
    ended = forewarn("campaign", "skip", "bios", "h1", "--rack", "r2")
    assert ended.status == 2
    assert "takes names or selectors, not both: h1 and --rack r2" in ended.err
    ended = forewarn("campaign", "retry", "bios", "--rack", "r2")
    assert ended.status == 4
    assert "nothing to campaign retry matches --rack r2" in ended.err
    assert hosts_of(forewarn) == ["h1", "h2"]
