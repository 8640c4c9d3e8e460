"""The history and the outbox of every test of `control` pass `store check`."""

from collections.abc import Iterator

import pytest

from forewarn.store import memory
from forewarn.store.check import WRONG
from forewarn.store.contents import Contents
from forewarn.store.records import AuditEntry, OutboxMessage

TERM_MAX = 10**6
"""Tests that restart a service do not say in which term it is."""


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
        for kind in (AuditEntry, OutboxMessage)
        for record in state.tables[kind].every()
        if (violation := WRONG[kind](record, contents))
    ]
    assert violations == []
