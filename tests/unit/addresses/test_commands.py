"""Tests of the commands, with fake programs instead of `nft` and `ip`."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn import cli
from forewarn.cli import addresses

PLAN = """
[[port]]
vm = "web_0"
interface = "tap0"
address = "192.0.2.4"
[[port]]
vm = "db_0"
interface = "tap1"
address = "192.0.2.5"
bridge = "vmbr0"
[[port]]
vm = "db_1"
interface = "tap2"
address = "192.0.2.6"
bridge = "vmbr0.10"
"""

LINKS: list[dict[str, Any]] = [
    {"ifname": "lo"},
    {"ifname": "tap0"},
    {"ifname": "tap1", "master": "vmbr0"},
    {"ifname": "tap2", "master": "vmbr0"},
    {"ifname": "vmbr0"},
    {"ifname": "vmbr0.10"},
]

RULE = {"priority": 16925, "src": "x", "table": "16925", "protocol": "169"}
ROUTES: list[dict[str, Any]] = [
    {"type": "local", "dst": "169.254.169.254", "dev": "lo", "table": "local"},
    {"dst": "192.0.2.4", "dev": "tap0", "table": "16925"},
    {"dst": "192.0.2.5", "dev": "vmbr0", "table": "16925"},
    {"dst": "192.0.2.6", "dev": "vmbr0.10", "table": "16925"},
]


class Host:
    """Programs that print given output and record their arguments."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.links = LINKS
        self.routes: list[dict[str, Any]] = []
        self.rules: list[dict[str, Any]] = []
        self.nft: list[dict[str, Any]] = []
        self.failing = ""

    def install(self, *programs: str) -> None:
        answers = {"link": self.links, "route": self.routes, "rule": self.rules}
        cases = "".join(
            f"*' {word} show'*) echo '{json.dumps(answer)}' ;;\n"
            for word, answer in answers.items()
        )
        cases += f"*'list '*) echo '{json.dumps({'nftables': self.nft})}' ;;\n"
        for name in programs:
            program = self.directory / name
            program.write_text(
                f'#!/bin/sh\ncase "$0 $*" in\n{cases}'
                f"*) echo \"{name} $*\" >> '{self.directory}/log'; "
                f"while [ $0 != ${{0%nft}} ] && read line; do "
                f"echo \"$line\" >> '{self.directory}/loaded'; done\n"
                f"{self.failing} ;;\nesac\n",
                encoding="utf-8",
            )
            program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def log(self) -> list[str]:
        log = self.directory / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(addresses, "_SBIN", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "addresses.toml").write_text(PLAN, encoding="utf-8")
    return Host(tmp_path)


