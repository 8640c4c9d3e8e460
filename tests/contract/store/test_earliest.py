"""The earliest instants that the writer keeps equal the answer to a new query."""

import random
from dataclasses import replace

import pytest

from forewarn.instants import Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.views import View, ViewState
from forewarn.store import earliest, kinds
from forewarn.store.port import Reader, Store, Transaction, latest
from forewarn.store.questions import Range
from forewarn.store.records import AuditEntry, AuditKind
from tests.unit.store.test_cache import Looked

STEPS = 300
KEYS = [f"web/vm_{number}" for number in range(4)]

RANGES: tuple[Range[View], ...] = (kinds.VIEWS_DUE, kinds.VIEWS_SEEN)


def answers(reader: Reader) -> list[object]:
    all_answers: list[object] = [reader.earliest(over) for over in RANGES]
    all_answers += [reader.due(over, until) for over in RANGES for until in (0, 3, 9)]
    return [*all_answers, reader.earliest(kinds.AUDIT_AT)]


def entry(number: int, at: Micros) -> AuditEntry:
    return AuditEntry(
        entry_id=f"a{number}",
        at=at,
        actor=operator("test"),
        kind=AuditKind.FLEET_APPLIED,
        why="",
        subjects=(),
    )


def change(tx: Transaction, chance: random.Random, step: int) -> None:
    """Write, remove or add a view, or an entry; ask in between, or not."""
    key = chance.choice(KEYS)
    old = tx.get(View, key)
    new = View(
        view_id=key,
        scope="web",
        enabling="web",
        state=chance.choice(list(ViewState)),
        due_at=chance.choice([0, 2, 5]),
        last_seen=chance.choice([0, 1, 7]),
    )
    if old is None:
        tx.add(new)
    elif chance.random() < 0.3:
        tx.remove(old)
    else:
        tx.replace(old, replace(new, revision=old.revision))
    if chance.random() < 0.2:
        tx.add(entry(step, chance.choice([4, 6, 8])))
    if chance.random() < 0.5:
        answers(tx)


@pytest.mark.parametrize("seed", range(3))
def test_answers_after_each_commit_are_those_of_a_new_reader(
    store: Store, seed: int
) -> None:
    chance = random.Random(seed)
    for step in range(STEPS):

        def work(tx: Transaction, step: int = step) -> None:
            for number in range(chance.choice([1, 3])):
                change(tx, chance, 10 * step + number)

        store.transact(work)
        if chance.random() < 0.7:
            assert latest(store, answers) == store.read(answers)


def test_instants_of_views_depend_only_on_the_named_fields() -> None:
    looked = Looked(View(view_id=KEYS[0], scope="web", enabling="web", last_seen=1))
    for over in RANGES:
        over.instant(looked)  # pyright: ignore[reportArgumentType]
    assert looked.fields <= set(earliest.VIEW_FIELDS)
