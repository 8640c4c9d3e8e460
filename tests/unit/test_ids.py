"""Identifiers."""

import re
import uuid

import pytest

from forewarn.ids import RandomIds


@pytest.mark.clause("2.3")
def test_an_event_has_a_guid_in_upper_case() -> None:
    found = {RandomIds(seed).event() for seed in range(100)}
    assert len(found) == 100
    for event_id in found:
        assert re.fullmatch(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", event_id)
        assert uuid.UUID(event_id).version == 4


@pytest.mark.clause("2.3")
def test_no_id_comes_twice() -> None:
    ids = RandomIds()
    assert len({ids.event() for _ in range(1000)}) == 1000
    assert len({ids.short("op") for _ in range(1000)}) == 1000


@pytest.mark.clause("2.3")
def test_ids_of_one_order_are_sorted_and_lie_together() -> None:
    ids = RandomIds(3)
    one, other = ids.events(1000), ids.events(1000)
    for order in (one, other):
        assert order == sorted(set(order))
        assert {uuid.UUID(event_id).version for event_id in order} == {4}
        assert len({event_id[:13] for event_id in order}) == 1
    assert not {event_id[:13] for event_id in one} & {each[:13] for each in other}
    typed = ids.shorts("op", 1000)
    assert typed == sorted(set(typed))
    assert len({op[:7] for op in typed}) == 1


def test_an_order_of_one_draws_as_if_it_were_alone() -> None:
    one, other = RandomIds(7), RandomIds(7)
    assert one.events(1) == [other.event()]
    assert one.shorts("op", 1) == [other.short("op")]
    assert one.events(0) == one.shorts("op", 0) == []


def test_none_of_an_order_is_drawn_twice() -> None:
    class Poor(RandomIds):
        def short(self, prefix: str) -> str:
            return f"{prefix}-same{next(drawn)}"

    drawn = iter("aabbc")
    assert Poor().shorts("op", 3) == ["op-samea", "op-sameb", "op-samec"]


def test_a_short_id_can_be_typed() -> None:
    assert re.fullmatch(r"op-[0-9abcdefghjkmnpqrstvwxyz]{10}", RandomIds().short("op"))


def test_a_seed_replays() -> None:
    one, other = RandomIds(7), RandomIds(7)
    assert [one.event(), one.short("op")] == [other.event(), other.short("op")]
    assert RandomIds(8).event() != RandomIds(7).event()