@pytest.fixture
def forewarn(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        status = cli.main(["addresses", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.mark.usefixtures("host")
def test_plan_is_a_script_and_needs_no_privileges(
    forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    status, out, _ = forewarn("plan")
    assert status == 0
    assert out.startswith("set -e\nnft -f - <<'END'\ntable inet forewarn\n")
    assert "END\nip route replace local 169.254.169.254 dev lo table local" in out
    _, out, _ = forewarn("plan", "--json")
    assert json.loads(out)["commands"][-1][:3] == ["ip", "rule", "add"]


def test_apply_loads_the_rules_before_the_routes(host: Host, forewarn: Run) -> None:
    host.links = [link for link in LINKS if link["ifname"] != "tap0"]
    host.install("nft", "ip")
    status, out, err = forewarn("apply")
    assert (status, out) == (0, "applied: ports 3, way source\n")
    assert err == "forewarn: web_0: tap0 does not exist: apply again when it does\n"
    assert host.log() == [
        "nft -f -",
        "ip -4 route replace local 169.254.169.254 dev lo table local proto 169",
        "ip -4 route replace 192.0.2.5 dev vmbr0 table 16925 proto 169",
        "ip -4 route replace 192.0.2.6 dev vmbr0.10 table 16925 proto 169",
        "ip -4 rule add pref 16925 from 169.254.169.254 lookup 16925 protocol 169",
    ]
    loaded = (host.directory / "loaded").read_text(encoding="utf-8")
    assert loaded.startswith("table inet forewarn\ndelete table inet forewarn\n")


def test_a_dry_run_does_nothing(host: Host, forewarn: Run) -> None:
    host.nft = [{"table": {"family": "inet", "name": "forewarn"}}]
    host.install("nft", "ip")
    assert "ip rule add" in forewarn("apply", "--dry-run")[1]
    assert "delete table inet forewarn" in forewarn("undo", "--dry-run")[1]
    assert host.log() == []


def test_undo_removes_routes_first_and_rules_last(host: Host, forewarn: Run) -> None:
    host.nft = [
        {"metainfo": {}},
        {"table": {"family": "inet", "name": "forewarn"}},
        {"table": {"family": "bridge", "name": "theirs"}},
    ]
    host.routes, host.rules = ROUTES[:1], [RULE]
    host.install("nft", "ip")
    assert forewarn("undo") == (0, "removed\n", "")
    assert host.log() == [
        "ip -4 rule del pref 16925 from 169.254.169.254 lookup 16925 protocol 169",
        "ip -4 route del local 169.254.169.254 dev lo table local proto 169",
        "nft -f -",
    ]
    loaded = (host.directory / "loaded").read_text(encoding="utf-8")
    assert loaded == "table inet forewarn\ndelete table inet forewarn\n"


def test_undo_without_state_does_nothing(host: Host, forewarn: Run) -> None:
    host.install("nft", "ip")
    assert forewarn("undo") == (0, "nothing to remove\n", "")
    assert host.log() == []


def counters(**packets: int) -> list[dict[str, Any]]:
    return [
        {"counter": {"table": "forewarn", "name": name, "packets": count}}
        for name, count in packets.items()
    ]


def test_show_reports_reached_guests_and_spoofed_packets(
    host: Host, forewarn: Run
) -> None:
    host.nft = counters(asked_tap0=7, forged_tap0=2, asked_tap1=0)
    host.routes, host.rules = ROUTES, [RULE]
    host.install("nft", "ip")
    status, out, _ = forewarn("show", "--json")
    rows = {row["vm"]: row for row in json.loads(out)}
    assert status == 0
    assert (rows["web_0"]["asked"], rows["web_0"]["forged"]) == (7, 2)
    assert rows["web_0"]["state"] == rows["db_0"]["state"] == "ok"
    assert rows["db_1"]["state"] == "not applied"
    table = forewarn("show")[1].splitlines()
    assert table[0].split()[:3] == ["VM", "INTERFACE", "BRIDGE"]
    assert table[1].split()[:4] == ["web_0", "tap0", "-", "192.0.2.4"]


@pytest.mark.parametrize(
    ("links", "state"),
    [
        ([{"ifname": "tap0"}], "vmbr0 does not exist: apply again when it does"),
        ([{"ifname": "vmbr0"}], "tap1 does not exist yet"),
        (
            [{"ifname": "vmbr0"}, {"ifname": "tap1", "master": "br9"}],
            "tap1 is not a port of vmbr0",
        ),
    ],
)
def test_show_reports_missing_interfaces(
    host: Host, forewarn: Run, links: list[dict[str, Any]], state: str
) -> None:
    host.nft = counters(asked_tap0=0, asked_tap1=0)
    host.links = links
    host.install("nft", "ip")
    rows = {row["vm"]: row for row in json.loads(forewarn("show", "--json")[1])}
    assert rows["db_0"]["state"] == state


def test_show_reports_a_tap_in_a_bridge_and_a_missing_route(
    host: Host, forewarn: Run
) -> None:
    host.nft = counters(asked_tap0=0, asked_tap1=0)
    host.links = [{"ifname": "tap0", "master": "br9"}, *LINKS[2:]]
    host.install("nft", "ip")
    rows = {row["vm"]: row for row in json.loads(forewarn("show", "--json")[1])}
    assert rows["web_0"]["state"] == "tap0 is a port of br9: set `bridge`"
    assert rows["db_0"]["state"] == "routes differ: apply again"


def test_error_without_root_is_one_line(
    host: Host, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.install("nft", "ip")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    expected = (1, "", "forewarn: `forewarn addresses apply` needs root\n")
    assert forewarn("apply") == expected


@pytest.mark.parametrize(
    ("there", "missing", "package"),
    [("ip", "nft", "nftables"), ("nft", "ip", "iproute2")],
)
def test_missing_program_is_reported_with_its_package(
    host: Host, forewarn: Run, there: str, missing: str, package: str
) -> None:
    host.install(there)
    status, _, err = forewarn("apply")
    assert status == 1
    message = f"{missing} is not installed; its Debian package is {package}"
    assert err == f"forewarn: {message}\n"


def test_failed_program_is_quoted(host: Host, forewarn: Run) -> None:
    host.failing = "echo 'no such thing' >&2; exit 1"
    host.install("nft", "ip")
    status, _, err = forewarn("apply")
    assert status == 1
    assert err.startswith("no such thing\nforewarn: `nft -f -` failed\n")


def test_hanging_program_is_stopped(
    host: Host, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "PROGRAM_SECONDS_MAX", 0.05)
    host.failing = "while :; do :; done"
    host.install("nft", "ip")
    status, _, err = forewarn("apply")
    assert (status, err) == (1, "forewarn: `nft -f -` timed out\n")


def test_invalid_file_changes_nothing(host: Host, forewarn: Run) -> None:
    (host.directory / "fleet.toml").write_text("[[vm]]\n", encoding="utf-8")
    for command in (("plan", "--fleet", "fleet.toml"), ("plan", "fleet.toml")):
        status, out, err = forewarn(*command)
        assert (status, out) == (2, "")
        assert err.startswith("fleet.toml:1: vm")
        assert err.endswith("forewarn: nothing was changed\n")


def test_addresses_come_from_the_fleet_file(host: Host, forewarn: Run) -> None:
    (host.directory / "fleet.toml").write_text(
        '[[host]]\nname = "h1"\n'
        '[[vm]]\nname = "web_0"\nhost = "h1"\naddress = "192.0.2.7"\n',
        encoding="utf-8",
    )
    (host.directory / "addresses.toml").write_text(
        '[[port]]\nvm = "web_0"\ninterface = "tap0"\n', encoding="utf-8"
    )
    assert "192.0.2.7 dev tap0" in forewarn("plan", "--fleet=fleet.toml")[1]
