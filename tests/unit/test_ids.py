"""Identifiers."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.ids import RandomIds, place_before, place_in, place_of


@pytest.mark.clause("2.3")
def test_an_event_has_a_guid_in_upper_case() -> None:
    event_ids = {RandomIds(seed).event() for seed in range(100)}
    assert len(event_ids) == 100
    for event_id in event_ids:
        assert re.fullmatch(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", event_id)
        assert uuid.UUID(event_id).version == 4


@pytest.mark.clause("2.3")
def test_ids_are_unique() -> None:
    ids = RandomIds()
    assert len({ids.event() for _ in range(1000)}) == 1000
    assert len({ids.short("op") for _ in range(1000)}) == 1000


@pytest.mark.clause("2.3")
def test_event_ids_of_one_request_are_sorted_and_share_a_prefix() -> None:
    ids = RandomIds(3)
    one, other = ids.events(1000), ids.events(1000)
    for order in (one, other):
        assert order == sorted(set(order))
        assert {uuid.UUID(event_id).version for event_id in order} == {4}
        assert len({event_id[:13] for event_id in order}) == 1
    assert not {event_id[:13] for event_id in one} & {
        event_id[:13] for event_id in other
    }
    typed = ids.shorts("op", 1000, place=place_of(3, 12))
    assert typed == sorted(set(typed))
    assert {place_in(op) for op in typed} == {place_of(3, 12)}


def test_batch_of_one_id_equals_a_single_id() -> None:
    one, other = RandomIds(7), RandomIds(7)
    assert one.events(1) == [other.event()]
    place = place_of(3, 12)
    assert one.shorts("op", 1, place=place) == [other.short("op", place=place)]
    assert one.events(0) == one.shorts("op", 0, place=place) == []


def test_ids_of_one_request_are_unique() -> None:
    class Poor(RandomIds):
        def short(self, prefix: str, *, place: str = "") -> str:
            return f"{prefix}-{place}{next(drawn)}"

    drawn = iter("aabbc")
    new_ids = Poor().shorts("op", 3, place="same")
    assert new_ids == ["op-samea", "op-sameb", "op-samec"]


PLACES = st.tuples(st.integers(0, 10**6 - 1), st.integers(0, 10**12 - 1))


@given(PLACES, PLACES)
def test_ids_sort_like_their_positions(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    ids = RandomIds(1)
    first, second = (ids.short("op", place=place_of(*pair)) for pair in (one, other))
    assert {len(first), len(second)} <= {3 + 16, 3 + 20}
    if one != other:
        assert (first < second) is (one < other)
    for name, place in ((first, one), (second, other)):
        assert place_in(name) == place_of(*place)
        assert len(name) - 3 - len(place_in(name)) >= 6


@given(st.integers(0, 10**6 - 1), st.integers(1, 10**12 - 1))
def test_a_place_before_others_sorts_before_them(term: int, number: int) -> None:
    ids = RandomIds(1)
    name = ids.short("rq", place=place_of(term, number))
    assert place_before(name) == place_of(term, number - 1)
    others = ids.shorts("op", 20, place=place_in(name))
    assert ids.short("op", place=place_before(name)) < min(others)


def test_nothing_sorts_before_the_first_place() -> None:
    assert place_before("rq-4h7k2m9xqa") == place_of(0, 0)


def test_ids_of_common_positions_have_sixteen_characters() -> None:
    ids = RandomIds(1)
    for place in ((1, 1), (32**3 - 1, 32**3 - 1), (31, 32**6 - 1)):
        assert len(ids.short("op", place=place_of(*place))) == 3 + 16
    assert ids.short("op", place=place_of(2, 36)).startswith("op-w2214")


def test_ids_of_an_older_request_sort_first() -> None:
    assert place_in("rq-4h7k2m9xqa") == place_of(0, 0) < place_of(1, 0)


def test_short_id_uses_unambiguous_characters() -> None:
    assert re.fullmatch(r"op-[0-9abcdefghjkmnpqrstvwxyz]{10}", RandomIds().short("op"))


def test_same_seed_gives_the_same_ids() -> None:
    one, other = RandomIds(7), RandomIds(7)
    assert [one.event(), one.short("op")] == [other.event(), other.short("op")]
    assert RandomIds(8).event() != RandomIds(7).event()
