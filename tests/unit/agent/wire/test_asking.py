"""Asking DHCP servers, over a wire that is not there."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from forewarn.agent.wire import asking, dhcp
from forewarn.agent.wire.asking import Card
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support.agent_journals import START
from tests.support.dhcp_servers import END, OFFER, SERVER, named, reply

pytestmark = pytest.mark.clause("8.2")

ETH0 = Card(name="eth0", mac=bytes.fromhex("5254000000a1"))
ETH1 = Card(name="eth1", mac=bytes.fromhex("5254000000a2"))

Server = Callable[[bytes], list[bytes]]
"""Takes a question, returns what comes then."""


class Wire:
    """A network with servers, as a socket on a virtual clock."""

    def __init__(self, server: Server, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock
        self.sent: list[tuple[bytes, Any]] = []
        self.options: dict[int, Any] = {}
        self.bound: Any = None
        self.port = dhcp.SERVER_PORT
        self.fails: OSError | None = None
        self._coming: list[bytes] = []
        self._timeout = 0.0

    def __call__(self, *_: object) -> Self:
        """Be the socket that is made."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._coming.clear()

    def setsockopt(self, _level: int, option: int, value: Any) -> None:
        self.options[option] = value

    def bind(self, where: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.bound = where

    def sendto(self, packet: bytes, where: Any) -> None:
        self.sent.append((packet, where))
        self._coming += self.server(packet)

    def settimeout(self, seconds: float) -> None:
        self._timeout = seconds

    def recvfrom(self, most: int) -> tuple[bytes, Any]:
        if not self._coming:
            self.clock.advance_to(self.clock.now() + round(self._timeout * SECOND))
            raise TimeoutError
        return self._coming.pop(0)[:most], ("10.1.2.1", self.port)


class Story:
    """A machine with an interface, and a server on the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
        self.clock = VirtualClock(START)
        self.wire = Wire(server, self.clock)
        monkeypatch.setattr(asking.socket, "socket", self.wire)

    def ask(self, *cards: Card) -> asking.SearchResult:
        return asking.ask(clock=self.clock, cards=lambda: list(cards or (ETH0,)))


def answered(packet: bytes, *options: bytes) -> bytes:
    """Return the answer to a question."""
    return reply(*options, END, xid=packet[4:8], mac=packet[28:34])


def test_server_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, lambda p: [answered(p, OFFER, SERVER, named())])
    heard = story.ask()
    assert heard.addresses == ("10.1.2.3",)
    assert heard.sentences == ("DHCP option 245 on eth0 names 10.1.2.3",)
    ((question, where),) = story.wire.sent
    assert where == ("255.255.255.255", 67)
    assert question[28:34] == ETH0.mac
    assert story.wire.bound == ("", 68)
    assert b"eth0\0" in story.wire.options.values()


def test_other_packets_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(packet: bytes) -> list[bytes]:
        other = reply(OFFER, named(bytes((10, 6, 6, 6))), END, xid=b"evil")
        public = answered(packet, OFFER, SERVER, named(bytes((6, 6, 6, 6))))
        return [b"", packet, other, public, answered(packet, OFFER, named())]

    assert Story(monkeypatch, noisy).ask().addresses == ("10.1.2.3",)


def test_lost_request_is_repeated_with_another_transaction_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions: list[bytes] = []

    def deaf(packet: bytes) -> list[bytes]:
        questions.append(packet)
        # A late answer belongs to an earlier question.
        late = answered(questions[0], OFFER, named(bytes((10, 9, 9, 9))))
        return [late, answered(packet, OFFER, named())] if len(questions) > 2 else []

    story = Story(monkeypatch, deaf)
    assert story.ask().addresses == ("10.1.2.3",)
    assert len({packet[4:8] for packet in questions}) == 3
    assert story.clock.now() - START == 3 * SECOND


def test_request_without_an_answer_ends_after_seven_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(monkeypatch, lambda _: [])
    assert story.ask().sentences == ("no DHCP server answers on eth0",)
    assert story.clock.now() - START == 7 * SECOND


def test_answer_without_an_endpoint_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(monkeypatch, lambda p: [answered(p, OFFER, SERVER)])
    assert story.ask().sentences == ("DHCP on eth0: 10.1.2.1 names no endpoint",)
    assert len(story.wire.sent) == 1
    story = Story(monkeypatch, lambda p: [answered(p, OFFER)])
    assert story.ask().sentences == ("DHCP on eth0: a server names no endpoint",)


def test_flood_of_invalid_packets_ends_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(monkeypatch, lambda _: [b"?"] * 1_000)
    assert story.ask().sentences == ("no DHCP server answers on eth0",)


def test_slow_invalid_packets_end_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(monkeypatch, lambda _: [b"?"] * 1_000)
    usual = story.wire.recvfrom

    def slowly(most: int) -> tuple[bytes, Any]:
        story.clock.advance_to(story.clock.now() + SECOND // 2)
        return usual(most)

    monkeypatch.setattr(story.wire, "recvfrom", slowly)
    assert story.ask().addresses == ()
    assert story.clock.now() - START <= 8 * SECOND


def test_packet_from_another_port_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(monkeypatch, lambda p: [answered(p, OFFER, named())])
    story.wire.port = 6_767
    assert story.ask().addresses == ()


def test_next_interface_is_tried_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def second(packet: bytes) -> list[bytes]:
        is_second = packet[28:34] == ETH1.mac
        return [answered(packet, OFFER, named())] if is_second else []

    assert Story(monkeypatch, second).ask(ETH0, ETH1).sentences == (
        "no DHCP server answers on eth0",
        "DHCP option 245 on eth1 names 10.1.2.3",
    )


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EPERM, "that needs root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW"),
        (errno.EACCES, "that needs root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW"),
        (errno.EADDRINUSE, "another DHCP client has exclusive use of port 68"),
        (errno.ENETDOWN, os.strerror(errno.ENETDOWN)),
    ],
)
def test_failure_to_send_the_request_is_reported(
    number: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(monkeypatch, lambda _: [])
    story.wire.fails = OSError(number, os.strerror(number))
    assert story.ask().sentences == (f"no DHCP request on eth0: {why}",)


def test_nothing_is_sent_without_interfaces_or_outside_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock(START)
    sentences = asking.ask(clock=clock, cards=list).sentences
    assert sentences == ("there is no network interface for a DHCP request",)
    monkeypatch.setattr(sys, "platform", "win32")
    assert asking.ask(clock=clock).sentences == (
        "DHCP requests are sent only on Linux",
    )


# Cards


def card(directory: Path, name: str, **more: str) -> None:
    files = {"type": "1", "flags": "0x1003", "address": "52:54:00:00:00:a1"} | more
    (directory / name).mkdir(parents=True)
    for file, text in files.items():
        (directory / name / file).write_text(f"{text}\n")


HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n"


def test_interfaces_of_the_default_route_are_used(tmp_path: Path) -> None:
    cards, routes = tmp_path / "net", tmp_path / "route"
    for name in ("eth0", "eth1", "eth2"):
        card(cards, name)
    default = "{}\t00000000\t0100000A\t0003\t0\t0\t{}\t00000000\t0\n"
    other = "eth2\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n"
    lines = [HEAD, other, default.format("eth0", 200), default.format("eth1", 100)]
    routes.write_text("".join([*lines, default.format("eth1", 300), "x\n"]))
    cards_in_use = asking.usable_cards(str(cards), str(routes))
    assert [usable.name for usable in cards_in_use] == ["eth1", "eth0"]
    routes.unlink()
    cards_in_use = asking.usable_cards(str(cards), str(routes))
    assert [usable.name for usable in cards_in_use] == ["eth0", "eth1", "eth2"]
    assert cards_in_use[0].mac == ETH0.mac


def test_unusable_network_cards_are_ignored(tmp_path: Path) -> None:
    cards, routes = tmp_path / "net", tmp_path / "route"
    card(cards, "lo", type="772")
    card(cards, "eth0", flags="0x1002")
    card(cards, "eth1", address="52:54")
    card(cards, "eth2", address="none")
    card(cards, "eth3", flags="up")
    card(cards, "docker0")
    (cards / "docker0" / "bridge").mkdir()
    card(cards, "br0", address="52:54:00:00:00:a2")
    (cards / "br0" / "bridge").mkdir()
    (cards / "bonding_masters").write_text("")
    assert asking.usable_cards(str(cards), str(routes)) == []
    assert asking.usable_cards(str(tmp_path / "none"), str(routes)) == []
    line = "br0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    routes.write_text(HEAD + line)
    (found,) = asking.usable_cards(str(cards), str(routes))
    assert found == Card(name="br0", mac=ETH1.mac)
    for number in range(9):
        card(cards, f"ens{number}")
    routes.unlink()
    assert len(asking.usable_cards(str(cards), str(routes))) == asking.CARDS_MAX
