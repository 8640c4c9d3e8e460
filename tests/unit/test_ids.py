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


def test_a_short_id_can_be_typed() -> None:
    assert re.fullmatch(r"op-[0-9abcdefghjkmnpqrstvwxyz]{10}", RandomIds().short("op"))


def test_a_seed_replays() -> None:
    one, other = RandomIds(7), RandomIds(7)
    assert [one.event(), one.short("op")] == [other.event(), other.short("op")]
    assert RandomIds(8).event() != RandomIds(7).event()
