"""The sources in which an agent looks for its endpoint."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from forewarn.agent import assembly
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire import asking, discovery
from forewarn.agent.wire.dhcp import SearchResult
from forewarn.agent.wire.discovery import DEFAULT, Discovery
from forewarn.clock import Clock, VirtualClock
from forewarn.instants import MINUTE
from tests.support.agent_journals import START

pytestmark = pytest.mark.clause("8.2")

TOLD = ("http://10.0.0.1", "http://10.0.0.1:8080")


class Network:
    """A source that answers or not, and counts the requests."""

    def __init__(self, *answers: SearchResult) -> None:
        self._answers = iter(answers)
        self.asked = 0

    def seek(self, clock: Clock) -> SearchResult:
        self.asked += 1
        return next(
            self._answers, SearchResult(sentences=("no DHCP server answers on eth0",))
        )


class Story:
    """An agent that looks for its endpoint on a machine with no lease."""

    def __init__(self, directory: Path, *answers: SearchResult) -> None:
        self.clock = VirtualClock(START)
        self.network = Network(*answers)
        self.directory = directory
        self.finder = Discovery(
            clock=self.clock,
            known=[(str(directory), "*.lease")],
            seek=self.network.seek,
        )

    def places(self) -> tuple[str, ...]:
        """Return what it tries next, after the source has answered."""
        places = self.finder.places()
        if self.finder._thread is not None:
            self.finder._thread.join()
        return places


def test_default_address_precedes_dhcp_addresses(tmp_path: Path) -> None:
    known = [(str(tmp_path), "*")]
    clock = VirtualClock(START)
    assert discovery.places(clock, known) == (DEFAULT,)
    (tmp_path / "2").write_text("OPTION_245=0a000001\n")
    assert discovery.places(clock, known) == (DEFAULT, *TOLD)


def test_dhcp_is_not_used_before_the_default_address_was_tried(tmp_path: Path) -> None:
    story = Story(tmp_path, SearchResult(addresses=("10.0.0.1",), sentences=("eth0",)))
    assert story.places() == (DEFAULT,)
    assert story.network.asked == 0
    # It did not answer: now they are asked, while it is tried again.
    assert story.places() == (DEFAULT,)
    assert story.network.asked == 1
    # An address that has not been tried is next.
    assert story.places() == (*TOLD, DEFAULT)
    assert story.places() == (DEFAULT, *TOLD)
    assert story.network.asked == 1


def test_dhcp_is_not_used_before_the_leased_address_was_tried(tmp_path: Path) -> None:
    story = Story(tmp_path)
    assert story.places() == (DEFAULT,)
    # The lease came when that had been tried.
    (tmp_path / "x.lease").write_text("OPTION_245=0a000001\n")
    assert story.places() == (*TOLD, DEFAULT)
    assert story.network.asked == 0


def test_lease_with_a_dead_address_does_not_prevent_a_search(tmp_path: Path) -> None:
    """It may be of the network in which the machine's image was made."""
    (tmp_path / "x.lease").write_text("OPTION_245=0a000009\n")
    story = Story(tmp_path, SearchResult(addresses=("10.0.0.1",), sentences=("eth0",)))
    dead = ("http://10.0.0.9", "http://10.0.0.9:8080")
    assert story.places() == (DEFAULT, *dead)
    assert story.network.asked == 0
    # While they are asked, what led nowhere delays nothing.
    assert story.places() == (DEFAULT,)
    assert story.network.asked == 1
    assert story.places() == (*TOLD, DEFAULT, *dead)
    assert story.places() == (DEFAULT, *TOLD, *dead)
    assert story.network.asked == 1


def test_expired_lease_is_not_tried(tmp_path: Path) -> None:
    over = (
        "lease {\n  option unknown-245 a:0:0:9;\n  expire 2 2019/01/01 09:00:00;\n}\n"
    )
    (tmp_path / "x.lease").write_text(over)
    story = Story(tmp_path, SearchResult(addresses=("10.0.0.1",), sentences=("eth0",)))
    assert [story.places() for _ in range(3)][::2] == [(DEFAULT,), (*TOLD, DEFAULT)]


