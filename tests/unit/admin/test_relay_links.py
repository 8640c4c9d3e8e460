"""Relays confirm what their VMs see, and the service learns which of them are silent."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.admin.relay_hub import RelayHub
from forewarn.admin.relay_links import Contact, Links, Unconfirmed, silence_of
from forewarn.control.gateway import BusyError
from forewarn.instants import SECOND, Micros
from forewarn.store import kinds
from forewarn.store.port import every
from tests.unit.admin.relays import Api, Stream

SHORT, LONG = limits.RELAY_SILENT_SECONDS - 1, limits.RELAY_SILENT_SECONDS
SOON, LATE = limits.RELAY_UNCONFIRMED_SECONDS - 1, limits.RELAY_UNCONFIRMED_SECONDS
UNHEARD = limits.RELAY_UNHEARD_SECONDS


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


@pytest.mark.parametrize(
    ("contact", "silence"),
    [
        (Contact(), 0.0),
        (Contact(unheard=UNHEARD - 1), 0.0),
        (Contact(away=0.0), None),
        (Contact(away=SHORT), None),
        (Contact(away=LONG), LONG),
        (Contact(unconfirmed=0.0), None),
        (Contact(unconfirmed=SOON), None),
        (Contact(unconfirmed=LATE), LATE),
        (Contact(unheard=UNHEARD), UNHEARD),
        (Contact(away=LONG, unconfirmed=LATE), LATE),
        (Contact(away=SHORT, unheard=UNHEARD), UNHEARD),
    ],
)
def test_relay_is_silent_after_the_limit_and_well_if_it_has_confirmed_all(
    contact: Contact, silence: float | None
) -> None:
    assert silence_of(contact) == silence


def test_confirmation_covers_all_earlier_changes_and_no_later_one() -> None:
    changes = Unconfirmed()
    assert changes.since is None
    for number in (3, 5, 9):
        changes.add(number, float(number))
    changes.confirm(2)
    assert changes.since == 3.0
    changes.confirm(6)
    assert changes.since == 9.0
    changes.confirm(9)
    assert changes.since is None


def test_many_unconfirmed_changes_use_bounded_memory_and_keep_the_oldest_time() -> None:
    changes = Unconfirmed()
    most = limits.RELAY_UNCONFIRMED_MAX
    for number in range(1, 3 * most):
        changes.add(number, float(number))
    changes.confirm(most - 1)
    # The last place has the time of its first change and the number of its last one.
    assert changes.since == float(most)
    changes.confirm(3 * most - 2)
    assert changes.since == float(most)
    changes.confirm(3 * most - 1)
    assert changes.since is None


class Reports:
    """Contacts that a test chooses, and what was reported of them."""

    def __init__(self, api: Api) -> None:
        self.contacts: dict[str, Contact] = {}
        self.told: list[Mapping[str, Micros]] = []
        self.is_busy = False
        self.links = Links(
            gateway=lambda: api.gateway,
            contacts=lambda: self.contacts,
            report=self._report,
        )

    async def _report(self, silent_since: Mapping[str, Micros]) -> None:
        if self.is_busy:
            raise BusyError("stopping")
        self.told.append(dict(silent_since))

    async def look(self, running: float = 0.0) -> list[Mapping[str, Micros]]:
        self.told.clear()
        await self.links.report_changes(running)
        return list(self.told)


def test_only_a_change_is_reported_and_a_refused_report_is_repeated() -> None:
    api = Api()
    now = api.gateway.now()

    async def story() -> None:
        reports = Reports(api)
        reports.contacts = {"h1": Contact(), "h2": Contact(away=SHORT)}
        reports.is_busy = True
        assert await reports.look() == []
        reports.is_busy = False
        assert await reports.look() == [{"h1": 0}]
        assert await reports.look() == []
        reports.contacts["h1"] = Contact(unconfirmed=SOON)
        assert await reports.look() == []
        reports.contacts["h1"] = Contact(unconfirmed=37.0)
        assert await reports.look() == [{"h1": now - 37 * SECOND}]
        reports.contacts["h1"] = Contact(unconfirmed=38.0)
        assert await reports.look() == []
        reports.contacts["h1"] = Contact()
        assert await reports.look() == [{"h1": 0}]
        # A relay that connects again is reported again: its host can be a new one.
        reports.links.forget("h1")
        assert await reports.look() == [{"h1": 0}]

    run(story())


def test_many_relays_are_reported_in_parts() -> None:
    async def story() -> None:
        reports = Reports(Api())
        number = 2 * limits.RELAY_LINKS_TOGETHER + 1
        reports.contacts = {
            f"h{relay_number}": Contact() for relay_number in range(number)
        }
        sizes = [len(some) for some in await reports.look()]
        assert sizes == [number // 2, number // 2, 1]

    run(story())


def stored(api: Api) -> dict[str, bool]:
    """Return whether the relay of each host is silent, according to the store."""
    links = api.gateway.store.read(
        lambda reader: list(every(reader, kinds.ALL_RELAY_LINKS))
    )
    return {link.host: bool(link.silent_since) for link in links}


async def until_stored(api: Api, wanted: Mapping[str, bool]) -> None:
    async with asyncio.timeout(20):
        while stored(api) != wanted:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look all the time, and wait for nothing."""
    monkeypatch.setattr(limits, "RELAY_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(limits, "RELAY_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(limits, "RELAY_UNCONFIRMED_SECONDS", 0.0)


def test_relay_is_well_only_after_it_has_confirmed_what_it_was_sent(
    quick: None,
) -> None:
    del quick
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.begin()
        stream = Stream(hub, "h1", api.create("h1")["id"], confirms=True)
        whole = await stream.next()
        await until_stored(api, {"h1": True})
        hub.confirm("h1", "1.1.of-another-process")
        hub.confirm("h1", "no position")
        hub.confirm("h2", whole["position"])
        assert hub.states()["h1"].behind_seconds > 0
        hub.confirm("h1", whole["position"])
        await until_stored(api, {"h1": False})
        api.gateway.enable("web_0")
        line = await stream.until("views")
        await until_stored(api, {"h1": True})
        hub.confirm("h1", whole["position"])
        assert hub.states()["h1"].behind_seconds > 0
        hub.confirm("h1", line["position"])
        await until_stored(api, {"h1": False})
        await stream.close()
        await until_stored(api, {"h1": True})
        hub.end()

    run(story())


def test_relay_that_continues_after_its_position_has_confirmed_it(quick: None) -> None:
    del quick
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.begin()
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token, confirms=True)
        position = (await stream.next())["position"]
        await stream.close()
        again = Stream(hub, "h1", token, position, confirms=True)
        assert "whole" not in await again.next()
        await until_stored(api, {"h1": False})
        await again.close()
        hub.end()

    run(story())


