"""An agent whose approvals wait for a lock, and what a test asks of it."""

from __future__ import annotations

from dataclasses import replace

from forewarn.agent.core.model import Memory, NoteKind
from forewarn.agent.core.permits import (
    Lock,
    LockAnswer,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import Approve, LockTerms, Policy, Rule
from forewarn.instants import MINUTE, SECOND, Micros
from tests.unit.agent.core.support import START, Life

TERMS = LockTerms(label="lock web")
AT_ONCE = Rule(name="rule 1", approve=Approve.AT_ONCE)
FREE = Memory(lock=Lock(state=LockState.FREE))
DUE = START + 15 * MINUTE
"""NotBefore of the event."""

TAKEN, REFUSED = LockAnswer.TAKEN, LockAnswer.REFUSED
RELEASED, TROUBLE = LockAnswer.RELEASED, LockAnswer.TROUBLE


def at_once(terms: LockTerms | None = TERMS, **values: object) -> Policy:
    """Return a policy that approves everything with the lock, unprepared."""
    return replace(Policy(rules=(AT_ONCE,), lock=terms), **values)


def life(settings: Policy | None = None, memory: Memory = FREE) -> Life:
    return Life(settings or at_once(), memory=memory)


def state(found: Life) -> LockState:
    return found.memory.lock.state


def told(found: Life) -> list[str]:
    """Return the notes about the lock."""
    return [
        detail
        for kind, detail in found.told(NoteKind.LOCK, NoteKind.FAILED)
        if "lock" in detail or kind is NoteKind.LOCK
    ]


def sleep_refused(found: Life, duration: Micros) -> None:
    """Let time pass in which others have the lock."""
    for _ in range(duration // SECOND):
        found.sleep(SECOND)
        if found.memory.lock.is_asking:
            found.lock_says(REFUSED, detail="vm7 has it")


def take(number: int) -> TakeLock:
    return TakeLock(number=number, holder="vm1")


def release(number: int) -> ReleaseLock:
    return ReleaseLock(number=number, holder="vm1")