def test_no_dhcp_request_is_sent_if_the_settings_forbid_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[str] = []

    def ask(*, clock: Clock) -> SearchResult:
        sources.append("the network")
        return SearchResult()

    monkeypatch.setattr(asking, "ask", ask)
    monkeypatch.setattr(
        discovery, "networkmanager", lambda: sources.append("here") or ""
    )
    monkeypatch.setattr(assembly, "places", lambda _: (DEFAULT,))
    sources_per_setting: list[list[str]] = []
    for text in ("true", "false"):
        wanted = load_settings(environ={"FOREWARN_AGENT_DHCP": text}, flags={})
        assert [*assembly.elsewhere_of(wanted, VirtualClock(START))] == [([], ())]
        sources_per_setting.append(sources.copy())
        sources.clear()
    assert sources_per_setting == [["here", "the network"], ["here"]]
    named = load_settings(environ={"FOREWARN_ENDPOINT": "http://a"}, flags={})
    assert not [*assembly.elsewhere_of(named, VirtualClock(START))]
    assert not sources


def elsewhere(wanted: Settings) -> Iterator[tuple[list[str], Sequence[str]]]:
    """Yield the URLs of each round, and what was heard."""
    for endpoints, told in assembly.elsewhere_of(wanted, VirtualClock(START)):
        yield [endpoint.url for endpoint in endpoints], told


def test_check_gets_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = load_settings(environ={}, flags={})
    heard = SearchResult(addresses=("10.0.0.1",), sentences=("eth0",))
    searches: list[Clock] = []
    monkeypatch.setattr(assembly, "seek", lambda clock: searches.append(clock) or heard)
    monkeypatch.setattr(assembly, "places", lambda _: (DEFAULT,))
    (found,) = elsewhere(wanted)
    assert found == ([*TOLD], ("eth0",))
    # A lease is tried before anybody is asked; if it leads nowhere, they are.
    searches.clear()
    dead = ("http://10.0.0.9", "http://10.0.0.9:8080")
    monkeypatch.setattr(assembly, "places", lambda _: (DEFAULT, *dead))
    rounds = elsewhere(wanted)
    assert next(rounds) == ([*dead], ())
    assert not searches
    assert [*rounds] == [([*TOLD], ("eth0",))]
    # No address is tried twice.
    monkeypatch.setattr(assembly, "places", lambda _: (DEFAULT, *TOLD))
    assert [*elsewhere(wanted)] == [([*TOLD], ()), ([], ("eth0",))]


def test_dhcp_is_retried_at_growing_intervals_without_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "forewarn.agent.discovery")
    story = Story(tmp_path)
    story.places()
    waits: list[int] = []
    for minute in range(60):
        before = story.network.asked
        story.places()
        if story.network.asked > before:
            waits.append(minute)
        story.clock.advance_to(START + (minute + 1) * MINUTE)
    assert waits == [0, 1, 3, 7, 15, 30, 45]
    assert [record.message for record in caplog.records] == [
        "no DHCP server answers on eth0"
    ]


def test_dhcp_request_does_not_delay_discovery(tmp_path: Path) -> None:
    released = threading.Event()

    def hang(clock: Clock) -> SearchResult:
        released.wait()
        return SearchResult(addresses=("10.0.0.1",))

    clock = VirtualClock(START)
    finder = Discovery(clock=clock, known=[], seek=hang)
    for _ in range(3):
        assert finder.places() == (DEFAULT,)
        clock.advance_to(clock.now() + 20 * MINUTE)
    released.set()
    assert finder._thread is not None
    finder._thread.join()
    assert finder.places() == (*TOLD, DEFAULT)


def test_internal_error_leaves_the_default_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(clock: Clock) -> SearchResult:
        raise ZeroDivisionError

    finder = Discovery(clock=VirtualClock(START), known=[], seek=fail)
    finder.places()
    finder.places()
    assert finder._thread is not None
    finder._thread.join()
    assert finder.places() == (DEFAULT,)
    assert "search for the endpoint failed" in caplog.text


def test_default_address_is_used_if_no_thread_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    story = Story(tmp_path)
    assert [story.places() for _ in range(3)] == [(DEFAULT,)] * 3


def test_networkmanager_is_queried_before_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock(START)
    heard = SearchResult(sentences=("no answer",))

    def ask(*, clock: Clock) -> SearchResult:
        return heard

    monkeypatch.setattr(asking, "ask", ask)
    monkeypatch.setattr(discovery, "networkmanager", str)
    assert discovery.seek(clock) is heard
    monkeypatch.setattr(discovery, "networkmanager", lambda: "10.0.0.1")
    result = discovery.seek(clock)
    assert result.sentences == (
        "NetworkManager says that DHCP option 245 names 10.0.0.1",
    )
    assert discovery.urls_of(result) == TOLD
