"""Consent: whether this agent approves an event now, and else why not (8.4, 8.6).

Nothing is approved that a rule wants prepared and that is not; nothing is sent twice
unless nobody answered. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from forewarn.agent.core import budget, rules, windows
from forewarn.agent.core.model import (
    AskPeers,
    Command,
    Consent,
    Phase,
    Send,
    Stage,
    StepState,
    Task,
)
from forewarn.agent.core.policy import Approve, Approver, Policy, Rule, Standby
from forewarn.instants import MINUTE, SECOND, Micros, format_instant

SEND_TIMEOUT: Micros = 30 * SECOND
"""After which an approval of which nothing was heard is sent again."""

RETRY_PAUSES: tuple[Micros, ...] = (SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND)
"""Before each further attempt; the last one goes on. A Preempt leaves 30 s."""

RETRY_PAUSE_MAX: Micros = MINUTE
RETRY_SHARE = 20
"""The last pause doubles up to a minute, and to one part in so many of what is left
until NotBefore: that many attempts are still to come."""

RETRY_AFTER_MAX: Micros = MINUTE
"""What an endpoint may ask to wait: beyond it, NotBefore is the likelier answer."""

PEERS_EVERY: Micros = 2 * SECOND
"""Between two questions to the same agents."""

ALIVE_FOR: Micros = 3 * PEERS_EVERY
"""How long an agent that has answered counts as alive, at least: whoever takes over
sooner than it can be asked again takes over from a leader that is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of consent now."""

    task: Task
    commands: tuple[Command, ...] = ()
    waits: str = ""
    """Why it is not approved, for a person; empty: it is, or nothing is to be."""
    wake: Micros | None = None


def consider(
    task: Task, rule: Rule, policy: Policy, *, name: str, now: Micros
) -> Verdict:
    """Return whether to approve the event of a live task, and what to do for it."""
    if task.consent in {Consent.GIVEN, Consent.REFUSED} or task.notice.has_started:
        return Verdict(task=task)
    if policy.is_observer:
        return Verdict(task=task, waits="this agent only observes")
    if not task.is_confirmed:
        why = "no document has shown it since the agent began"
        return Verdict(task=task, waits=why)
    if task.consent is Consent.WANTED:
        # A clock that was set back must not make the pause longer.
        if task.asked <= now < task.retry_at:
            why = "; ".join(("it is sent, and not confirmed", *task.troubles[-1:]))
            return Verdict(task=task, waits=why, wake=task.retry_at)
        return _send(task, now)
    if task.is_forced:
        return _send(task, now)
    if not name:
        return Verdict(task=task, waits="the name of this VM is not known yet")
    if not task.mine:
        return _stand_by(task, policy, now)
    obstacle = _own_obstacle(task, rule, policy)
    if obstacle:
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


def _own_obstacle(task: Task, rule: Rule, policy: Policy) -> str:
    """Return why this VM itself does not want it approved now."""
    if rule.approve is Approve.NEVER:
        return f"{rule.name} never approves" if rule.name else "no rule matches"
    if task.stage is Stage.WITHHELD:
        return f"withheld: {task.withheld}"
    if task.stage is Stage.SEEN:
        return "its preparation begins later"
    if task.stage is Stage.PREPARING:
        return "it is being prepared"
    done = _done(task)
    if task.notice.event_type in rules.UNSAFE_UNPREPARED and not done:
        return f"a {task.notice.event_type} is never approved unprepared"
    # The settings may have changed since it was prepared.
    groups = budget.groups_of(task, rule, policy)
    missing = [name for name in budget.required(task, groups) if name not in done]
    return f"not prepared by {', '.join(missing)}" if missing else ""


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
    """Approve for a named VM whose own agent stays silent (clause 8.3)."""
    standby = policy.standby
    if standby is None or not _is_for(standby, task):
        return Verdict(task=task)
    others = list(task.notice.resources)
    alive = dict(task.peers_alive)
    since = max([task.seen, *(alive.get(other, 0) for other in others)])
    commands: tuple[Command, ...] = ()
    wake = since + standby.after
    if wake <= now and windows.allows(policy, now):
        return _send(task, now)
    if policy.has_peers:
        task, commands, again = _ask(task, others, now)
        wake = min(again, wake) if wake > now else again
    return Verdict(
        task=task,
        commands=commands,
        waits=f"stands by for {', '.join(others)}",
        wake=wake if wake > now else windows.next_allowed(policy, now),
    )


def _is_for(standby: Standby, task: Task) -> bool:
    named = frozenset(task.notice.resources)
    return (
        # Nobody here knows whether that VM is prepared.
        task.notice.event_type not in rules.UNSAFE_UNPREPARED
        and (not standby.sources or task.notice.source in standby.sources)
        # To approve it is to approve it for every VM that it names.
        and bool(named)
        and named <= standby.names
    )


def _together(
    task: Task, rule: Rule, policy: Policy, *, name: str, now: Micros
) -> Verdict:
    """Return who of the named VMs approves: the first, or who takes over."""
    resources = task.notice.resources
    place = resources.index(name) if name in resources else len(resources)
    others = [other for other in resources if other != name]
    commands: tuple[Command, ...] = ()
    again: Micros | None = None
    if policy.has_peers and (rule.approver is Approver.ALL or place > 0):
        task, commands, again = _ask(task, others, now)
    if rule.approver is Approver.ALL:
        missing = [other for other in others if other not in task.peers_ready]
        if missing:
            return Verdict(
                task=task,
                commands=commands,
                waits=f"not prepared yet: {', '.join(missing)}",
                wake=again,
            )
    turn = _turn(task, rule, dict(task.peers_alive), resources[:place])
    if turn <= now:
        sent = _send(task, now)
        return replace(sent, commands=(*commands, *sent.commands))
    return Verdict(
        task=task,
        commands=commands,
        waits=f"left to {resources[0]}; taken over at {format_instant(turn)}",
        wake=min(turn, again) if again is not None else turn,
    )


def _turn(
    task: Task, rule: Rule, alive: Mapping[str, Micros], before: tuple[str, ...]
) -> Micros:
    """Return when it is this VM's turn: each of those before it has had its time."""
    turn = task.prepared + len(before) * rule.takeover
    for index, other in enumerate(before):
        if other in alive:
            # Its agent lives, and will approve; it may yet fall silent.
            left = (len(before) - index) * rule.takeover
            turn = max(turn, alive[other] + max(left, ALIVE_FOR))
    return turn


def _ask(
    task: Task, others: list[str], now: Micros
) -> tuple[Task, tuple[Command, ...], Micros]:
    again = task.peers_asked + PEERS_EVERY
    if task.peers_asked and task.peers_asked <= now < again:
        return task, (), again
    ask = AskPeers(event_id=task.event_id, names=tuple(others))
    return replace(task, peers_asked=now), (ask,), now + PEERS_EVERY


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
    """Return when to send an approval again that nobody took."""
    pause = RETRY_PAUSES[min(task.tries, len(RETRY_PAUSES)) - 1]
    further = min(task.tries - len(RETRY_PAUSES), RETRY_PAUSE_MAX.bit_length())
    if further > 0 and task.notice.not_before is not None:
        longest = min((task.notice.not_before - now) // RETRY_SHARE, RETRY_PAUSE_MAX)
        pause = max(pause, min(pause << further, longest))
    return now + max(pause, min(retry_after, RETRY_AFTER_MAX))
