"""Approval: whether this agent approves an event now, or why not (clauses 8.4, 8.6).

If a rule demands preparation for an event, the event is approved only after it. An
approval is sent again only if it was not confirmed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from forewarn.agent.core import budget, gating, locking, rules, windows
from forewarn.agent.core.gating import GateState, Passage
from forewarn.agent.core.model import (
    AskPeers,
    Command,
    Consent,
    NoteKind,
    Part,
    Phase,
    Send,
    Stage,
    StepState,
    Task,
    note_of,
)
from forewarn.agent.core.names import is_named, is_same, key_of, keys_of
from forewarn.agent.core.permits import NO_GATE, Gate, Lock, LockState
from forewarn.agent.core.policy import (
    PEERS_EVERY,
    Approve,
    Approver,
    Policy,
    Rule,
    Standby,
)
from forewarn.instants import MINUTE, SECOND, Micros, format_instant
from forewarn.protocol.frozen import frozen_dataclass

SEND_TIMEOUT: Micros = 30 * SECOND
"""An approval without any answer is sent again after this time."""

RETRY_PAUSES: tuple[Micros, ...] = (SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND)
"""Pauses before further attempts; the last one repeats. A Preempt leaves 30 s."""

RETRY_PAUSE_MAX: Micros = MINUTE
RETRY_SHARE = 20
"""Divisor of the time until NotBefore. The last pause doubles up to a minute, but at
most to this part of that time, so that as many attempts remain."""

RETRY_AFTER_MAX: Micros = MINUTE
"""Maximum pause that an endpoint can ask for: beyond it, NotBefore is likely first."""

REFUSALS_MAX = 8
"""Number of refusals of one approval after which the agent stops sending it. A refusal
may be temporary: if there are several servers, one may list an event before another
knows it. With the pauses above, the last attempt is 90 seconds after the first, if time
allows."""

ALIVE_FOR: Micros = 3 * PEERS_EVERY
"""Minimum time for which an agent that has answered counts as alive. With less, another
VM would take over from a healthy leader before it can ask again."""


@frozen_dataclass
class Verdict(Part):
    """The next step of an approval."""

    task: Task
    waits: str = ""
    """Why it is not approved, for a person; empty: it is, or no approval is wanted."""
    passage: Passage | None = None
    """The result of the gate; None: the event is not ready, or needs no gate."""


def consider(
    task: Task,
    rule: Rule,
    policy: Policy,
    *,
    name: str,
    lock: Lock,
    gate: Gate = NO_GATE,
    now: Micros,
) -> Verdict:
    """Return whether to approve the event of a live task, and the commands for it.

    If an event waits for the lock and something else prevents its approval, the lock is
    released, unless the impact can begin at any moment. The gate comes before the lock,
    so that a VM that waits for alerts does not block other VMs.
    """
    verdict = _verdict(task, rule, policy, name=name, now=now)
    is_loose = (
        task.is_confirmed
        and task.consent in {Consent.NONE, Consent.REFUSED}
        and not task.notice.has_started
    )
    if is_loose and verdict.task.consent is not Consent.WANTED:
        return _with_lock(verdict, needs_lock=False)
    is_new = task.consent is Consent.NONE and verdict.task.consent is Consent.WANTED
    if not is_new:
        return verdict
    terms = policy.gate
    if terms is None or not rule.gate or task.is_forced:
        return _under_lock(task, rule, policy, verdict, lock, now)
    passage = gating.passage_of(gate, terms, task, now)
    is_asked_first = passage is Passage.ASK and not task.needs_lock
    why = gating.why_not(gate, terms, task, now)
    if passage in {Passage.HOLD, Passage.LATE} or is_asked_first:
        held = _held_back(task, verdict, policy, passage, why, now)
        return _with_lock(held, needs_lock=False)
    approved = _under_lock(task, rule, policy, verdict, lock, now)
    is_sent = approved.task.consent is Consent.WANTED
    if is_sent and passage is Passage.ASK:
        # Alerts may have fired while the event waited for the lock.
        return _held_back(task, approved, policy, passage, why, now)
    if is_sent and gating.state_of(gate, terms, now) is GateState.UNHEARD:
        detail = f"approved without an answer from {terms.label}: {gate.detail}"
        notes = (*approved.notes, note_of(task, NoteKind.GATE, now, detail))
        return replace(approved, notes=notes)
    return approved if is_sent else replace(approved, passage=Passage.PASS)


def _under_lock(
    task: Task, rule: Rule, policy: Policy, verdict: Verdict, lock: Lock, now: Micros
) -> Verdict:
    """Return the approval, or its wait for the lock if it needs the lock."""
    if not locking.is_wanted(task, rule, policy):
        return verdict
    verdict = _with_lock(verdict, needs_lock=True)
    return verdict if task.is_forced else _locked(task, verdict, policy, lock, now)


def _held_back(
    task: Task,
    approved: Verdict,
    policy: Policy,
    passage: Passage,
    why: str,
    now: Micros,
) -> Verdict:
    """Return the wait of an approval for the gate."""
    unsent, others = _unsent(task, approved)
    wakes = [task.notice.not_before, unsent.peers_asked + policy.peers_every]
    return Verdict(
        task=unsent,
        commands=others,
        waits=why,
        wake=min((wake for wake in wakes if wake and wake > now), default=None),
        passage=passage,
    )


def _with_lock(verdict: Verdict, *, needs_lock: bool) -> Verdict:
    if verdict.task.needs_lock is needs_lock:
        return verdict
    return replace(verdict, task=replace(verdict.task, needs_lock=needs_lock))


def _locked(
    task: Task, approved: Verdict, policy: Policy, lock: Lock, now: Micros
) -> Verdict:
    """Return the approval, or its wait for the lock."""
    terms = policy.lock
    assert terms is not None, "only a lock in the settings is needed"
    ends = locking.deadline(task, terms)
    is_late = ends is not None and ends <= now
    if lock.is_held and not (is_late and terms.withholds):
        return approved
    why = _why_not_held(lock, terms.label)
    if is_late and not terms.withholds:
        detail = f"not available in time, so approved without it: {why}"
        return replace(approved, notes=(note_of(task, NoteKind.LOCK, now, detail),))
    unsent, others = _unsent(task, approved)
    if is_late:
        late = "it was not available in time, so the event starts at NotBefore"
        return Verdict(task=unsent, commands=others, waits=f"{why}; {late}")
    then = ""
    if ends is not None:
        outcome = "left to NotBefore" if terms.withholds else "approved without it"
        then = f"; at {format_instant(ends)} the event is {outcome}"
    return Verdict(
        task=unsent,
        commands=others,
        waits=f"waits for {why}{then}",
        wake=ends,
    )


def _unsent(task: Task, approved: Verdict) -> tuple[Task, tuple[Command, ...]]:
    """Return an approval's task and commands without sending it.

    The other commands of the task remain, such as requests to peers.
    """
    unsent = replace(
        approved.task,
        consent=task.consent,
        tries=task.tries,
        asked=task.asked,
        retry_at=task.retry_at,
    )
    others = tuple(
        command for command in approved.commands if not isinstance(command, Send)
    )
    return unsent, others


def _why_not_held(lock: Lock, label: str) -> str:
    why = lock.trouble or lock.refusal
    if lock.state is LockState.HELD:
        why = "it was held when the agent started, and is being confirmed"
    return f"the {label}: {why or 'it was requested'}"


def _verdict(
    task: Task, rule: Rule, policy: Policy, *, name: str, now: Micros
) -> Verdict:
    """Return whether to approve, without the lock and the gate."""
    if task.consent is Consent.GIVEN or task.notice.has_started:
        return Verdict(task=task)
    if task.consent is Consent.REFUSED:
        return Verdict(task=task, waits="; ".join(("refused", *task.troubles[-1:])))
    if policy.is_observer:
        return Verdict(task=task, waits="this agent only observes")
    if not task.is_confirmed:
        return Verdict(
            task=task, waits="no document has listed it since the agent started"
        )
    # If the clock was set back, the pause must not become longer.
    if task.consent is Consent.WANTED and task.asked <= now < task.retry_at:
        why = "; ".join(("it was sent but not confirmed", *task.troubles[-1:]))
        return Verdict(task=task, waits=why, wake=task.retry_at)
    if task.consent is Consent.WANTED or task.is_forced:
        return _send(task, now)
    if not name:
        return Verdict(task=task, waits="the name of this VM is not known yet")
    if not task.mine:
        return _stand_by(task, policy, now)
    if obstacle := _own_obstacle(task, rule, policy, name=name, now=now):
        return Verdict(task=task, waits=obstacle)
    if not windows.allows(policy, now):
        again = windows.next_allowed(policy, now)
        when = "later" if again is None else f"at {format_instant(again)}"
        return Verdict(
            task=task, waits=f"approvals are allowed again {when}", wake=again
        )
    if rule.approver is Approver.ANY or len(task.notice.resources) <= 1:
        return _send(task, now)
    return _together(task, rule, policy, name=name, now=now)


def _own_obstacle(
    task: Task, rule: Rule, policy: Policy, *, name: str, now: Micros
) -> str:
    """Return why this VM does not approve the event now; empty: it can."""
    if not is_named(task.notice, name):
        # The event named this VM by an earlier name, which another VM may have now.
        named = ", ".join(task.notice.resources)
        return f"it names {named}, and this VM is called {name} now"
    if rule.approve is Approve.NEVER:
        return f"{rule.name} never approves" if rule.name else "no rule matches"
    if task.stage is Stage.WITHHELD:
        return f"withheld: {task.withheld}"
    if task.stage is Stage.SEEN:
        return "its preparation begins later"
    if task.stage is Stage.PREPARING:
        return _preparing(task, rule, policy, now)
    done = _done(task)
    if task.notice.event_type in rules.UNSAFE_UNPREPARED and not done:
        return f"a {task.notice.event_type} is never approved unprepared"
    # The settings may have changed since the event was prepared.
    groups = budget.groups_of(task, rule, policy)
    missing = [name for name in budget.required(task, groups) if name not in done]
    return f"not prepared by {', '.join(missing)}" if missing else ""


def _preparing(task: Task, rule: Rule, policy: Policy, now: Micros) -> str:
    """Return what the preparation waits for: a running handler, or a later one."""
    is_running = any(step.state is StepState.RUNNING for step in task.steps)
    later = [
        (budget.handler_at(task, rule, handler) or now, handler.name)
        for group in budget.groups_of(task, rule, policy)
        for handler in group
        if task.latest(handler.name, Phase.PREPARE) is None
    ]
    at, name = min(later, default=(now, ""))
    if is_running or at <= now:
        return "it is being prepared"
    return f"it is being prepared: {name} begins at {format_instant(at)}"


def _done(task: Task) -> set[str]:
    """Return the handlers that have prepared."""
    return {
        step.handler
        for step in task.steps
        if step.phase is Phase.PREPARE
        and step.state is StepState.DONE
        and step.round == task.round
    }


def _stand_by(task: Task, policy: Policy, now: Micros) -> Verdict:
    """Approve on behalf of a VM whose agent is silent (clause 8.3)."""
    standby = policy.standby
    if not _is_for(standby, task):
        return Verdict(task=task)
    others = list(task.notice.resources)
    alive = dict(task.peers_alive)
    since = max([task.seen, *(alive.get(key_of(other), 0) for other in others)])
    commands: tuple[Command, ...] = ()
    wake = since + standby.after
    if wake <= now and windows.allows(policy, now):
        return _send(task, now)
    if policy.has_peers:
        task, commands, again = _ask(task, others, policy, now)
        wake = min(again, wake) if wake > now else again
    return Verdict(
        task=task,
        commands=commands,
        waits=f"on standby for {', '.join(others)}",
        wake=wake if wake > now else windows.next_allowed(policy, now),
    )


def _is_for(standby: Standby, task: Task) -> bool:
    named = keys_of(task.notice.resources)
    return (
        # This agent does not know whether the other VM is prepared.
        task.notice.event_type not in rules.UNSAFE_UNPREPARED
        and (not standby.source or task.notice.source in standby.source)
        # The approval counts for every VM that the event names.
        and bool(named)
        and named <= keys_of(standby.names)
    )


def _together(
    task: Task, rule: Rule, policy: Policy, *, name: str, now: Micros
) -> Verdict:
    """Return which of the named VMs approves: the first, or the one that takes over.

    It waits for VMs that report that they are not prepared. Without peers, it cannot
    ask them.
    """
    resources = task.notice.resources
    before = tuple(takewhile(lambda other: not is_same(other, name), resources))
    others = [resource for resource in resources if not is_same(resource, name)]
    commands: tuple[Command, ...] = ()
    again: Micros | None = None
    if policy.has_peers:
        task, commands, again = _ask(task, others, policy, now)
    missing, until = _missing(task, rule, policy, others, now)
    if missing:
        return Verdict(
            task=task,
            commands=commands,
            waits=f"not prepared yet: {', '.join(missing)}",
            wake=min((instant for instant in (again, until) if instant), default=None),
        )
    turn = _turn(task, rule, dict(task.peers_alive), before)
    if turn <= now:
        sent = _send(task, now)
        return replace(sent, commands=(*commands, *sent.commands))
    return Verdict(
        task=task,
        commands=commands,
        waits=f"left to {resources[0]}; this VM takes over at {format_instant(turn)}",
        wake=min(turn, again) if again is not None else turn,
    )


def _missing(
    task: Task, rule: Rule, policy: Policy, others: list[str], now: Micros
) -> tuple[list[str], Micros]:
    """Return the named VMs that are not prepared, and until when to wait for them.

    With ALL, silent VMs count as not prepared. With LEADER, they are not waited for
    after they had time to answer.
    """
    unready = [
        peer_key for peer_key in others if key_of(peer_key) not in task.peers_ready
    ]
    if rule.approver is Approver.ALL:
        return unready, 0
    if not policy.has_peers:
        return [], 0
    alive = dict(task.peers_alive)
    silent_at: dict[str, Micros] = {}
    for peer in unready:
        # An agent that is asked for the first time needs time to answer. One that has
        # answered may be briefly busy.
        heard = alive.get(key_of(peer), 0)
        long = max(rule.takeover, ALIVE_FOR) if heard else ALIVE_FOR
        silent_at[peer] = max(heard + long, task.peers_from + ALIVE_FOR)
    awaited = {peer_key: at for peer_key, at in silent_at.items() if now < at}
    return list(awaited), min(awaited.values(), default=0)


def _turn(
    task: Task, rule: Rule, alive: Mapping[str, Micros], before: tuple[str, ...]
) -> Micros:
    """Return when this VM takes over: after the time of each VM before it."""
    turn = task.prepared + len(before) * rule.takeover
    for index, other in enumerate(map(key_of, before)):
        if other in alive:
            # The agent of that VM is alive and will approve, but may still become
            # silent.
            left = (len(before) - index) * rule.takeover
            turn = max(turn, alive[other] + max(left, ALIVE_FOR))
    return turn


def _ask(
    task: Task, others: list[str], policy: Policy, now: Micros
) -> tuple[Task, tuple[Command, ...], Micros]:
    again = task.peers_asked + policy.peers_every
    if task.peers_asked and task.peers_asked <= now < again:
        return task, (), again
    ask = AskPeers(event_id=task.event_id, names=tuple(others))
    began = task.peers_from if task.peers_asked else now
    asked_task = replace(task, peers_asked=now, peers_from=began)
    return asked_task, (ask,), now + policy.peers_every


def _send(task: Task, now: Micros) -> Verdict:
    task = replace(
        task,
        consent=Consent.WANTED,
        tries=task.tries + 1,
        asked=now,
        retry_at=now + SEND_TIMEOUT,
    )
    return Verdict(
        task=task,
        commands=(Send(event_id=task.event_id, attempt=task.tries),),
        wake=task.retry_at,
    )


def retry_at(task: Task, retry_after: Micros, now: Micros) -> Micros:
    """Return when to send an unconfirmed approval again."""
    pause = RETRY_PAUSES[min(task.tries, len(RETRY_PAUSES)) - 1]
    further = min(task.tries - len(RETRY_PAUSES), RETRY_PAUSE_MAX.bit_length())
    if further > 0 and task.notice.not_before is not None:
        longest = min((task.notice.not_before - now) // RETRY_SHARE, RETRY_PAUSE_MAX)
        pause = max(pause, min(pause << further, longest))
    return now + max(pause, min(retry_after, RETRY_AFTER_MAX))
