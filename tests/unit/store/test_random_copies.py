"""Any content of a store is the same after copies in all directions."""

import itertools
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.store.copy import copy
from forewarn.store.kinds import EVERYTHING
from forewarn.store.port import Record, every
from forewarn.store.snapshot import Source, reading
from forewarn.store.sqlite import SqliteStore
from tests.contract.store.test_questions import records_of
from tests.support import postgres
from tests.support.profiles import amounts

Content = dict[type[Record], dict[str, Record]]
"""The records of each kind, by their keys."""


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """Draw a few records of each kind, with all values that their fields can have."""
    return {
        kind: {
            record.key: record
            for record in draw(st.lists(records_of(kind), max_size=2))
        }
        for kind in EVERYTHING
    }


def content_of(place: Source) -> Content:
    with reading(place) as reader:
        return {
            kind: {record.key: record for record in every(reader, query)}
            for kind, query in EVERYTHING.items()
        }


def written(content: Content, file: Path) -> Content:
    """Write a content to a new file; return it as it is read there."""
    with closing(SqliteStore(file)) as store:
        for records in content.values():
            store.transact(lambda tx, all_of=records: [*map(tx.add, all_of.values())])
    return content_of(file)


@postgres.needing_postgres
@pytest.mark.amounts
@pytest.mark.slow
@settings(max_examples=amounts().store_examples // 2)
@given(content=contents())
def test_random_content_survives_copies_in_all_directions(content: Content) -> None:
    with tempfile.TemporaryDirectory() as name, postgres.lent_databases() as lend:
        directory = Path(name)
        places: list[Source] = [
            *(directory / "first.db", lend(), lend()),
            *(directory / "back.db", directory / "again.db"),
        ]
        before = written(content, directory / "first.db")
        assert {kind: [*found] for kind, found in before.items()} == {
            kind: sorted(found) for kind, found in content.items()
        }
        for source, target in itertools.pairwise(places):
            copy(source, target)
            assert content_of(target) == before
