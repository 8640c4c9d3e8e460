"""A remembering reader answers as its reader does, and asks it each question once."""

from collections import Counter
from collections.abc import Callable

import pytest

from forewarn.fleet.model import Host, Scope
from forewarn.store import kinds, remembered
from forewarn.store.port import Reader, every
from forewarn.store.remembered import Remembered
from tests.support.counted import Counted
from tests.support.rollouts import world_of
from tests.support.worlds import World

HOSTS = 12


def ask_everything(reader: Reader) -> list[object]:
    return [
        reader.get(Host, "h0001"),
        reader.get(Host, "unknown"),
        reader.get(Scope, "a"),
        list(every(reader, kinds.ALL_HOSTS, page=5)),
        reader.select(kinds.VMS_ON_HOST, "h0002"),
        reader.ranked(kinds.ROOMS_OPEN, "", limit=3),
        reader.ranked(kinds.ROOMS_WITH_SPACE, "", limit=3, lowest=True),
        reader.due(kinds.OPERATIONS_DUE, 1),
        reader.earliest(kinds.OPERATIONS_DUE),
        reader.audit_keys(0, 1),
    ]


def world() -> World:
    return world_of([{"a": 0}] * HOSTS)


def counted(ask: Callable[[Reader], object]) -> Counter[str]:
    rows: Counter[str] = Counter()
    world().read(lambda reader: ask(Remembered(Counted(reader, rows).reader)))
    return rows


def test_answers_are_those_of_the_reader() -> None:
    def both(reader: Reader) -> None:
        wrapped = Remembered(reader)
        assert ask_everything(wrapped) == ask_everything(reader)
        assert ask_everything(wrapped) == ask_everything(reader)

    world().read(both)


def test_second_question_reads_nothing() -> None:
    once = counted(ask_everything)
    twice = counted(lambda reader: [ask_everything(reader), ask_everything(reader)])
    for rows in (once, twice):
        # Timers are asked each time: no report asks for them twice.
        del rows["operations_due"]
    assert once == twice


def test_changed_page_does_not_change_what_is_remembered() -> None:
    def ask(reader: Reader) -> None:
        wrapped = Remembered(reader)
        first = wrapped.select(kinds.ALL_HOSTS)
        first.clear()
        second = wrapped.select(kinds.ALL_HOSTS)
        second.clear()
        assert len(wrapped.select(kinds.ALL_HOSTS)) == HOSTS

    world().read(ask)


def test_rows_beyond_the_maximum_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED_ROWS_MAX", HOSTS)

    def ask(reader: Reader) -> None:
        assert len(reader.select(kinds.ALL_HOSTS)) == HOSTS
        assert len(reader.select(kinds.ALL_HOSTS)) == HOSTS

    assert counted(ask)["all_hosts"] == 2 * (HOSTS + 1)
