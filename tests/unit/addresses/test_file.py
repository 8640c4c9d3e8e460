"""Tests of the plan file: values from the fleet, and problems."""

import pytest

from forewarn.addresses.file import TABLE_MAX, AddressFileError, read_plan
from forewarn.addresses.model import PORTS_MAX, Listener, Way
from forewarn.fleet.file import read_fleet

FLEET = read_fleet(
    """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
address = ["192.0.2.4", "2001:db8::4"]
listen = "169.254.169.254:8301"
[[vm]]
name = "web_1"
host = "h1"
""",
    name="fleet.toml",
).vms

PORT = '[[port]]\nvm = "web_0"\ninterface = "tap0"\n'
OTHER = '[[port]]\nvm = "web_1"\ninterface = "tap1"\n'


def problems(text: str, *, with_fleet: bool = False) -> list[str]:
    with pytest.raises(AddressFileError) as caught:
        read_plan(text, name="a", vms=FLEET if with_fleet else None)
    return caught.value.message.splitlines()


def test_missing_values_come_from_the_fleet() -> None:
    [port] = read_plan(PORT, name="a", vms=FLEET).ports
    assert port.addresses == ("192.0.2.4",)
    assert port.listener == Listener("0.0.0.0", 8080)
    plan = read_plan('way = "listener"\n' + PORT, name="a", vms=FLEET)
    assert plan.way is Way.LISTENER
    assert plan.ports[0].listener == Listener("169.254.169.254", 8301)


def test_values_of_the_file_override_the_fleet() -> None:
    text = 'way = "listener"\ntable = 300\n' + PORT
    text += 'address = ["192.0.2.9", "192.0.2.9"]\nlisten = "0.0.0.0:9000"\n'
    text += 'mac = "52:54:00:AB:CD:EF"\nbridge = "br0"\n'
    plan = read_plan(text, name="a", vms=FLEET)
    [port] = plan.ports
    assert plan.table == 300
    assert port.addresses == ("192.0.2.9",)
    assert port.listener == Listener("0.0.0.0", 9000)
    assert port.mac == "52:54:00:ab:cd:ef"
    assert port.device == "br0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "way = " + "[" * 10_000,
            "a: this is not TOML: lists or tables are nested too deeply",
        ),
        ("table = " + "1" * 5_000, "a: this is not TOML: a number is too long"),
        ("", "a: there is no [[port]]: no guest would reach the service"),
        (
            "port = [" + "{}," * (PORTS_MAX + 1) + "]",
            f"a:1: port: has more than {PORTS_MAX} tables, the maximum",
        ),
        ("port = [" + "{}," * PORTS_MAX + "]", "a:1: port.vm: is missing"),
    ],
)
def test_hostile_and_empty_files_are_refused(text: str, told: str) -> None:
    assert any(line.startswith(told) for line in problems(text)), problems(text)


def test_lowest_and_highest_table_numbers_are_accepted() -> None:
    for table in (1, TABLE_MAX):
        assert read_plan(f"table = {table}\n{PORT}", name="a", vms=FLEET).table == table
    [problem] = problems(f"table = {TABLE_MAX + 1}\n{PORT}", with_fleet=True)
    assert problem == f"a:1: table: must be 1 to {TABLE_MAX}, not {TABLE_MAX + 1}"


def test_dual_stack_listener_accepts_guests() -> None:
    [port] = read_plan('listen = "[::]:80"\n' + PORT, name="a", vms=FLEET).ports
    assert port.listener == Listener("::", 80)


def test_problems_are_reported_in_the_order_of_lines() -> None:
    assert problems(PORT + 'mac = "1"\naddress = 7\nvlan = 1\n') == [
        'a:4: port.mac: "1" is not a MAC such as 52:54:00:12:34:56',
        'a:5: port.address: must be an IPv4 address such as "192.0.2.4", or a list, not 7',
        "a:6: port.vlan: there is no such key",
    ]


def test_vm_that_is_not_in_the_fleet_is_refused() -> None:
    assert problems(PORT.replace("web_0", "web_9"), with_fleet=True)[0] == (
        'a:2: port.vm: the fleet has no VM "web_9" (did you mean "web_1"?)'
    )


def test_taps_may_share_an_address_if_listeners_separate_them() -> None:
    both = 'way = "listener"\n'
    for number, port in enumerate((PORT, OTHER), start=8301):
        both += f'{port}address = "192.0.2.4"\nlisten = "0.0.0.0:{number}"\n'
    assert len(read_plan(both, name="a").ports) == 2
    on_a_bridge = both.replace("address", 'bridge = "br0"\naddress')
    assert (
        "port.address: 192.0.2.4 is already used by web_0" in problems(on_a_bridge)[0]
    )
    # Each bridge is a separate network, so each can have the same address.
    on_two = on_a_bridge.replace('"br0"', '"br1"', 1)
    assert len(read_plan(on_two, name="a").ports) == 2


def test_address_must_be_unique_if_it_alone_identifies_the_guest() -> None:
    both = "".join(
        f'{port}address = "192.0.2.4"\nbridge = "{bridge}"\n'
        for port, bridge in ((PORT, "br0"), (OTHER, "br1"))
    )
    assert "port.address: 192.0.2.4 is already used by web_0" in problems(both)[0]
