"""`fleet discover`: the output of a program as a fleet file."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.drivers.libvirt import commands
from forewarn.drivers.libvirt.worker.states import PAUSED_STATE
from forewarn.fleet.file import read_fleet
from tests.support.fake_libvirts import FakeLibvirts, fake_python
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]

BY_MIGRATION = 2
"""VIR_DOMAIN_PAUSED_MIGRATION: the domain waits for the memory of its guest."""

INVENTORY = {
    "hosts": [{"name": "h2"}, {"name": "h1", "rack": "r1"}],
    "vms": [{"name": "web_0", "host": "h1"}],
}


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Return a way to get the command of a program in Python."""

    def write(text: str) -> str:
        file = tmp_path / "the inventory"
        file.write_text(text)
        return shlex.join([sys.executable, "-I", "-S", str(file)])

    return write


def test_the_fleet_file_is_printed_or_written(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    command = program(f"print({json.dumps(INVENTORY)!r})")
    ended = forewarn("fleet", "discover", "--command", command)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == (
        '[[host]]\nname = "h1"\nrack = "r1"\n\n[[host]]\nname = "h2"\n\n'
        '[[vm]]\nname = "web_0"\nhost = "h1"\n'
    )
    file = tmp_path / "fleet.toml"
    again = forewarn("fleet", "discover", str(file), "--command", command)
    assert (again.status, again.out, file.read_text()) == (0, "", ended.out)


def test_a_failed_program_leaves_the_file_as_it_was(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("old")
    command = program(f"print({json.dumps(INVENTORY)!r}); raise SystemExit('no route')")
    ended = forewarn("fleet", "discover", str(file), "--command", command)
    assert (ended.status, file.read_text()) == (1, "old")
    assert ended.err.endswith("failed with status 1: no route\n")


def test_a_bad_inventory_is_wrong_usage_with_every_place(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    file = tmp_path / "fleet.toml"
    bad = {**INVENTORY, "vms": [{"name": "a", "host": "h9"}, {"host": "h1"}]}
    command = program(f"print({json.dumps(bad)!r})")
    ended = forewarn("fleet", "discover", str(file), "--command", command)
    assert ended.status == 2
    assert not file.exists()
    assert '.vms[0]: vm.host of a: there is no host "h9"' in ended.err
    assert ".vms[1]: vm.name: is missing" in ended.err
    assert "forewarn: the inventory cannot be used\n  hint: Fix" in ended.err


def test_a_program_that_hangs_is_given_up(
    program: Callable[[str], str], forewarn: Run
) -> None:
    command = program("import time; time.sleep(600)")
    ended = forewarn("fleet", "discover", "--command", command, "--timeout", "500ms")
    assert (ended.status, ended.err.endswith("did not end in 0.5 s\n")) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no source is given"),
        (("--command", "'a"), "--command: No closing quotation"),
        (("--command", "/no/such", "--timeout", "x"), "--timeout: "),
        (("--command", "/no/such"), "/no/such cannot be run: No such file"),
        (("/no/such/dir/f", "--command", "/no/such"), "cannot be written"),
    ],
)
def test_wrong_words_are_told(
    words: tuple[str, ...], message: str, forewarn: Run
) -> None:
    ended = forewarn("fleet", "discover", *words)
    assert ended.status in {1, 2}
    assert message in ended.err


def test_six_thousand_vms_of_four_hundred_hosts(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    text = (
        "import json\n"
        "hosts = [{'name': f'h{n}', 'rack': f'r{n // 20}', 'vcpu': 64, 'memory': '1TiB'}"
        " for n in range(400)]\n"
        "vms = [{'name': f'v{n}', 'host': f'h{n % 400}', 'vcpu': 4, 'memory': '16GiB',"
        " 'address': f'10.0.{n // 250}.{n % 250 + 1}'} for n in range(6000)]\n"
        "print(json.dumps({'hosts': hosts, 'vms': vms}))"
    )
    file = tmp_path / "fleet.toml"
    assert not forewarn(
        "fleet", "discover", str(file), "--command", program(text)
    ).status
    wanted = read_fleet(file.read_text(), name="fleet.toml")
    assert wanted.count() == {"tenants": 1, "scopes": 6000, "hosts": 400, "vms": 6000}


# libvirt


@pytest.fixture
def libvirts(tmp_path: Path) -> FakeLibvirts:
    """Return two hosts, with a VM on each."""
    fakes = FakeLibvirts(tmp_path / "hosts", "h2", "h1")
    ip = "<ip address='192.0.2.5'/>"
    fakes.start("web_1", "h2", devices=interface(ip))
    fakes.start("web_0", "h1", devices=interface("<mac address='52:54:00:AA:00:01'/>"))
    host = "<host mac='52:54:00:aa:00:01' ip='192.0.2.4'/>"
    network = f"<network><ip><dhcp>{host}</dhcp></ip></network>"
    (tmp_path / "hosts" / "h1" / "default.network").write_text(network)
    return fakes


def interface(inside: str) -> str:
    return f"<devices><interface>{inside}</interface></devices>"


def words_for(libvirts: FakeLibvirts, tmp_path: Path, *hosts: str) -> list[str]:
    uris = [libvirts.uri.replace("{host}", host) for host in hosts]
    return [
        *("fleet", "discover", "--python", fake_python(tmp_path)),
        *(word for uri in uris for word in ("--libvirt", uri)),
    ]


def test_hosts_and_vms_of_libvirt_are_a_stable_fleet_file(
    libvirts: FakeLibvirts, tmp_path: Path, forewarn: Run
) -> None:
    # It was migrated, and its old definition is left.
    libvirts.host("h1").defineXML("<domain><name>web_1</name></domain>")
    libvirts.start("db_0", "h1")
    libvirts.start("lease", "h2")
    (libvirts.directory / "h2" / "lease.leases").write_text("192.0.2.9 192.0.2.8")
    libvirts.domain("db_0", "h1").shutdown()
    ended = forewarn(*words_for(libvirts, tmp_path, "h2", "h1"))
    assert (ended.status, ended.err) == (0, "")
    fleet = read_fleet(ended.out, name="fleet.toml")
    hosts = [(host.name, host.vcpu, host.memory) for host in fleet.hosts.values()]
    assert hosts == [("h1", 8, 4096), ("h2", 8, 4096)]
    vms = [(vm.name, vm.host, vm.vcpu, vm.addresses) for vm in fleet.vms.values()]
    assert vms == [
        ("db_0", "h1", 2, ()),
        ("lease", "h2", 2, ("192.0.2.8", "192.0.2.9")),
        ("web_0", "h1", 2, ("192.0.2.4",)),
        ("web_1", "h2", 2, ("192.0.2.5",)),
    ]
    again = forewarn(*words_for(libvirts, tmp_path, "h1", "h2"))
    assert again.out == ended.out


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("down", "unable to connect to h2"),
        ("hang", "h2 did not answer within 1 s"),
        ("twice", "another libvirt has the hostname h1 too"),
        ("runs twice", "web_0 runs on h1 and on h2"),
    ],
)
def test_inventory_of_libvirt_is_refused_unless_it_is_complete(
    libvirts: FakeLibvirts,
    tmp_path: Path,
    forewarn: Run,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    told: str,
) -> None:
    command = words_for(
        libvirts, tmp_path, "h1", "../hosts/h1" if fault == "twice" else "h2"
    )
    if fault == "hang":
        libvirts.fault("h2", "hang")
        # On a busy machine, the program starts and ends slowly.
        monkeypatch.setattr(commands, "HOST_SHARE", 0.1)
        command += ["--timeout", "1m"]
    elif fault == "runs twice":
        libvirts.start("web_0", "h2")
    else:
        libvirts.fault("h2", fault)
    ended = forewarn(*command)
    assert (ended.status, ended.out) == (1, "")
    assert told in ended.err


def test_vm_in_a_live_migration_is_at_its_source(
    libvirts: FakeLibvirts, tmp_path: Path, forewarn: Run
) -> None:
    libvirts.start("web_0", "h2")
    libvirts.set("web_0", "h2", state=PAUSED_STATE, reason=BY_MIGRATION)
    ended = forewarn(*words_for(libvirts, tmp_path, "h2", "h1"))
    assert (ended.status, ended.err) == (0, "")
    vms = read_fleet(ended.out, name="fleet.toml").vms
    assert {name: vm.host for name, vm in vms.items()} == {"web_0": "h1", "web_1": "h2"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--libvirt", "h1"), '--libvirt: "h1" is not a URI'),
        (("--libvirt", "qemu+ssh://{host}/system"), "is not a URI"),
        (("--libvirt", "qemu:///system", "--command", "true"), "two sources"),
        ((), "--libvirt URI"),
    ],
)
def test_wrong_source_is_wrong_usage(
    forewarn: Run, words: tuple[str, ...], told: str
) -> None:
    ended = forewarn("fleet", "discover", *words)
    assert ended.status == 2
    assert told in ended.err
