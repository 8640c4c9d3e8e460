"""Fleet files from the command line."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

BAD = '[[vm]]\nname = "a"\nhost = "h7"\nsize = 3\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_validate_needs_no_service(here: Path, forewarn: Run) -> None:
    (here / "fleet.toml").write_text(FLEET)
    ended = forewarn("fleet", "validate")
    assert ended.out == "fleet.toml is valid: 2 tenants, 3 scopes, 3 hosts, 5 vms\n"
    assert json.loads(forewarn("fleet", "validate", "--json").out)["vms"] == 5


def test_every_problem_is_reported_with_its_location(
    here: Path, service: Served, forewarn: Run
) -> None:
    (here / "bad.toml").write_text(BAD)
    for command in (["validate"], ["apply"], ["apply", "--dry-run"]):
        ended = forewarn("fleet", *command, "bad.toml")
        assert (ended.status, ended.out) == (2, "")
        first, second, last, *_ = ended.err.splitlines()
        assert first.startswith("bad.toml:3: vm.host: there is no host")
        assert second.startswith("bad.toml:4: vm.size: ")
        assert last == "forewarn: the fleet file cannot be used"


def test_apply_prints_the_changes(here: Path, service: Served, forewarn: Run) -> None:
    file = here / "fleet.toml"
    file.write_text(FLEET)
    assert forewarn("fleet", "apply").out == "nothing to change\n"
    file.write_text(FLEET + '[[host]]\nname = "h9"\n')
    ended = forewarn("fleet", "apply", "--dry-run")
    assert ended.out == "+ host h9\nnot applied: this was a dry run\n"
    ended = forewarn("fleet", "apply", "--reason", "more room")
    assert ended.out == "+ host h9\napplied\n"
    plan = json.loads(forewarn("fleet", "apply", "--json").out)
    assert plan["is_empty"]
    assert "more room" in forewarn("history", "--host", "h9").out


def test_empty_file_removes_nothing(here: Path, service: Served, forewarn: Run) -> None:
    (here / "fleet.toml").write_text("")
    for options in ([], ["--dry-run"]):
        ended = forewarn("fleet", "apply", *options)
        assert (ended.status, ended.out) == (4, "")
        assert (
            "the fleet file is empty; applying it would remove everything ("
            in ended.err
        )
    assert len(json.loads(forewarn("fleet", "show", "--json").out)["vms"]) == 5
    ended = forewarn("fleet", "apply", "--allow-empty", "--dry-run")
    assert ended.out.endswith("- tenant shop\nnot applied: this was a dry run\n")
    assert forewarn("fleet", "apply", "--allow-empty").out.endswith("\napplied\n")
    assert forewarn("fleet", "apply").out == "nothing to change\n"


def test_errors_in_standard_input_name_it(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["validate"], ["apply"]):
        text = io.TextIOWrapper(io.BytesIO(BAD.encode()))
        monkeypatch.setattr("sys.stdin", text)
        ended = forewarn("fleet", *command, "-")
        assert ended.err.startswith("(standard input):3: ")


def test_unreadable_file_is_reported(here: Path, forewarn: Run) -> None:
    ended = forewarn("fleet", "validate")
    assert ended.status == 2
    assert (
        ended.err == "forewarn: fleet.toml cannot be read: No such file or directory\n"
    )
    (here / "fleet.toml").write_bytes(b"# first\n# \xc3\xa4\n# \xff\n")
    ended = forewarn("fleet", "validate")
    assert (ended.status, ended.err) == (2, "forewarn: fleet.toml:3: is not UTF-8\n")


def test_single_item_is_counted_in_the_singular(here: Path, forewarn: Run) -> None:
    (here / "fleet.toml").write_text('[[host]]\nname = "h"\n')
    ended = forewarn("fleet", "validate")
    assert ended.out == "fleet.toml is valid: 0 tenants, 0 scopes, 1 host, 0 vms\n"


def test_export_writes_a_file_that_applies_without_changes(
    here: Path, service: Served, forewarn: Run
) -> None:
    shown = forewarn("fleet", "export").out
    assert forewarn("fleet", "export", "now.toml").out == ""
    assert (here / "now.toml").read_text() == shown
    assert forewarn("fleet", "apply", "now.toml").out == "nothing to change\n"
    assert json.loads(forewarn("fleet", "export", "--json").out)["text"] == shown
    ended = forewarn("fleet", "export", "no/such/directory")
    assert ended.status == 1


def test_show_lists_hosts_and_counts(service: Served, forewarn: Run) -> None:
    service.do(lambda: service.gateway.enable("web_0"))
    forewarn("fail", "h1")
    assert forewarn("fleet", "show").out.splitlines() == [
        "HOST  STATE  ZONE  VMS  DOWN  USED",
        "h1    down   -     2    2     2",
        "h2    up     -     3    -     3",
        "same  up     -     0    -     0",
        "3 hosts, 3 scopes (1 with Scheduled Events enabled), 5 VMs: 3 running, 2 down",
    ]
    lines = forewarn("fleet", "show", "--all").out.splitlines()
    assert any(
        line.startswith("web    shop    availability-set  yes") for line in lines
    )
    assert any(line.startswith("web_0  h1    web") for line in lines)
    fleet = json.loads(forewarn("fleet", "show", "--json").out)
    assert sorted(fleet) == ["hosts", "scopes", "tenants", "vms"]


def test_show_has_columns_for_the_places_and_sizes_that_the_fleet_uses(
    service: Served, forewarn: Run
) -> None:
    text = FLEET.replace(
        'name = "h2"',
        'name = "h2"\ncluster = "c1"\nrack = "r7"\nvcpu = 64\nmemory = "256GiB"\n'
        'labels = { model = "r7525", bios = "2.19" }\nlast = true',
    ).replace('name = "web_0"', 'name = "web_0"\nmemory = "1536MiB"\nmovable = false')
    service.gateway = service.app.state.gateway = LocalGateway(text)
    lines = forewarn("fleet", "show", "--all").out.splitlines()
    title, first, second, *_ = (line.split() for line in lines)
    places = ["CLUSTER", "RACK", "VCPU", "MEMORY", "LABELS", "LAST"]
    assert title[-6:] == places
    assert first[-6:] == ["-"] * 6
    assert second[-7:-1] == ["c1", "r7", "64", "256GiB", "bios=2.19", "model=r7525"]
    [web_0] = [line.split() for line in lines if line.startswith("web_0")]
    assert web_0[-2:] == ["1536MiB", "no"]
    [host] = json.loads(forewarn("fleet", "show", "--host", "h2", "--json").out)[
        "hosts"
    ]
    assert (host["rack"], host["pool"], host["memory"]) == ("r7", "", 256 << 10)
    assert host["labels"] == {"bios": "2.19", "model": "r7525"}
    assert (
        'labels = {bios = "2.19", model = "r7525"}' in forewarn("fleet", "export").out
    )


def test_cordoned_hosts_are_shown_until_they_are_open(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("host", "cordon", "h1", "h2", "--reason", "bad DIMM")
    assert ended.out.splitlines() == [
        "host h1 is cordoned by operator (bad DIMM)",
        "host h2 is cordoned by operator (bad DIMM)",
    ]
    shown = forewarn("fleet", "show").out.splitlines()
    assert shown[1] == "h1    up, cordoned  -     2    -     2"
    ended = forewarn("host", "cordon", "h1")
    assert ended.status == 4
    assert "host h1 is already cordoned by operator (bad DIMM)" in ended.err
    assert forewarn("host", "open", "h1").out == "host h1 is open\n"
    document = json.loads(forewarn("host", "open", "h2", "--json").out)
    assert document["hosts"][0]["cordons"] == []
    assert "cordoned" not in forewarn("fleet", "show").out
    assert "host cordoned" in forewarn("history", "--host", "h1").out


def test_show_reads_every_page(
    service: Served, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.admin.fleet.limits.PAGE_OBJECTS_MAX", 2)
    fleet = json.loads(forewarn("fleet", "show", "--json").out)
    assert len(fleet["vms"]) == 5


def test_an_inventory_is_merged_next_to_a_file_by_hand(
    here: Path, service: Served, forewarn: Run
) -> None:
    file = here / "inventory.toml"
    vms = [f'[[vm]]\nname = "n{number}"\nhost = "n1"\n' for number in range(5)]
    file.write_text('[[host]]\nname = "n1"\n' + "".join(vms))
    ended = forewarn("fleet", "apply", "inventory.toml", "--inventory")
    assert ended.out.startswith("+ tenant default\n+ host n1\n+ vm n0 on n1")
    assert "- " not in ended.out
    (here / "fleet.toml").write_text(FLEET)
    assert forewarn("fleet", "apply").out == "nothing to change\n"
    file.write_text('[[host]]\nname = "n1"\n' + "".join(vms[3:]))
    command = ("fleet", "apply", "inventory.toml", "--inventory")
    for more in ((), ("--dry-run",)):
        ended = forewarn(*command, *more)
        assert (ended.status, ended.out) == (4, "")
        assert "would remove 3 of 5 VMs; one run may remove 1 (2%)" in ended.err
        assert "`fleet apply --inventory --removals-max 3`" in ended.err
    command = (*command, "--removals-max", "60%")
    ended = forewarn(*command)
    once = "vm n0 is not in the inventory; the next run without it removes it\n"
    assert ended.out.startswith(once)
    assert ended.out.endswith("\napplied\n")
    ended = forewarn(*command)
    assert ended.out == "- vm n0\n- vm n1\n- vm n2\napplied\n"
    names = {
        vm["name"] for vm in json.loads(forewarn("fleet", "show", "--json").out)["vms"]
    }
    assert {"n3", "n4", "web_0"} <= names


def test_a_limit_of_removals_is_for_inventories(
    here: Path, service: Served, forewarn: Run
) -> None:
    (here / "fleet.toml").write_text(FLEET)
    ended = forewarn("fleet", "apply", "--removals-max", "3")
    assert (ended.status, "Add --inventory" in ended.err) == (2, True)
    ended = forewarn("fleet", "apply", "--inventory", "--removals-max", "200%")
    assert ended.status in {2, 4}
    assert "at most 100%, not 200%" in ended.err
