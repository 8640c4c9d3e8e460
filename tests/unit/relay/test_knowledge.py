"""Test the state of a relay: each kind of line at each place, and one VM of two
relays."""

from dataclasses import replace

import pytest

from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.protocol.published import Guest, Publication, ViewSnapshot
from forewarn.relay import knowledge, messages
from forewarn.relay.knowledge import (
    VERDICTS,
    Form,
    Knowledge,
    Known,
    Line,
    Place,
    Position,
    Verdict,
    place_of,
    position_of,
    take,
)
from tests.unit.metadata.support import EVENT

AT = Position(term=3, number=7, start="abc")


def view(name: str, incarnation: int = 1, *, epoch: int = 1) -> ViewSnapshot:
    return ViewSnapshot(
        view_id=name,
        enabling="",
        enabled=True,
        epoch=epoch,
        incarnation=incarnation,
        ready_at=0,
        events=(),
    )


def known(vm: str, of: str = "web", address: str = "192.0.2.1") -> Known:
    guest = Guest(vm=vm, view_id=of, vm_id=f"id-{vm}", addresses=(address,), listen="")
    facts = InstanceFacts(
        vm=Vm(
            name="",
            wire_name=vm,
            host="",
            scope="",
            tenant="",
            view="",
            vm_id=f"id-{vm}",
            addresses=(address,),
        ),
        scope=Scope(name="", tenant="", kind=ScopeKind.STANDALONE),
        host=Host(name=""),
    )
    return Known(guest=guest, instance=facts)


HELD = Knowledge(
    position=AT,
    host="h1",
    views={"web": view("web", 5), "db": view("db", 2)},
    guests={"web_0": known("web_0"), "db_0": known("db_0", "db", "192.0.2.2")},
)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (Line(position=AT, since=7), Place.NEXT),
        (Line(position=replace(AT, number=9), since=7), Place.NEXT),
        # Repeated changes are harmless.
        (Line(position=replace(AT, number=9), since=3), Place.NEXT),
        (Line(position=replace(AT, number=9), since=8), Place.GAP),
        (Line(position=replace(AT, number=9), is_whole=True), Place.NEXT),
        (Line(position=replace(AT, number=6), since=5), Place.OLD),
        (Line(position=replace(AT, number=1, start="xyz")), Place.OTHER),
        (Line(position=replace(AT, number=1, start="xyz", term=4)), Place.OTHER),
        (Line(position=replace(AT, number=9, term=2)), Place.BEHIND),
        # The leader has changed, and the same process continues.
        (Line(position=replace(AT, number=8, term=4), since=7), Place.NEXT),
    ],
)
def test_a_line_has_one_place(line: Line, place: Place) -> None:
    assert place_of(HELD, line) is place
    assert place_of(Knowledge(), line) is Place.FIRST


@pytest.mark.parametrize("form", [Form.WHOLE, Form.CHANGES])
@pytest.mark.parametrize("start", ["abc", "xyz"])
@pytest.mark.parametrize(
    ("one", "is_lost"),
    [
        (view("web", 4), True),
        (view("web", 9, epoch=0), True),
        # The same number for another content: the store has begun again before it.
        (replace(view("web", 5), events=(EVENT,)), True),
        (replace(view("web", 5), ready_at=1), True),
        (view("web", 5), False),
        (view("web", 6), False),
        (replace(view("web", 5), enabled=False), False),
        # The scope was removed and added again: its view begins above the old one.
        (replace(view("web", 0, epoch=2), enabled=False), False),
        (view("web", 1, epoch=2), False),
        # It is news of another view.
        (view("new", 1), False),
    ],
)
def test_a_service_with_an_older_document_has_lost_its_store(
    one: ViewSnapshot, is_lost: bool, start: str, form: Form
) -> None:
    line = Line(
        position=replace(AT, number=8, start=start),
        since=7,
        is_whole=form is Form.WHOLE,
        host="h1",
        views=(view("db", 2), one),
        guests=tuple(HELD.guests.values()),
    )
    step = take(HELD, line)
    assert (step.place is Place.LOST) is is_lost
    if is_lost:
        assert step.verdict is Verdict.LEAVE
        assert step.knowledge is HELD
        assert not step.change
    elif step.verdict is not Verdict.LEAVE:
        # A relay serves all that it takes, so it confirms nothing else.
        assert step.knowledge.views[one.view_id] == one


def test_events_that_documents_show_alike_are_no_loss() -> None:
    held = replace(HELD, views={"web": replace(view("web", 5), events=(EVENT,))})
    again = replace(view("web", 5), events=(replace(EVENT, operation="other"),))
    line = Line(position=AT, is_whole=True, host="h1", views=(again,))
    step = take(held, line)
    assert step.verdict is Verdict.REPLACE
    assert step.knowledge.views == held.views


