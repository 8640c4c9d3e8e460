"""The addresses of VMs: values of `--listen`, and the address of each VM."""

import pytest

from forewarn.protocol.errors import BadRequestError
from forewarn.sim.positions import Places, parse_places


def test_ports_count_up_from_the_first() -> None:
    places = parse_places("127.0.0.1:9000")
    assert [places.at(number) for number in range(3)] == [
        ("127.0.0.1", 9000),
        ("127.0.0.1", 9001),
        ("127.0.0.1", 9002),
    ]
    assert len(places) == 65_536 - 9000


def test_system_chooses_the_port_if_it_is_0() -> None:
    places = parse_places("127.0.0.1:0")
    assert places.at(0) == places.at(7) == ("127.0.0.1", 0)


def test_a_network_gives_each_vm_an_address() -> None:
    places = parse_places("127.0.1.0/29:80")
    assert places.at(0) == ("127.0.1.1", 80)
    assert places.at(5) == ("127.0.1.6", 80)
    assert len(places) == 6


def test_ipv6_address_is_written_in_brackets() -> None:
    assert parse_places("[::1]:8301").at(1) == ("::1", 8302)


@pytest.mark.parametrize(
    "text", ["", "8301", "127.0.0.1", "127.0.1.0/24", "127.0.1.0/24:0", "1.2.3.4/33:80"]
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        parse_places(text)
    assert "127.0.0.1:8301" in refused.value.hint


def test_default_addresses_are_local() -> None:
    assert Places().at(0) == ("127.0.0.1", 8301)
