"""The lock that limits approvals: when to take it and when to release it.

It is taken when an event is ready to be approved. It is released a pause after all
events that were approved under it have ended. Each request is stored before it is sent.
Only one request is sent at a time, so that each answer belongs to one state. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from forewarn.agent.core import rules, table
from forewarn.agent.core.model import (
    Change,
    Command,
    Consent,
    Memory,
    Note,
    NoteKind,
    Stage,
    Task,
    note_of,
)
from forewarn.agent.core.permits import (
    NO_LOCK,
    Lock,
    LockAnswer,
    LockResponse,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import LockTerms, Policy, Rule
from forewarn.agent.core.table import LockInput
from forewarn.instants import MINUTE, SECOND, Micros, describe_duration

RETRY_FIRST: Micros = SECOND
RETRY_MAX: Micros = 30 * SECOND
"""Maximum pause between attempts to take the lock; it doubles from RETRY_FIRST. A
thousand waiting VMs send 33 requests per second."""

RETRY_SHARE = 10
"""Divisor of the time until the deadline: a pause is at most this part of it, so that
several requests remain."""

RELEASE_RETRY_MAX: Micros = MINUTE
"""Maximum pause between attempts to release the lock. They are repeated without limit,
since other VMs wait."""

RENEWALS = 3
"""Confirmations within the time after which the lock expires: two may fail."""

SPREAD = 5
"""Divisor of a pause: up to this part of it is left out, depending on the ID and the
number of the request. VMs that start together therefore do not ask together."""

ANSWER_GRACE: Micros = 30 * SECOND
"""Time after the timeout of a request until its answer counts as lost. On a busy
machine, the thread of the request may have to wait."""

LATE_FOR: Micros = MINUTE
"""How long a server may still carry out an unanswered request. After an unanswered
request to take the lock, it is released once more after this time. After an unanswered
release, it is not taken before this time."""


def is_wanted(task: Task, rule: Rule, policy: Policy) -> bool:
    """Return whether an event may be approved only with the lock.

    After a Preempt or a Terminate, no agent remains to release it.
    """
    return (
        policy.lock is not None
        and rule.lock
        and task.notice.event_type not in rules.UNSAFE_UNPREPARED
    )


def deadline(task: Task, terms: LockTerms) -> Micros | None:
    """Return how long to wait for the lock; None: without limit."""
    not_before = task.notice.not_before
    return None if not_before is None else not_before - terms.margin


# Inputs


def absorb(
    memory: Memory, answer: LockResponse, now: Micros
) -> tuple[Memory, list[Note]]:
    """Return the memory after an answer, and the notes about it."""
    lock = memory.lock
    if not lock.is_asking or answer.number != lock.number:
        return memory, []
    lock = replace(
        lock, is_asking=False, answered=now, last=answer.answer, rest_until=0
    )
    lock, notes = _ABSORBERS[answer.answer](memory, lock, answer, now)
    return replace(memory, lock=lock), notes


def _taken(
    memory: Memory, lock: Lock, answer: LockResponse, now: Micros
) -> tuple[Lock, list[Note]]:
    is_new = lock.state is LockState.WANTED
    waited = describe_duration(now - lock.since)
    lock = replace(
        _moved(lock, LockInput.TAKEN, now),
        until=answer.until,
        tries=0,
        refusal="",
        trouble="",
    )
    detail = f"taken after {waited}: {lock.label}"
    return lock, [_note(memory, now, detail)] if is_new else []


def _refused(
    memory: Memory, lock: Lock, answer: LockResponse, now: Micros
) -> tuple[Lock, list[Note]]:
    before = lock
    lock = replace(
        _moved(lock, LockInput.REFUSED, now),
        tries=lock.tries + 1,
        refusal=answer.detail or "other VMs hold it",
        trouble="",
    )
    if before.state is LockState.WANTED:
        waits = _note(memory, now, f"waits for the {lock.label}: {lock.refusal}")
        return lock, [] if before.refusal else [waits]
    if before.state is LockState.RELEASING:
        return lock, []
    detail = f"the {lock.label} was lost: {lock.refusal}"
    return lock, [_note(memory, now, detail, NoteKind.FAILED)]


def _released(
    memory: Memory, lock: Lock, _said: LockResponse, now: Micros
) -> tuple[Lock, list[Note]]:
    if lock.state is LockState.RELEASING and _is_late(lock.take_late, now):
        return replace(lock, rest_until=lock.take_late, tries=0, trouble=""), []
    had = bool(lock.holder)
    lock = replace(_moved(lock, LockInput.RELEASED, now), tries=0, trouble="")
    is_told = had and lock.state is LockState.FREE
    return lock, [_note(memory, now, f"released: {lock.label}")] if is_told else []


def _in_trouble(
    memory: Memory, lock: Lock, answer: LockResponse, now: Micros
) -> tuple[Lock, list[Note]]:
    before = lock
    lock = replace(
        _moved(lock, LockInput.TROUBLE, now),
        tries=lock.tries + 1,
        trouble=answer.detail or "no usable answer",
        has_complained=True,
        **_late(lock, now),
    )
    if before.has_complained:
        return lock, []
    doing = "released" if lock.state is LockState.RELEASING else "taken"
    detail = f"the {lock.label} cannot be {doing}: {lock.trouble}"
    return lock, [_note(memory, now, detail, NoteKind.FAILED)]


_ABSORBERS: Mapping[
    LockAnswer, Callable[[Memory, Lock, LockResponse, Micros], tuple[Lock, list[Note]]]
] = {
    LockAnswer.TAKEN: _taken,
    LockAnswer.REFUSED: _refused,
    LockAnswer.RELEASED: _released,
    LockAnswer.TROUBLE: _in_trouble,
}


def _late(lock: Lock, now: Micros) -> dict[str, Micros]:
    """Return until when the last unanswered request may still be carried out."""
    return {"release_late" if lock.is_release else "take_late": now + LATE_FOR}


def _is_late(late: Micros, now: Micros) -> bool:
    # If the clock was set back, the time must not become longer.
    return now < late <= now + LATE_FOR


def resumed(lock: Lock, now: Micros) -> Lock:
    """Return the lock after a start of the agent, without a request in progress.

    The result of the last request is unknown, and the lock may have been lost.
    """
    if lock == NO_LOCK:
        return lock
    late = _late(lock, now) if lock.is_asking else {}
    lock = replace(lock, is_asking=False, answered=0, rest_until=0, tries=0, **late)
    return replace(lock, since=0) if lock.state is LockState.UNKNOWN else lock


# Decisions


def refresh(memory: Memory, policy: Policy, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory with the lock as it is by time and by the settings.

    No event may be approved under a lock that has expired, or under another one.
    """
    terms, lock = policy.lock, memory.lock
    if terms is None or policy.is_observer:
        return memory, []
    if lock.label and lock.label != terms.label:
        return _other(memory, terms, now)
    notes: list[Note] = []
    patience = terms.timeout + ANSWER_GRACE
    if lock.is_asking and not lock.asked <= now < lock.asked + patience:
        answer = LockResponse(
            number=lock.number,
            answer=LockAnswer.TROUBLE,
            detail=f"no answer for {describe_duration(patience)}",
        )
        memory, notes = absorb(memory, answer, now)
        lock = memory.lock
    # If the clock was set back, the lock must not last longer.
    if (
        lock.state in {LockState.HELD, LockState.PAUSING}
        and lock.until
        and not now < lock.until <= now + terms.ttl
    ):
        ttl = describe_duration(terms.ttl)
        detail = f"the {lock.label} was not confirmed for {ttl}: it may be lost"
        notes.append(_note(memory, now, detail, NoteKind.FAILED))
        memory = replace(memory, lock=_moved(lock, LockInput.EXPIRE, now))
    return memory, notes