def test_every_line_has_a_verdict() -> None:
    wanted = {(form, place) for form in Form for place in Place}
    # Other lines continue nothing, so nothing is missing before them; and one that says
    # that all is the same has no document.
    others = {(Form.WHOLE, Place.GAP), (Form.SAME, Place.GAP), (Form.SAME, Place.LOST)}
    assert VERDICTS.keys() == wanted - others
    for (_, place), verdict in VERDICTS.items():
        if place in {Place.BEHIND, Place.LOST}:
            assert verdict is Verdict.LEAVE


def test_digest_is_that_of_the_last_line_with_content() -> None:
    whole = Line(position=AT, is_whole=True, host="h1", digest="one")
    held = take(Knowledge(), whole).knowledge
    assert held.digest == "one"
    # Such as after five seconds without a change.
    held = take(held, Line(position=replace(AT, number=8), since=7)).knowledge
    assert held.digest == "one"
    change = Line(position=replace(AT, number=9), since=8, views=(view("web"),))
    assert take(held, replace(change, digest="two")).knowledge.digest == "two"
    # A service of the first version sends none.
    assert take(held, change).knowledge.digest == ""


def test_line_that_says_the_same_changes_only_the_position() -> None:
    at = replace(AT, number=1, start="xyz", term=4)
    step = take(replace(HELD, digest="one"), Line(position=at, is_same=True))
    assert step.verdict is Verdict.KEEP
    assert step.knowledge == replace(HELD, digest="one", position=at)
    assert step.change == Publication()
    behind = Line(position=replace(at, term=2), is_same=True)
    assert take(HELD, behind).verdict is Verdict.LEAVE


def test_a_change_replaces_only_what_it_names() -> None:
    line = Line(
        position=replace(AT, number=8),
        since=7,
        views=(view("web", 6),),
        guests=(known("web_1", address="192.0.2.3"),),
        views_gone=("db", "unknown"),
        guests_gone=("db_0", "unknown"),
    )
    step = take(HELD, line)
    assert step.verdict is Verdict.MERGE
    assert set(step.knowledge.guests) == {"web_0", "web_1"}
    assert step.knowledge.views == {"web": view("web", 6)}
    assert step.knowledge.position == line.position
    assert step.change == Publication(
        views=(view("web", 6),),
        views_gone=("db",),
        guests=(known("web_1", address="192.0.2.3").guest,),
        guests_gone=("db_0",),
    )


def test_a_whole_of_another_host_replaces_everything() -> None:
    # A token for another host was installed: nothing of the first one is left.
    line = Line(
        position=replace(AT, number=1, start="xyz"),
        is_whole=True,
        host="h2",
        views=(view("web", 6),),
        guests=(known("web_9", address="192.0.2.9"),),
    )
    step = take(HELD, line)
    assert step.verdict is Verdict.REPLACE
    assert step.knowledge.views == {"web": view("web", 6)}
    assert set(step.change.guests_gone) == {"web_0", "db_0"}


@pytest.mark.parametrize(
    "line",
    [
        Line(position=replace(AT, number=6), since=5, views=(view("web", 9),)),
        Line(position=replace(AT, number=9), since=8, views=(view("web", 9),)),
        Line(position=replace(AT, term=2), is_whole=True, host="h1"),
        Line(position=replace(AT, start="xyz")),
    ],
)
def test_a_line_at_a_wrong_place_changes_nothing(line: Line) -> None:
    step = take(HELD, line)
    assert step.verdict in {Verdict.IGNORE, Verdict.LEAVE}
    assert step.knowledge is HELD
    assert not step.change


def test_the_file_of_a_relay_is_a_whole() -> None:
    back = take(Knowledge(), messages.line_of(messages.text_of(HELD)))
    assert back.knowledge == HELD
    assert knowledge.everything(HELD) == back.change


def test_last_seen_times_are_ages_of_one_vm_of_each_view() -> None:
    ages = knowledge.last_seen(HELD, {"web": 70, "db": 130, "gone": 1}, now=100)
    assert ages == {"web_0": 30, "db_0": 0}


def test_a_relay_is_stale_only_with_a_limit() -> None:
    assert not knowledge.is_stale(silent_for=1e9, stale_max=None)
    assert not knowledge.is_stale(silent_for=60.0, stale_max=60.0)
    assert knowledge.is_stale(silent_for=60.1, stale_max=60.0)


def test_positions_of_one_process_have_an_order() -> None:
    assert position_of(AT.text) == AT
    assert AT.reaches(replace(AT, number=7))
    assert not AT.reaches(replace(AT, number=8))
    assert AT.reaches(replace(AT, number=8, start="xyz"))


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.", "x.2.a", "1.x.a", "-1.2.a"])
def test_a_wrong_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"TERM\.NUMBER\.START"):
        position_of(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"position":7}',
        b'{"position":"1.2.a","whole":true}',
        b'{"position":"1.2.a","since":true}',
        b'{"position":"1.2.a","views":{}}',
        b'{"position":"1.2.a","views":[null]}',
        b'{"position":"1.2.a","guests":[{"vm":"a"}]}',
        b'{"position":"1.2.a","guests_gone":[1]}',
    ],
)
def test_a_wrong_line_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        messages.line_of(text)
