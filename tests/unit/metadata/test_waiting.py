"""Waiting requests in the core: without sockets, loop or passing time."""

from dataclasses import replace

import pytest

from forewarn.instants import SECOND
from forewarn.metadata import answers
from forewarn.metadata.endpoint import Enable, Endpoint
from forewarn.metadata.http import Request
from forewarn.metadata.identity import Source
from forewarn.metadata.reader import Received
from forewarn.metadata.waiting import Wait, Waiter, Waits
from forewarn.protocol.published import Guest, Publication
from tests.unit.metadata.support import (
    ALONE,
    EVENT,
    GUESTS,
    NEWEST,
    NOW,
    WEST_0,
    WEST_1,
    get,
    make_endpoint,
    published,
    read,
    snapshot,
)

OTHERWISE = answers.NOT_FOUND


class Quiet:
    """A party that never looks by itself."""

    def recheck(self, waiter: Waiter) -> None:
        raise AssertionError(f"{waiter.vm} was let look")


def wait_of(vm: str = "w0", view: str = "west", *, seconds: int = 60) -> Wait:
    return Wait(vm=vm, view_id=view, seconds=seconds, otherwise=OTHERWISE)


def enter(waits: Waits, wait: Wait, *, at: float = 0.0) -> Waiter | None:
    received = Received(request=get(), keep=True)
    return waits.enter(Quiet(), received, wait, monotonic=at)


def entered(waits: Waits, wait: Wait, *, at: float = 0.0) -> Waiter:
    waiter = enter(waits, wait, at=at)
    assert waiter is not None
    return waiter


def called(waits: Waits) -> list[Waiter]:
    return waits.take(1_000)


# -- the queue


def test_change_wakes_all_waiters_of_its_view_and_no_others() -> None:
    waits = Waits(longest_seconds=60)
    west = [entered(waits, wait_of("w0")), entered(waits, wait_of("w1"))]
    entered(waits, wait_of("alone", "alone"))
    waits.call_view("west")
    assert {*called(waits)} == {*west}
    assert called(waits) == []
    assert len(waits) == 3, "called is not answered"


def test_waiter_called_twice_rechecks_once() -> None:
    waits = Waits(longest_seconds=60)
    waiter = entered(waits, wait_of())
    waits.call_view("west")
    waits.call_vm("w0")
    assert called(waits) == [waiter]
    waits.call_vm("w0")
    assert called(waits) == [waiter], "it can be called again after its recheck"


def test_one_wakeup_is_sent_for_any_number_of_waiters() -> None:
    waits = Waits(longest_seconds=60)
    rung: list[int] = []
    waits.on_called = lambda: rung.append(1)
    for _ in range(3):
        entered(waits, wait_of())
    waits.call_view("west")
    waits.call_view("west")
    assert len(rung) == 1
    called(waits)
    waits.call_view("west")
    assert len(rung) == 2


def test_a_wait_ends_within_a_tenth_of_a_second() -> None:
    waits = Waits(longest_seconds=60)
    early = entered(waits, wait_of(seconds=2), at=0.33)
    late = entered(waits, wait_of(seconds=30), at=0.33)
    waits.call_due(monotonic=2.32)
    assert called(waits) == []
    assert waits.next_due() == pytest.approx(2.4)
    waits.call_due(monotonic=2.4)
    assert called(waits) == [early]
    assert not waits.stay(early, wait_of())
    assert waits.stay(late, wait_of())


def test_waiter_that_leaves_frees_its_slot_at_once() -> None:
    waits = Waits(longest_seconds=60, per_vm=2)
    first = entered(waits, wait_of())
    entered(waits, wait_of())
    assert enter(waits, wait_of()) is None
    assert enter(waits, wait_of("w1")) is not None
    waits.leave(first)
    waits.leave(first)
    assert enter(waits, wait_of()) is not None
    assert len(waits) == 3


