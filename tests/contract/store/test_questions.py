"""Every question of `kinds`, for the store and for a plain dictionary.

The dictionary's answer is what the functions of the catalogue say; a store may
find its answer as it likes.
"""

import dataclasses
import enum
import itertools
import typing
from collections.abc import Callable, Mapping
from types import EllipsisType, NoneType
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.fleet.model import Cordon, Host
from forewarn.instants import Micros
from forewarn.protocol import actors
from forewarn.store import kinds
from forewarn.store.kinds import KINDS
from forewarn.store.port import Reader, Store, Transaction, every
from forewarn.store.queries import LATEST
from forewarn.store.questions import Query, Range, Ranking, Record
from forewarn.store.records import AuditEntry
from tests.support.hand_transactions import begin
from tests.support.profiles import amounts

Model: TypeAlias = dict[str, Record]
Step: TypeAlias = tuple[bool, Record]

CATALOGUE = list(vars(kinds).values())
QUERIES: list[Query[Any]] = [item for item in CATALOGUE if isinstance(item, Query)]
RANKINGS: list[Ranking[Any]] = [item for item in CATALOGUE if isinstance(item, Ranking)]
RANGES: list[Range[Any]] = [item for item in CATALOGUE if isinstance(item, Range)]

# Few, so that they meet; in their order by code point, which is not that of
# UTF-16, of any language, nor of upper and lower case as one.
KEYS = ("-1", "0", "B", "a", "a b", "b", "é", "ﬁ", "😀")
WORDS = ("", "a", "b", "h 'quoted\"", "😀")
NUMBERS = (0, 1, 2, 3, 2**53 + 1)
UNTIL = (-1, 0, 1, 2, 2**53, 2**60)
FAR_DOWN = "￿"

PAGES = (1, 3, 499, 500, 1001)
"""Records of one page: fewer than the store reads at once, as many, and more."""


def strategy_for(hint: Any) -> st.SearchStrategy[Any]:
    """Return values for a field of this type."""
    plain: Mapping[Any, st.SearchStrategy[Any]] = {
        str: st.sampled_from(WORDS),
        int: st.sampled_from(NUMBERS),
        bool: st.booleans(),
        NoneType: st.none(),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, enum.EnumType):
        return st.sampled_from(list[Any](hint))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return st.builds(hint, **fields_of(hint))
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple:
        return st.one_of(*map(strategy_for, parts))
    if isinstance(parts[-1], EllipsisType):
        return st.lists(strategy_for(parts[0]), max_size=3).map(tuple)
    return st.tuples(*map(strategy_for, parts))


def fields_of(kind: Any) -> dict[str, st.SearchStrategy[Any]]:
    hints = typing.get_type_hints(kind)
    return {
        field.name: strategy_for(hints[field.name])
        for field in dataclasses.fields(kind)
    }


def records_of(kind: Any) -> st.SearchStrategy[Record]:
    """Return new records with every value that their fields can have."""
    key = dataclasses.fields(kind)[0].name
    own: dict[str, Any] = {key: st.sampled_from(KEYS), "revision": st.just(0)}
    if kind is AuditEntry:
        # An entry about an operation is found through it: `test_records` has one.
        own["operation"] = st.just("")
    return st.builds(kind, **(fields_of(kind) | own))


def apply(tx: Transaction, model: Model, step: Step) -> None:
    """Put or remove a record, in the store and in the model."""
    is_put, record = step
    old = model.get(record.key)
    if is_put and old is None:
        model[record.key] = tx.add(record)
    elif is_put and old is not None:
        model[record.key] = tx.replace(old, record)
    elif old is not None:
        tx.remove(model.pop(record.key))


def check_ranking(reader: Reader, ranking: Ranking[Any], model: Model) -> None:
    places: dict[str, list[tuple[int, str]]] = {value: [] for value in WORDS}
    for key, record in model.items():
        for value, rank in set(ranking.places(record)):
            places.setdefault(value, []).append((rank, key))
    for value, found in places.items():
        lowest = [model[key] for _, key in sorted(found)]
        assert reader.ranked(ranking, value, lowest=True) == lowest
        assert reader.ranked(ranking, value) == lowest[::-1]
        assert reader.ranked(ranking, value, limit=1) == lowest[::-1][:1]
        assert reader.ranked(ranking, value, limit=2, lowest=True) == lowest[:2]
        for above in {rank for rank, _ in found} | {0}:
            beyond = [model[key] for rank, key in sorted(found) if rank > above]
            assert reader.ranked(ranking, value, lowest=True, above=above) == beyond


def check(reader: Reader, kind: type[Record], model: Model) -> None:
    """Ask every question about `kind` in every way."""
    for key in KEYS:
        assert reader.get(kind, key) == model.get(key)
    for query in QUERIES:
        if query.kind is kind:
            check_query(reader, query, model)
    for over in RANGES:
        if over.kind is kind:
            check_range(reader, over, model)
    if kind is AuditEntry:
        check_audit_keys(reader, model)

    for ranking in RANKINGS:
        if ranking.kind is kind:
            check_ranking(reader, ranking, model)