def _other(memory: Memory, terms: LockTerms, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory after the settings changed to another lock."""
    lock = memory.lock
    notes: list[Note] = []
    if lock.holder:
        detail = (
            f"the settings now name the {terms.label}; {lock.holder} may "
            f"still hold the {lock.label}, which is not released now"
        )
        notes.append(_note(memory, now, detail, NoteKind.FAILED))
    state = table.lock_step(lock.state, LockInput.MOVE)
    fresh = Lock(state=state, label=terms.label, number=lock.number)
    return replace(memory, lock=fresh), notes


def advance(memory: Memory, policy: Policy, now: Micros) -> Change:
    """Return the requests to send now, after the events were decided."""
    terms = policy.lock
    holder = (terms.holder if terms else "") or memory.name
    if terms is None or policy.is_observer or not holder:
        return Change(memory=memory)
    lock = memory.lock
    needing = _needing(memory)
    if needing:
        if lock.state in _NOT_NEEDED:
            lock = _moved(lock, LockInput.NEED, now)
        if not lock.holder:
            lock = replace(lock, holder=holder)
    elif lock.state is LockState.UNKNOWN:
        lock = _quiet(memory, policy.gone_after.started, now)
    elif lock.state in _NEEDED:
        lock = _moved(lock, LockInput.SPARE, now)
        if lock.state is LockState.PAUSING and _is_unused(memory, terms, now):
            lock = _moved(lock, LockInput.DUE, now)
    if (
        lock.state is LockState.PAUSING
        and not lock.since <= now < lock.since + terms.pause
    ):
        lock = _moved(lock, LockInput.DUE, now)
    commands: tuple[Command, ...] = ()
    due = _due(lock, needing, terms, now)
    if due is not None and due <= now:
        lock = replace(
            lock,
            label=terms.label,
            number=lock.number + 1,
            is_asking=True,
            is_release=lock.state is LockState.RELEASING,
            asked=now,
        )
        kind = ReleaseLock if lock.is_release else TakeLock
        commands = (kind(number=lock.number, holder=lock.holder or holder),)
    return Change(
        memory=memory if lock == memory.lock else replace(memory, lock=lock),
        commands=commands,
        wake=_wake(lock, needing, terms, policy.gone_after.started, now),
    )


_NOT_NEEDED = frozenset(
    {LockState.UNKNOWN, LockState.FREE, LockState.PAUSING, LockState.RELEASING}
)
_NEEDED = frozenset({LockState.WANTED, LockState.HELD})


def _needing(memory: Memory) -> list[Task]:
    return [
        task
        for task in memory.tasks
        if task.needs_lock and task.stage is not Stage.FINISHED
    ]


def _is_unused(memory: Memory, terms: LockTerms, now: Micros) -> bool:
    """Return whether the events that needed the lock were not approved.

    In that case there is no recovery, so the lock is released without a pause.
    """
    is_loose = any(
        task.is_live and task.consent is Consent.NONE and not task.notice.has_started
        for task in memory.tasks
    )
    return is_loose and not any(
        task.needs_lock
        and task.stage is Stage.FINISHED
        and now < task.over + terms.pause
        for task in memory.tasks
    )


def _quiet(memory: Memory, long: Micros, now: Micros) -> Lock:
    """Return the lock that an earlier agent of this VM may still hold.

    The lock is released after a quiet time. The quiet time does not begin during an
    event, or during the recovery after a lost journal, when an event may not be listed
    yet.
    """
    lock = memory.lock
    is_quiet = (
        memory.has_polled
        and not memory.lost_journal
        and not any(
            task.mine
            and (
                task.stage is Stage.RECOVERING
                or (task.is_live and task.notice.has_started)
            )
            for task in memory.tasks
        )
    )
    if not is_quiet:
        return replace(lock, since=0)
    # If the clock was set back, the time starts again.
    if not 0 < lock.since <= now:
        lock = replace(lock, since=now)
    return lock if now < lock.since + long else _moved(lock, LockInput.SPARE, now)


def _due(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, now: Micros
) -> Micros | None:
    """Return when the next request is due, `now` at the earliest; None: no request."""
    if lock.is_asking or lock.state in {LockState.UNKNOWN, LockState.FREE}:
        return None
    if lock.state in {LockState.HELD, LockState.PAUSING} and not lock.tries:
        if not lock.answered:
            # The lock was held when the agent started, and must be confirmed.
            return now
        if not terms.ttl:
            return None
        pause = terms.ttl // RENEWALS
    elif lock.rest_until:
        pause = max(lock.rest_until - lock.answered, 0)
    elif lock.state is LockState.WANTED and _is_late(lock.release_late, now):
        return lock.release_late
    else:
        pause = _pause(lock, needing, terms, now)
    due = lock.answered + pause
    # If the clock was set back, the pause must not become longer.
    return due if lock.answered <= now < due else now


def _pause(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, now: Micros
) -> Micros:
    """Return the pause after a failed request."""
    if not lock.tries:
        return 0
    pause_max = RETRY_MAX if needing else RELEASE_RETRY_MAX
    if lock.state in {LockState.HELD, LockState.PAUSING} and terms.ttl:
        pause_max = min(pause_max, terms.ttl // (RENEWALS * RETRY_SHARE))
    ends = [
        end
        for task in needing
        if task.consent is Consent.NONE
        and (end := deadline(task, terms)) is not None
        and end > now
    ]
    if ends:
        pause_max = min(pause_max, (min(ends) - now) // RETRY_SHARE)
    doubled = RETRY_FIRST << min(lock.tries - 1, RELEASE_RETRY_MAX.bit_length())
    pause = max(min(doubled, pause_max), RETRY_FIRST)
    chance = zlib.crc32(f"{lock.holder}.{lock.number}".encode("utf-8", "replace"))
    return pause - pause * (chance % 256) // (256 * SPREAD)


def _wake(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, long: Micros, now: Micros
) -> Micros | None:
    """Return when to check the lock again without any input."""
    is_quiet = lock.state is LockState.UNKNOWN and lock.since
    has_lock = lock.state in {LockState.HELD, LockState.PAUSING}
    wakes = (
        _due(lock, needing, terms, now),
        lock.since + long if is_quiet else None,
        lock.asked + terms.timeout + ANSWER_GRACE if lock.is_asking else None,
        lock.until if has_lock and lock.until else None,
        lock.since + terms.pause if lock.state is LockState.PAUSING else None,
    )
    return min((wake for wake in wakes if wake is not None), default=None)


def problems(memory: Memory, policy: Policy) -> list[str]:
    """Return the problems of the lock, one sentence each."""
    lock = memory.lock
    if lock.holder and policy.lock is None:
        return [
            (
                f"{lock.holder} may still hold the {lock.label}, and the settings have "
                "no table [lock]: restore it, or release the lock by hand"
            )
        ]
    if lock.trouble and policy.lock is not None:
        return [f"the {lock.label} gives no usable answer: {lock.trouble}"]
    return []


# Changes of state, and notes


def _moved(lock: Lock, event: LockInput, now: Micros) -> Lock:
    state = table.lock_step(lock.state, event)
    if state is lock.state:
        return lock
    lock = replace(
        lock, state=state, since=now, tries=0, rest_until=0, has_complained=False
    )
    if state is LockState.WANTED:
        return replace(lock, until=0, refusal="")
    if state is LockState.FREE:
        return replace(lock, until=0, refusal="", holder="")
    return lock


def _note(
    memory: Memory, now: Micros, detail: str, kind: NoteKind = NoteKind.LOCK
) -> Note:
    """Return a note about the first event that needs the lock, if any."""
    task = next(iter(_needing(memory)), None)
    about = NoteKind.LOCK.value if kind is NoteKind.FAILED else ""
    return note_of(task, kind, now, detail, about=about)
