"""DHCP packets: what is asked, and what of an answer is believed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.wire import dhcp
from tests.support.dhcp_servers import (
    ACK,
    END,
    MAC,
    OFFER,
    SERVER,
    XID,
    named,
    offer,
    reply,
)

pytestmark = pytest.mark.clause("8.2")


def test_request_is_a_valid_dhcp_discover() -> None:
    packet = dhcp.discover(xid=XID, mac=MAC)
    assert len(packet) == 300
    assert packet[:4] == bytes((1, 1, 6, 0))
    assert packet[4:8] == XID
    assert packet[10:12] == b"\x80\0", "the answer comes to all"
    assert packet[28:34] == MAC
    assert packet[236:240] == bytes((99, 130, 83, 99))
    assert packet[240:].startswith(bytes((53, 1, 1, 55, 3, 1, 3, 245, 255)))
    # It takes nothing: no address is asked for, none is requested.
    assert packet[12:28] == bytes(16)


@pytest.mark.parametrize("kind", [OFFER, ACK])
def test_an_answer_names_the_endpoint(kind: bytes) -> None:
    packet = reply(kind, SERVER, named(dhcp.AZURE), END)
    answer = dhcp.answer_to(packet, xid=XID, mac=MAC)
    assert (answer.endpoint, answer.server) == ("168.63.129.16", "10.1.2.1")


def test_answer_without_an_endpoint_is_accepted() -> None:
    lease = dhcp.parse(reply(OFFER, END))
    assert (lease.endpoint, lease.server) == ("", "")


NONE_OF_THESE = {
    "a question": reply(OFFER, END, begins=bytes((1, 1, 6, 0))),
    "another kind of card": reply(OFFER, END, begins=bytes((2, 6, 6, 0))),
    "another length of address": reply(OFFER, END, begins=bytes((2, 1, 16, 0))),
    "no cookie": reply(OFFER, END, cookie=b"BOOT"),
    "no options": reply(),
    "no message": reply(named(), END),
    "a refusal": reply(bytes((53, 1, 6)), END),
    "two messages": reply(OFFER, OFFER, END),
    "no end": reply(OFFER, named()),
    "a length beyond the packet": reply(OFFER, bytes((245, 9, 1)), END),
    "no length": reply(OFFER, bytes((245,))),
    "a strange overload": reply(OFFER, bytes((52, 1, 4)), END),
    "two overloads": reply(OFFER, bytes((52, 2, 1, 1)), END),
    "a spoilt field": reply(
        OFFER, bytes((52, 1, 1)), END, file=b"\x01" * 127 + b"\xf5"
    ),
    "cut": offer()[:240],
    "nothing": b"",
    "far too long": offer().ljust(dhcp.PACKET_BYTES_MAX + 1, b"\0"),
}


@pytest.mark.parametrize("packet", NONE_OF_THESE.values(), ids=NONE_OF_THESE)
def test_invalid_answer_is_rejected(packet: bytes) -> None:
    with pytest.raises(dhcp.DhcpError):
        dhcp.answer_to(packet, xid=XID, mac=MAC)


@pytest.mark.parametrize(
    "packet", [offer(xid=b"\0\0\0\0"), offer(mac=bytes(6))], ids=["xid", "card"]
)
def test_answer_to_another_request_is_rejected(packet: bytes) -> None:
    with pytest.raises(dhcp.DhcpError, match="another request"):
        dhcp.answer_to(packet, xid=XID, mac=MAC)
    assert dhcp.parse(packet).endpoint == "10.1.2.3"


def test_options_may_continue_in_the_file_and_sname_fields() -> None:
    both = bytes((52, 1, 3))
    packet = reply(OFFER, both, END, file=named()[:2] + named()[2:], sname=SERVER + END)
    lease = dhcp.parse(packet)
    assert (lease.endpoint, lease.server) == ("10.1.2.3", "10.1.2.1")
    # The same fields without that option are names.
    assert dhcp.parse(reply(OFFER, END, file=named())).endpoint == ""
    only_sname = bytes((52, 1, 2))
    assert dhcp.parse(reply(OFFER, only_sname, END, file=named())).endpoint == ""


def test_split_option_is_joined() -> None:
    parts = bytes((0, 245, 2, 10, 1, 0, 0, 245, 2, 2, 3))
    assert dhcp.parse(reply(OFFER, parts, END)).endpoint == "10.1.2.3"
    # Two such options have eight bytes together, which is not an address.
    assert dhcp.parse(reply(OFFER, named(), named(), END)).endpoint == ""


@pytest.mark.parametrize(
    ("address", "is_believed"),
    [
        ((10, 0, 0, 1), True),
        ((100, 64, 0, 1), True),
        ((100, 127, 255, 1), True),
        ((100, 128, 0, 1), False),
        ((169, 254, 169, 254), True),
        ((172, 16, 0, 1), True),
        ((172, 31, 0, 1), True),
        ((172, 32, 0, 1), False),
        ((192, 168, 7, 7), True),
        ((168, 63, 129, 16), True),
        ((168, 63, 129, 17), False),
        ((8, 8, 8, 8), False),
        ((127, 0, 0, 1), False),
        ((0, 0, 0, 0), False),
        ((224, 0, 0, 1), False),
        ((255, 255, 255, 255), False),
        ((10, 0, 1), False),
        ((10, 0, 0, 0, 1), False),
        ((), False),
    ],
)
def test_only_plausible_endpoint_addresses_are_accepted(
    address: tuple[int, ...], *, is_believed: bool
) -> None:
    shown = ".".join(map(str, address)) if is_believed else ""
    assert dhcp.endpoint_in(bytes(address)) == shown


@given(st.binary(max_size=700))
def test_arbitrary_bytes_raise_only_dhcp_errors(packet: bytes) -> None:
    for data in (packet, reply(packet), reply(OFFER, bytes((52, 1, 3)), packet)):
        with contextlib.suppress(dhcp.DhcpError):
            lease = dhcp.parse(data)
            assert len(lease.options[53]) == 1
            assert lease.endpoint == "" or lease.endpoint.count(".") == 3


@given(
    st.lists(
        st.tuples(st.integers(1, 254), st.binary(max_size=255)).filter(
            lambda option: option[0] not in {52, 53}
        ),
        max_size=8,
    ),
    st.integers(0, 40),
)
def test_any_written_options_are_read(
    options: list[tuple[int, bytes]], padding: int
) -> None:
    wire = b"".join(bytes((code, len(text))) + text for code, text in options)
    parsed = dhcp.parse(reply(OFFER, wire, END, bytes(padding))).options
    wanted = {53: b"\x02"}
    for code, text in options:
        wanted[code] = wanted.get(code, b"") + text
    assert parsed == wanted


@given(st.data())
def test_corrupted_packet_never_names_an_outside_address(
    data: st.DataObject,
) -> None:
    packet = bytearray(offer())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packet) - 1))
        packet[at] = data.draw(st.integers(0, 255))
    packet = packet[: data.draw(st.integers(0, len(packet)))]
    with contextlib.suppress(dhcp.DhcpError):
        endpoint = dhcp.answer_to(bytes(packet), xid=XID, mac=MAC).endpoint
        numbers = bytes(map(int, endpoint.split("."))) if endpoint else b""
        assert dhcp.endpoint_in(numbers) == endpoint
