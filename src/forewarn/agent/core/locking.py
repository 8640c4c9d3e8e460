"""The lock that limits approvals: when to ask for it, and when to give it back.

It is taken when an event is ready to be approved, and given back when every event that
was approved under it is over, a pause later. Each request is in the memory before it is
made. One request is made at a time, so that answers belong to states. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

from forewarn.agent.core import rules, table
from forewarn.agent.core.lock import (
    NO_LOCK,
    Lock,
    LockAnswer,
    LockSaid,
    LockState,
    ReleaseLock,
    TakeLock,
)
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
from forewarn.agent.core.policy import LockTerms, Policy, Rule
from forewarn.agent.core.table import LockGiven
from forewarn.instants import MINUTE, SECOND, Micros, describe_duration

RETRY_FIRST: Micros = SECOND
RETRY_MOST: Micros = 30 * SECOND
"""The pause before the lock is asked for again doubles from one to the other. A fleet
of a thousand VMs that waits makes 33 requests a second."""

RETRY_SHARE = 10
"""The pause is at most one part in so many of what is left until the deadline, so that
several requests are still to come."""

RELEASE_RETRY_MOST: Micros = MINUTE
"""The same for giving it back, which is tried for ever: others wait for it."""

RENEWALS = 3
"""Requests to confirm it within the time after which it would expire: two may fail."""

SPREAD = 5
"""Up to one part in so many of a pause is left out, by the ID and the number of the
request, so that VMs which began together do not ask together."""

ANSWER_GRACE: Micros = 30 * SECOND
"""Beyond the time for a request, before its answer counts as lost: the thread that
makes it may have to wait for the machine."""

LATE_FOR: Micros = MINUTE
"""How long a server may still carry out a request to which it gave no answer. Where it
was for the lock, that is given back once more after this; where it was to give it back,
it is not asked for before."""


def is_wanted(task: Task, rule: Rule, policy: Policy) -> bool:
    """Tell whether an event is to be approved with the lock only.

    Of a Preempt and a Terminate nothing is left that could give it back.
    """
    return (
        policy.lock is not None
        and rule.lock
        and task.notice.event_type not in rules.UNSAFE_UNPREPARED
    )


def deadline(task: Task, terms: LockTerms) -> Micros | None:
    """Return how long the lock is waited for; None: there is no such time."""
    not_before = task.notice.not_before
    return None if not_before is None else not_before - terms.margin


# What comes in


def absorb(memory: Memory, said: LockSaid, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory after an answer, and what is to be told of it."""
    lock = memory.lock
    if not lock.is_asking or said.number != lock.number:
        return memory, []
    lock = replace(lock, is_asking=False, answered=now, last=said.answer, rest_until=0)
    if said.answer is LockAnswer.TAKEN:
        lock, notes = _taken(memory, lock, said, now)
    elif said.answer is LockAnswer.REFUSED:
        lock, notes = _refused(memory, lock, said, now)
    elif said.answer is LockAnswer.RELEASED:
        lock, notes = _released(memory, lock, now)
    else:
        lock, notes = _in_trouble(memory, lock, said, now)
    return replace(memory, lock=lock), notes


def _taken(
    memory: Memory, lock: Lock, said: LockSaid, now: Micros
) -> tuple[Lock, list[Note]]:
    is_new = lock.state is LockState.WANTED
    waited = describe_duration(now - lock.since)
    lock = replace(
        _moved(lock, LockGiven.TAKEN, now),
        until=said.until,
        tries=0,
        refusal="",
        trouble="",
    )
    detail = f"taken after {waited}: {lock.label}"
    return lock, [_note(memory, now, detail)] if is_new else []


def _refused(
    memory: Memory, lock: Lock, said: LockSaid, now: Micros
) -> tuple[Lock, list[Note]]:
    before = lock
    lock = replace(
        _moved(lock, LockGiven.REFUSED, now),
        tries=lock.tries + 1,
        refusal=said.detail or "others have it",
        trouble="",
    )
    if before.state is LockState.WANTED:
        waits = _note(memory, now, f"waits for the {lock.label}: {lock.refusal}")
        return lock, [] if before.refusal else [waits]
    if before.state is LockState.RELEASING:
        return lock, []
    detail = f"the {lock.label} was lost: {lock.refusal}"
    return lock, [_note(memory, now, detail, NoteKind.FAILED)]