def test_relay_of_an_earlier_version_is_well_when_it_was_sent_everything(
    quick: None,
) -> None:
    del quick
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.begin()
        stream = Stream(hub, "h1", api.create("h1")["id"])
        await stream.next()
        waiting = asyncio.ensure_future(stream.next())
        await until_stored(api, {"h1": False})
        # It sends nothing by itself, which does not count as silence.
        assert hub.contacts()["h1"].unheard is None
        waiting.cancel()
        hub.end()

    run(story())


def test_new_token_of_a_relay_leaves_nothing_to_confirm() -> None:
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        stream = Stream(hub, "h1", api.create("h1")["id"], confirms=True)
        hub.confirm("h1", (await stream.next())["position"])
        api.create("h1")
        line = await stream.next()
        assert set(line) == {"position", "since"}
        assert hub.contacts()["h1"].unconfirmed is None
        await stream.close()

    run(story())


def test_relay_that_does_not_return_after_a_restart_is_silent(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del quick
    monkeypatch.setattr(limits, "RELAY_RETURN_SECONDS", 0.001)
    api = Api()
    api.create("h1")

    async def story() -> None:
        await api.gateway.news.note_links({"h1": 0})
        api.gateway.broken = BusyError("the store is not open yet")
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.begin()
        for _ in range(9):
            await asyncio.sleep(0)
        api.gateway.broken = None
        assert stored(api) == {"h1": False}
        await until_stored(api, {"h1": True})
        hub.end()

    run(story())


def test_relay_that_left_in_an_earlier_term_is_not_silent_at_the_takeover(
    quick: None,
) -> None:
    del quick
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.change_role(leads=True)
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token, confirms=True)
        hub.confirm("h1", (await stream.next())["position"])
        await until_stored(api, {"h1": False})
        hub.change_role(leads=False)
        assert await stream.next() is None
        # Its relay is well with another replica, which leads for hours.
        assert hub.count("h1") == 0
        hub.change_role(leads=True)
        assert hub.contacts() == {}
        again = Stream(hub, "h1", token, confirms=True)
        assert "whole" in await again.next()
        # A stream that is still open at a takeover keeps its host until it ends.
        hub.change_role(leads=True)
        assert hub.count("h1") == 1
        assert await again.next() is None
        hub.end()

    run(story())


def test_confirmation_is_a_request_of_the_relay_itself() -> None:
    api = Api()
    token = api.create("h1")["token"]
    answer = api.ask(token, "POST", "/v1/relay/served", {"position": "1.2.x"})
    assert (answer.status_code, answer.json()) == (200, {})
    for wrong in ({}, {"position": 1}, {"position": "x" * 999}, {"host": "h2"}):
        answer = api.ask(token, "POST", "/v1/relay/served", wrong)
        assert answer.status_code == 400, wrong


def test_streams_end_when_the_service_ceases_to_lead() -> None:
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        hub.change_role(leads=True)
        stream = Stream(hub, "h1", api.create("h1")["id"], confirms=True)
        assert "whole" in await stream.next()
        reading = asyncio.create_task(stream.next())
        hub.change_role(leads=False)
        for _ in range(100):
            await asyncio.sleep(0)
        hub.end()
        assert reading.done()
        assert reading.result() is None

    run(story())
