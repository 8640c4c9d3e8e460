"""The leases that DHCP clients have stored, each in its own form."""

import os
from pathlib import Path

import pytest

from forewarn.agent.wire import discovery
from forewarn.instants import DAY, HOUR, SECOND
from tests.support.agent_journals import START
from tests.support.dhcp_servers import ACK, END, named, offer, reply

pytestmark = pytest.mark.clause("8.2")

DHCLIENT = """
lease {{
  interface "eth0";
  fixed-address 10.0.0.4;
  option dhcp-lease-time 4294967295;
  option unknown-245 {};
  option rfc3442-classless-static-routes 0,10,0,0,1,32,168,63,129,16,10,0,0,1;
}}
"""


@pytest.mark.parametrize(
    ("lease", "address"),
    [
        ("OPTION_245=a83f8110\n", "168.63.129.16"),
        ("  option unknown-245 a8:3f:81:10;\n", "168.63.129.16"),
        ('  option unknown-245 "168.63.129.16";', "168.63.129.16"),
        ("private_245=168.63.129.16", "168.63.129.16"),
        ("DHCP4.OPTION[9]:private_245 = a8:3f:81:10", "168.63.129.16"),
        ("option unknown-245 a:2:3:4;\n option unknown-245 a:b:c:d;", "10.11.12.13"),
        (DHCLIENT.format("a8:3f:81:10") * 2, "168.63.129.16"),
        # Four bytes that are letters, as dhclient writes them.
        (DHCLIENT.format('"d@AB"'), "100.64.65.66"),
        (DHCLIENT.format(r'"dx\"\\"'), "100.120.34.92"),
        (DHCLIENT.format(r'"d\100\101B"'), "100.64.65.66"),
        (DHCLIENT.format('"d@ABC"'), ""),
        (DHCLIENT.format(r'"d\777AB"'), ""),
        ("OPTION_245=00000000", ""),
        ("OPTION_245=08080808", ""),
        ("OPTION_245=999.1.1.1", ""),
        ("OPTION_244=a83f8110\noption domain-name x;", ""),
        ("", ""),
    ],
)
def test_lease_contains_the_endpoint_address(lease: str, address: str) -> None:
    assert discovery.address_in(lease.encode(), now=START) == address


def test_dhcpcd_lease_file_is_read_as_a_packet() -> None:
    assert discovery.address_in(reply(ACK, named(), END), now=START) == "10.1.2.3"
    assert discovery.address_in(reply(ACK, END), now=START) == ""
    assert discovery.address_in(offer()[:-1], now=START) == ""


@pytest.mark.parametrize(
    ("expire", "lasts"),
    [
        ("expire 2 2019/01/01 09:00:00;", False),
        ("  expire 6 2026/11/21 09:59:59;", False),
        ("  expire 6 2026/11/21 10:00:00;", False),
        ("  expire 6 2026/11/21 10:00:01;", True),
        ("  expire 5 2155/01/03 00:00:00;", True),
        ("  expire never;", True),
        ("  expire epoch 1546300800; # Tue Jan  1 00:00:00 2019", False),
        ("  expire epoch 4102444800; # Fri Jan  1 00:00:00 2100", True),
        ("  expire 2 2019/99/01 09:00:00;", True),
        ("  # expire 2 2019/01/01 09:00:00;", True),
    ],
)
def test_expired_lease_is_ignored(expire: str, lasts: bool) -> None:
    """It may be of the network in which the image was made."""
    lease = DHCLIENT.format("a8:3f:81:10").replace("\n}", f"\n{expire}\n}}")
    address = discovery.address_in(lease.encode(), now=START)
    assert address == ("168.63.129.16" if lasts else "")


def test_only_expired_leases_are_ignored() -> None:
    over = DHCLIENT.format("a:0:0:1").replace(
        "\n}", "\n  expire 2 2019/01/01 9:0:0;\n}"
    )
    over = over.replace("9:0:0", "09:00:00")
    # A text may have what ends a lease, but no end of a line before it.
    good = DHCLIENT.format(r'"d}AB"').replace("\n}", "\n  expire never;\n}")
    for file in (over + good, good + over):
        assert discovery.address_in(file.encode(), now=START) == "100.125.65.66"


def test_dhcpcd_lease_time_counts_from_the_file_time() -> None:
    hour = reply(ACK, named(), bytes((51, 4)) + (3600).to_bytes(4, "big"), END)
    assert discovery.address_in(hour, now=START, age=HOUR - 1) == "10.1.2.3"
    assert discovery.address_in(hour, now=START, age=HOUR) == ""
    for lasts in (bytes((51, 4, 255, 255, 255, 255)), bytes((51, 1, 1))):
        ever = reply(ACK, named(), lasts, END)
        assert discovery.address_in(ever, now=START, age=9_999 * DAY) == "10.1.2.3"


def test_old_file_of_dhcpcd_is_ignored(tmp_path: Path) -> None:
    hour = reply(ACK, named(), bytes((51, 4)) + (3600).to_bytes(4, "big"), END)
    (tmp_path / "eth0.lease").write_bytes(hour)
    os.utime(tmp_path / "eth0.lease", (START // SECOND, START // SECOND))
    known = [(str(tmp_path), "*.lease")]
    assert discovery.addresses(START, known) == ["10.1.2.3"]
    assert discovery.addresses(START + HOUR, known) == []


def test_the_newest_lease_comes_first(tmp_path: Path) -> None:
    for age, name in enumerate(("a.lease", "b.lease", "c.lease")):
        file = tmp_path / name
        file.write_text(f"OPTION_245=0a00000{age % 2}\n")
        os.utime(file, (1_000 - age, 1_000 - age))
    (tmp_path / "broken.lease").symlink_to("nowhere")
    known = [(str(tmp_path), "*.lease")]
    assert discovery.addresses(START, known) == ["10.0.0.0", "10.0.0.1"]
    assert discovery.addresses(START, [(str(tmp_path / "none"), "*")]) == []


def test_subdirectories_are_searched_only_with_a_recursive_pattern(
    tmp_path: Path,
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.lease").write_text("OPTION_245=0a000001\n")
    assert discovery.addresses(START, [(str(tmp_path), "*lease*")]) == []
    assert discovery.addresses(START, [(str(tmp_path), "**/*lease*")]) == ["10.0.0.1"]


def nmcli(directory: Path, script: str) -> str:
    """Put a program of that name there; return a PATH."""
    program = directory / "nmcli"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


def test_networkmanager_is_queried_if_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = r"DHCP4.OPTION[1]:dhcp_lease_time = 600\nDHCP4.OPTION[2]:private_245 = "
    path = nmcli(
        tmp_path, f"printf '{lines}a8:3f:81:10\\n'; echo \"$*\" >'{tmp_path}/did'"
    )
    monkeypatch.setenv("PATH", path)
    assert discovery.networkmanager(str(tmp_path)) == "168.63.129.16"
    arguments = "--terse --escape no --fields DHCP4 device show"
    assert (tmp_path / "did").read_text().strip() == arguments
    assert discovery.networkmanager(str(tmp_path / "none")) == ""


@pytest.mark.parametrize("script", ["exit 1", "echo nothing", "exec sleep 9"])
def test_networkmanager_without_an_answer_yields_no_address(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "NMCLI_SECONDS", 0.3)
    monkeypatch.setenv("PATH", nmcli(tmp_path, script))
    assert discovery.networkmanager(str(tmp_path)) == ""


def test_missing_nmcli_yields_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert discovery.networkmanager(str(tmp_path)) == ""