def test_total_number_of_waiters_is_limited() -> None:
    waits = Waits(longest_seconds=60, waiters_max=2)
    entered(waits, wait_of("w0"))
    entered(waits, wait_of("w1"))
    assert enter(waits, wait_of("alone", "alone")) is None


def test_waiter_that_left_is_no_longer_called() -> None:
    waits = Waits(longest_seconds=60)
    gone, left = entered(waits, wait_of()), entered(waits, wait_of())
    waits.call_view("west")
    waits.leave(gone)
    assert called(waits) == [left]
    waits.leave(left)
    waits.call_all()
    waits.call_due(monotonic=1e6)
    assert called(waits) == []
    assert (len(waits), [*waits.views], waits.next_due()) == (0, [], None)


def test_waiter_that_changed_vm_is_called_for_the_new_vm() -> None:
    waits = Waits(longest_seconds=60)
    waiter = entered(waits, wait_of("w0"))
    assert waits.stay(waiter, wait_of("alone", "alone"))
    waits.call_view("west")
    waits.call_vm("w0")
    assert called(waits) == []
    waits.call_view("alone")
    assert called(waits) == [waiter]


# -- the endpoint


def pushing(*, rate_limit: float = 0, longest: int = 60) -> Endpoint:
    waits = Waits(longest_seconds=longest)
    endpoint = make_endpoint(rate_limit=rate_limit, waits=waits)
    for source in (WEST_0, WEST_1):
        # A first response is never a 304, so the request does not wait.
        assert read(asked(endpoint, get(), source)).status == 200
    return endpoint


def asked(endpoint: Endpoint, request: Request, source: Source = WEST_0) -> object:
    return endpoint.handle(request, source, now=NOW, monotonic=0.0)


def waiting(wait: str = "60", tag: str = '"1"') -> Request:
    return get(f"{NEWEST}&wait={wait}", if_none_match=tag)


def test_request_with_the_current_document_waits() -> None:
    answer = asked(pushing(), waiting("7"))
    assert isinstance(answer, Wait)
    assert (answer.vm, answer.view_id, answer.seconds) == ("w0", "west", 7)
    end = read(answer.otherwise)
    assert (end.status, end.body) == (304, b"")
    assert end.headers == {
        "Server": "forewarn",
        "ETag": '"1"',
        "Forewarn-Wait": "60",
    }


@pytest.mark.parametrize(
    ("wait", "tag"), [("60", '"0"'), ("60", ""), ("60", "*"), ("0", '"0"')]
)
def test_request_with_another_document_is_answered_at_once(wait: str, tag: str) -> None:
    answer = read(asked(pushing(), waiting(wait, tag)))
    assert (answer.status, answer.headers["Forewarn-Wait"]) == (200, "60")
    assert answer.json == {"DocumentIncarnation": 1, "Events": []}


def test_wait_of_zero_gets_304_at_once() -> None:
    answer = read(asked(pushing(), waiting("0")))
    assert (answer.status, answer.headers["Forewarn-Wait"]) == (304, "60")


@pytest.mark.parametrize("wait", ["61", "3600", "999999999"])
def test_longer_wait_is_limited_to_the_maximum(wait: str) -> None:
    answer = asked(pushing(), waiting(wait))
    assert isinstance(answer, Wait)
    assert answer.seconds == 60


@pytest.mark.parametrize(
    "wait",
    ["", "x", "-1", "+1", "1.5", "1s", "1e1", "%20", "٣", "1" * 10, "1&wait=1", "60,"],
)
@pytest.mark.parametrize("tag", ['"1"', '"0"'])
def test_wait_that_is_not_a_number_of_seconds_gets_400(wait: str, tag: str) -> None:
    answer = read(asked(pushing(), waiting(wait, tag)))
    assert answer.status == 400
    assert answer.json["error"].startswith("Bad request. wait ")


