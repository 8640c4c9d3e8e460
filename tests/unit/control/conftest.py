"""The history and the outbox of every test of `control` pass `store check`."""

from collections.abc import Iterator

import pytest

from forewarn.store import kinds, memory
from forewarn.store.check import WRONG
from forewarn.store.contents import Contents
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, OutboxMessage

TERM_MAX = 10**6
"""Tests that restart a service do not say in which term it is."""


def written(reader: Reader) -> list[AuditEntry | OutboxMessage]:
    """Return all entries of the history and all messages."""
    return [*every(reader, kinds.ALL_AUDIT), *every(reader, kinds.ALL_OUTBOX)]


@pytest.fixture(autouse=True)
def checked_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check the entries and messages in all stores of a test, when it ends."""
    states: list[memory.State] = []
    begin = memory.State.__init__

    def remember(state: memory.State) -> None:
        begin(state)
        states.append(state)

    monkeypatch.setattr(memory.State, "__init__", remember)
    yield
    contents = Contents()
    contents.term = TERM_MAX
    violations = [
        violation
        for state in states
        if not state.is_closed
        for record in state.read(written)
        if (violation := WRONG[type(record)](record, contents))
    ]
    assert violations == []