def check_query(reader: Reader, query: Query[Any], model: Model) -> None:
    expected: dict[str, list[Record]] = {value: [] for value in (*WORDS, "Announced")}
    for key in sorted(model):
        for value in set(query.values(model[key])):
            expected.setdefault(value, []).append(model[key])
    for value, records in expected.items():
        assert reader.select(query, value) == records
        assert list(every(reader, query, value, page=2)) == records
        behind = [record for record in records if record.key > "a"]
        assert reader.select(query, value, after="a", limit=1) == behind[:1]
        assert reader.select(query, value, after=FAR_DOWN) == [
            record for record in records if record.key > FAR_DOWN
        ]
        if query.name in LATEST:
            check_latest(reader, query, value, records)


def check_latest(
    reader: Reader, query: Query[Any], value: str, records: list[Record]
) -> None:
    assert reader.latest(query, value) == records[::-1]
    assert reader.latest(query, value, limit=2) == records[::-1][:2]
    for key in KEYS:
        before = [record for record in records[::-1] if record.key < key]
        assert reader.latest(query, value, before=key) == before


def check_range(reader: Reader, over: Range[Any], model: Model) -> None:
    places: list[tuple[Micros, str]] = sorted(
        (over.instant(record), key)
        for key, record in model.items()
        if over.instant(record)
    )
    assert reader.earliest(over) == (places[0][0] if places else None)
    for until in UNTIL:
        records = [model[key] for instant, key in places if instant <= until]
        assert reader.due(over, until) == records
        assert reader.due(over, until, limit=2) == records[:2]


def check_audit_keys(reader: Reader, model: Model) -> None:
    """Ask for the bounds of every period."""
    for first, end in itertools.combinations(UNTIL, 2):
        keys = [
            key
            for key, record in model.items()
            if isinstance(record, AuditEntry) and record.at and first <= record.at < end
        ]
        bounds = reader.audit_keys(first, end)
        if not keys:
            assert bounds is None
        else:
            assert bounds is not None
            assert all(bounds[0] < key <= bounds[1] for key in keys)
            assert bounds[1] == max(keys)


def run(store: Store, kind: type[Record], transactions: list[list[Step]]) -> None:
    """Run transactions, every third in vain, and check what is seen meanwhile."""
    committed: Model = {}
    for number, steps in enumerate(transactions):
        model = dict(committed)
        transaction = begin(store)
        for step in steps:
            apply(transaction, model, step)
        check(transaction, kind, model)
        if number % 3 == 1:
            transaction.rollback()
        else:
            transaction.commit()
            committed = model
        store.read(lambda reader, model=committed: check(reader, kind, model))


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_answers_like_a_dictionary(
    new_store: Callable[[], Store], kind: type[Record]
) -> None:
    steps = st.lists(st.tuples(st.integers(0, 3).map(bool), records_of(kind)))

    # A store that was made for one example is not used for another.
    @settings(
        max_examples=amounts().store_examples,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(transactions=st.lists(steps, min_size=1, max_size=4))
    def compare(transactions: list[list[Step]]) -> None:
        store = new_store()
        run(store, kind, transactions)
        store.close()

    compare()


def check_pages(reader: Reader, hosts: list[Host]) -> None:
    """Read the hosts by each query of hosts, in pages of any size."""
    for query in (query for query in QUERIES if query.kind is Host):
        [value] = query.values(hosts[0])
        for page in PAGES:
            records = list(every(reader, query, value, page=page))
            assert records == hosts, (query.name, page)


def test_pages_of_any_size_join_without_a_gap(store: Store) -> None:
    # Each query of hosts finds one that is cordoned, in a rack, and the drift of a campaign.
    cordon = Cordon(by=actors.operator("alice"), reason="", at=1)
    hosts = [
        Host(name=f"h{number:04}", rack="r7", cordons=(cordon,), drift_of="ca-1")
        for number in range(1000)
    ]

    def add(tx: Transaction, some: list[Host], expected: list[Host]) -> None:
        for host in some:
            tx.add(host)
        # In the second transaction, some are its own and some were there before.
        check_pages(tx, expected)

    store.transact(lambda tx: add(tx, hosts[::2], hosts[::2]))
    store.transact(lambda tx: add(tx, hosts[1::2], hosts))
    store.read(lambda reader: check_pages(reader, hosts))
    for query in (query for query in QUERIES if query.kind is Host):
        [value] = query.values(hosts[0])
        assert store.read(lambda r, q=query, v=value: len(r.select(q, v))) == 500


def test_queries_cover_known_kinds_only() -> None:
    kinds_asked = {item.kind for item in itertools.chain(QUERIES, RANGES)}
    assert kinds_asked <= set(KINDS)