def _released(memory: Memory, lock: Lock, now: Micros) -> tuple[Lock, list[Note]]:
    if lock.state is LockState.RELEASING and _is_late(lock.take_late, now):
        return replace(lock, rest_until=lock.take_late, tries=0, trouble=""), []
    had = bool(lock.holder)
    lock = replace(_moved(lock, LockGiven.RELEASED, now), tries=0, trouble="")
    is_told = had and lock.state is LockState.FREE
    return lock, [_note(memory, now, f"released: {lock.label}")] if is_told else []


def _in_trouble(
    memory: Memory, lock: Lock, said: LockSaid, now: Micros
) -> tuple[Lock, list[Note]]:
    before = lock
    lock = replace(
        _moved(lock, LockGiven.TROUBLE, now),
        tries=lock.tries + 1,
        trouble=said.detail or "no usable answer",
        has_complained=True,
        **_late(lock, now),
    )
    if before.has_complained:
        return lock, []
    doing = "given back" if lock.state is LockState.RELEASING else "asked for"
    detail = f"the {lock.label} cannot be {doing}: {lock.trouble}"
    return lock, [_note(memory, now, detail, NoteKind.FAILED)]


def _late(lock: Lock, now: Micros) -> dict[str, Micros]:
    """Return until when the last request, unanswered, may still be carried out."""
    return {"release_late" if lock.is_release else "take_late": now + LATE_FOR}


def _is_late(late: Micros, now: Micros) -> bool:
    # A clock that was set back must not make it longer.
    return now < late <= now + LATE_FOR


def resumed(lock: Lock, now: Micros) -> Lock:
    """Return the lock as it is after a start of the agent: nothing is under way.

    Nobody knows what became of the last request, or whether the lock was lost meanwhile.
    """
    if lock == NO_LOCK:
        return lock
    late = _late(lock, now) if lock.is_asking else {}
    lock = replace(lock, is_asking=False, answered=0, rest_until=0, tries=0, **late)
    return replace(lock, since=0) if lock.state is LockState.UNKNOWN else lock


# What follows


