"""The file of a plan: what is taken from a fleet, and what is refused where."""

import pytest

from forewarn.addresses.file import AddressFileError, read_plan
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


def test_what_a_file_leaves_out_is_the_fleets() -> None:
    [port] = read_plan(PORT, name="a", vms=FLEET).ports
    assert port.addresses == ("192.0.2.4",)
    assert port.listener == Listener("0.0.0.0", 8080)
    plan = read_plan('way = "listener"\n' + PORT, name="a", vms=FLEET)
    assert plan.way is Way.LISTENER
    assert plan.ports[0].listener == Listener("169.254.169.254", 8301)


def test_what_a_file_says_beats_the_fleet() -> None:
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
        ("way = \n", "a:1: this is not TOML: Invalid value"),
        ("way = [", "a: this is not TOML: Invalid value (at end of document)"),
        ("", "a: there is no [[port]]: no guest would reach the service"),
        ("wey = 1\n" + PORT, 'a:1: wey: there is no such key (did you mean "way"?)'),
        ("way = 1\n", "a:1: way: must be a text"),
        ("table = true\n", "a:1: table: must be a whole number"),
        ("port = 1\n", "a:1: port: must be tables [[port]]"),
        ("port = [1]\n", "a:1: port: must be tables [[port]]"),
        ('way = "mac"\n', 'a:1: way: must be "source" or "listener", not "mac"'),
        ("table = 0\n", "a:1: table: must be 1 to 2147418112"),
        (
            'listen = "127.0.0.1:80"\n',
            (
                'a:1: listen: "127.0.0.1:80" is no listener that guests can be led to: '
                "write 169.254.169.254:PORT or 0.0.0.0:PORT"
            ),
        ),
        ("port = [" + "{}," * (PORTS_MAX + 1) + "]", "a:1: port: a host has at most"),
        ('[[port]]\ninterface = "t"\n', "a:1: port.vm: is missing"),
        ('[[port]]\nvm = "v"\ninterface = ""\n', "a:3: port.interface: is missing"),
        (PORT + "vlan = 1\n", "a:4: port.vlan: there is no such key"),
        (PORT + "mac = 1\n", "a:4: port.mac: must be a text"),
        (PORT + 'mac = "1"\n', 'a:4: port.mac: "1" is no MAC such as 52:54:'),
        (
            PORT + 'bridge = "b*"\n',
            'a:4: port.bridge: "b*" is no name of an interface',
        ),
        (PORT + 'address = "::1"\n', "a:4: port.address: must be an IPv4 address"),
        (PORT + "address = 7\n", "a:4: port.address: must be an IPv4 address"),
        (PORT + 'address = "224.0.0.1"\n', "a:4: port.address: must be an IPv4"),
        (
            PORT,
            "a:1: port.address: is missing: an IPv4 address is how this guest is known",
        ),
        (
            'way = "listener"\n' + PORT,
            'a:2: port.listen: is missing, such as "169.254.169.254:8301"',
        ),
        (
            'way = "listener"\n' + PORT + 'listen = "127.0.0.1:8301"\n',
            'a:5: port.listen: "127.0.0.1:8301" is no listener',
        ),
        (
            'way = "listener"\n' + PORT + 'bridge = "b"\nlisten = "0.0.0.0:1"\n',
            "a:2: port.address: is missing: on a bridge, replies need",
        ),
        (
            PORT + 'address = "192.0.2.4"\n' + OTHER + 'address = "192.0.2.4"\n',
            "a:8: port.address: 192.0.2.4 is already web_0's",
        ),
        (
            (PORT + 'address = "192.0.2.4"\n') * 2,
            "a:7: port.interface: tap0 is already web_0's",
        ),
        (
            PORT
            + 'address = "192.0.2.4"\n'
            + OTHER
            + 'address = "192.0.2.5"\nbridge = "tap0"\n',
            "a:3: port.interface: tap0 is a bridge of this plan",
        ),
        (
            'way = "listener"\n'
            + PORT
            + 'listen = "0.0.0.0:1"\n'
            + OTHER
            + 'listen = "0.0.0.0:1"\n',
            "a:9: port.listen: port 1 is already web_0's",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, told: str) -> None:
    assert any(line.startswith(told) for line in problems(text)), problems(text)


def test_a_vm_that_the_fleet_does_not_have_is_refused() -> None:
    assert problems(PORT.replace("web_0", "web_9"), with_fleet=True)[0] == (
        'a:2: port.vm: the fleet has no VM "web_9" (did you mean "web_1"?)'
    )


def test_taps_may_share_an_address_where_listeners_tell_them_apart() -> None:
    both = 'way = "listener"\n'
    for number, port in enumerate((PORT, OTHER), start=8301):
        both += f'{port}address = "192.0.2.4"\nlisten = "0.0.0.0:{number}"\n'
    assert len(read_plan(both, name="a").ports) == 2
    on_a_bridge = both.replace("address", 'bridge = "br0"\naddress')
    assert "port.address: 192.0.2.4 is already web_0's" in problems(on_a_bridge)[0]