@pytest.mark.parametrize("wait", ["60", "x", "", "1&wait=2"])
def test_wait_parameter_is_ignored_if_push_is_disabled(wait: str) -> None:
    endpoint = pushing(longest=0)
    assert asked(endpoint, waiting(wait)) == asked(endpoint, get(if_none_match='"1"'))
    assert asked(endpoint, waiting(wait, "")) == asked(endpoint, get())


def test_answers_without_wait_are_identical_with_push_on_or_off() -> None:
    on, off = pushing(), pushing(longest=0)
    requests = [
        get(),
        get(if_none_match='"1"'),
        get("api-version=x"),
        get(f"{NEWEST}&other=1"),
        get(f"{NEWEST}&Wait=1"),
        get(metadata=""),
        get(path="/metadata/instance/x"),
    ]
    for request in requests:
        assert asked(on, request) == asked(off, request)


def test_only_get_of_the_document_waits() -> None:
    endpoint = pushing()
    for request in (waiting()._replace(method="HEAD"), waiting("x")._replace(path="/")):
        assert read(asked(endpoint, request)).status in {404, 405}
    assert not isinstance(asked(endpoint, waiting("x")._replace(method="POST")), Wait)


def test_a_wait_counts_once_against_the_rate_limit() -> None:
    endpoint = pushing(rate_limit=2)
    assert isinstance(asked(endpoint, waiting()), Wait)
    for _ in range(5):
        again = endpoint.handle(waiting(), WEST_0, now=NOW, monotonic=0.0, again=True)
        assert isinstance(again, Wait)
    assert read(asked(endpoint, waiting())).status == 429


def filed(endpoint: Endpoint, source: Source = WEST_0) -> Waiter:
    wait = asked(endpoint, waiting(), source)
    assert isinstance(wait, Wait)
    return entered(endpoint.waits, wait)


def test_change_of_the_document_of_a_vm_wakes_its_waiters() -> None:
    changes = {
        "a new document": published(snapshot(2, EVENT)),
        "a new epoch": published(snapshot(1, epoch=2)),
        "the end of an epoch": published(snapshot(1, enabled=False)),
        "the end of the view": Publication(views_gone=("west",)),
        "the end of the VM": Publication(guests_gone=("w0",)),
        "another view": Publication(guests=(_guest("w0", view="alone"),)),
        "another owner of the address": Publication(
            guests=(_guest("alone", addresses=("192.0.2.4",), view="alone"),)
        ),
    }
    for what, publication in changes.items():
        endpoint = pushing()
        waiter = filed(endpoint)
        endpoint.publish(publication)
        assert waiter in called(endpoint.waits), what
        after = endpoint.handle(waiting(), WEST_0, now=NOW, monotonic=0.0, again=True)
        assert not isinstance(after, Wait), what


def _guest(vm: str, *, view: str, addresses: tuple[str, ...] = ()) -> Guest:
    [guest] = [guest for guest in GUESTS if guest.vm == vm]
    return replace(guest, view_id=view, addresses=addresses or guest.addresses)


def test_change_of_other_views_wakes_no_waiter() -> None:
    endpoint = pushing()
    filed(endpoint)
    endpoint.publish(published(snapshot(1)))
    endpoint.publish(published(snapshot(5, EVENT, view="alone", epoch=1)))
    endpoint.publish(Publication(guests_gone=("alone",)))
    assert called(endpoint.waits) == []


def test_waiting_updates_the_last_seen_time() -> None:
    endpoint = pushing()
    waiter = filed(endpoint)
    assert endpoint.take_last_seen() == {"west": NOW}
    assert endpoint.take_last_seen() == {}
    later = NOW + 30 * SECOND
    assert endpoint.take_last_seen(now=later) == {"west": later}
    endpoint.waits.leave(waiter)
    assert endpoint.take_last_seen(now=later) == {}


def test_first_request_with_wait_enables_the_view() -> None:
    answer = asked(pushing(), waiting(), ALONE)
    assert isinstance(answer, Enable)