def refresh(memory: Memory, policy: Policy, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory with what time and the settings have made of the lock.

    Nothing may be approved under a lock that has expired, or that is another one.
    """
    terms, lock = policy.lock, memory.lock
    if terms is None or policy.is_observer:
        return memory, []
    if lock.label and lock.label != terms.label:
        return _other(memory, terms, now)
    notes: list[Note] = []
    patience = terms.timeout + ANSWER_GRACE
    if lock.is_asking and not lock.asked <= now < lock.asked + patience:
        said = LockSaid(
            number=lock.number,
            answer=LockAnswer.TROUBLE,
            detail=f"no answer for {describe_duration(patience)}",
        )
        memory, notes = absorb(memory, said, now)
        lock = memory.lock
    # A clock that was set back must not make it last longer.
    if (
        lock.state in {LockState.HELD, LockState.PAUSING}
        and lock.until
        and not now < lock.until <= now + terms.ttl
    ):
        ttl = describe_duration(terms.ttl)
        detail = f"the {lock.label} was not confirmed for {ttl}: it may be lost"
        notes.append(_note(memory, now, detail, NoteKind.FAILED))
        memory = replace(memory, lock=_moved(lock, LockGiven.EXPIRE, now))
    return memory, notes


def _other(memory: Memory, terms: LockTerms, now: Micros) -> tuple[Memory, list[Note]]:
    """Return the memory for another lock than the one that is remembered."""
    lock = memory.lock
    notes: list[Note] = []
    if lock.holder:
        detail = (
            f"the settings name another one, the {terms.label}: {lock.holder} may "
            f"still hold the {lock.label}, where nobody gives it back now"
        )
        notes.append(_note(memory, now, detail, NoteKind.FAILED))
    state = table.lock_step(lock.state, LockGiven.MOVE)
    fresh = Lock(state=state, label=terms.label, number=lock.number)
    return replace(memory, lock=fresh), notes


def advance(memory: Memory, policy: Policy, now: Micros) -> Change:
    """Return what to ask of the lock's server now, after the events were decided."""
    terms = policy.lock
    holder = (terms.holder if terms else "") or memory.name
    if terms is None or policy.is_observer or not holder:
        return Change(memory=memory)
    lock = memory.lock
    needing = _needing(memory)
    if needing:
        if lock.state in _NOT_NEEDED:
            lock = _moved(lock, LockGiven.NEED, now)
        if not lock.holder:
            lock = replace(lock, holder=holder)
    elif lock.state is LockState.UNKNOWN:
        lock = _quiet(memory, policy.gone_after.started, now)
    elif lock.state in _NEEDED:
        lock = _moved(lock, LockGiven.SPARE, now)
        if lock.state is LockState.PAUSING and _is_unused(memory, terms, now):
            lock = _moved(lock, LockGiven.DUE, now)
    if (
        lock.state is LockState.PAUSING
        and not lock.since <= now < lock.since + terms.pause
    ):
        lock = _moved(lock, LockGiven.DUE, now)
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
    """Tell whether it was taken for events that are not approved after all.

    Nothing has recovered then, so that there is nothing to pause for.
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
    """Return the lock that an earlier agent of this VM may have left.

    It is given back when it was quiet for long enough: in the middle of an event, or of
    what is recovered after a lost journal, it would be too early. An event may not be
    listed yet.
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
    # A clock that was set back begins again.
    if not 0 < lock.since <= now:
        lock = replace(lock, since=now)
    return lock if now < lock.since + long else _moved(lock, LockGiven.SPARE, now)


def _due(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, now: Micros
) -> Micros | None:
    """Return when the next request is due, `now` at the earliest; None: none is."""
    if lock.is_asking or lock.state in {LockState.UNKNOWN, LockState.FREE}:
        return None
    if lock.state in {LockState.HELD, LockState.PAUSING} and not lock.tries:
        if not lock.answered:
            # It was held when the agent began: is it still?
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
    # A clock that was set back must not make the pause longer.
    return due if lock.answered <= now < due else now


def _pause(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, now: Micros
) -> Micros:
    """Return how long to wait after a request that did not do what it was for."""
    if not lock.tries:
        return 0
    most = RETRY_MOST if needing else RELEASE_RETRY_MOST
    if lock.state in {LockState.HELD, LockState.PAUSING} and terms.ttl:
        most = min(most, terms.ttl // (RENEWALS * RETRY_SHARE))
    ends = [
        end
        for task in needing
        if task.consent is Consent.NONE
        and (end := deadline(task, terms)) is not None
        and end > now
    ]
    if ends:
        most = min(most, (min(ends) - now) // RETRY_SHARE)
    doubled = RETRY_FIRST << min(lock.tries - 1, RELEASE_RETRY_MOST.bit_length())
    pause = max(min(doubled, most), RETRY_FIRST)
    chance = zlib.crc32(f"{lock.holder}.{lock.number}".encode("utf-8", "replace"))
    return pause - pause * (chance % 256) // (256 * SPREAD)


def _wake(
    lock: Lock, needing: Sequence[Task], terms: LockTerms, long: Micros, now: Micros
) -> Micros | None:
    """Return when to look at the lock again although nothing comes in."""
    wakes = [_due(lock, needing, terms, now)]
    if lock.state is LockState.UNKNOWN and lock.since:
        wakes.append(lock.since + long)
    if lock.is_asking:
        wakes.append(lock.asked + terms.timeout + ANSWER_GRACE)
    if lock.state in {LockState.HELD, LockState.PAUSING} and lock.until:
        wakes.append(lock.until)
    if lock.state is LockState.PAUSING:
        wakes.append(lock.since + terms.pause)
    return min((each for each in wakes if each is not None), default=None)


def problems(memory: Memory, policy: Policy) -> list[str]:
    """Return what a person should know of the lock, one sentence each."""
    lock = memory.lock
    if lock.holder and policy.lock is None:
        problem = (
            f"{lock.holder} may still hold the {lock.label}, and the settings have no "
            "[lock]: bring it back, or give the lock back by hand"
        )
        return [problem]
    if lock.trouble and policy.lock is not None:
        return [f"the {lock.label} gives no usable answer: {lock.trouble}"]
    return []


# Words


def _moved(lock: Lock, given: LockGiven, now: Micros) -> Lock:
    state = table.lock_step(lock.state, given)
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
    """Return a note about the event that needs the lock, where there is one."""
    task = next(iter(_needing(memory)), None)
    about = NoteKind.LOCK.value if kind is NoteKind.FAILED else ""
    return note_of(task, kind, now, detail, about=about)
