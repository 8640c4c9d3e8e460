"""Simulate the agent's decisions about a document, without carrying them out.

Every handler succeeds at once, and every approval is accepted, so that the whole course
of an event is shown. The time advances to each next decision. After its NotBefore,
nothing more is shown for an event, since it starts then. Peers are asked but do not
answer. No alert fires. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from forewarn.agent.core.decide import decide
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Command,
    Consent,
    Decision,
    Finished,
    Input,
    Memory,
    Phase,
    Polled,
    Run,
    Send,
    StepState,
)
from forewarn.agent.core.names import is_named
from forewarn.agent.core.permits import (
    AskGate,
    GateAnswer,
    GateResponse,
    Lock,
    LockAnswer,
    LockResponse,
    LockState,
    TakeLock,
)
from forewarn.agent.core.policy import PEERS_EVERY, Policy
from forewarn.instants import (
    DAY,
    SECOND,
    Micros,
    describe_duration,
    format_duration,
    format_instant,
)
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Notice

TURNS_MAX = 200
"""Maximum number of decisions in a simulation; an event needs a few."""

AHEAD_MAX: Micros = 30 * DAY
"""Maximum time that a simulation covers."""


@frozen_dataclass
class Happening:
    """One action of the agent."""

    at: Micros
    event_id: str
    text: str


@frozen_dataclass
class Trial:
    """The result of a simulation."""

    happenings: tuple[Happening, ...]
    rules: Mapping[str, str]
    """The first matching rule of each event."""
    waits: Mapping[str, str]
    """The events that are not approved at the end, each with the reason."""
    is_cut: bool = False
    """Whether there may be further actions after the simulated time."""


def attempt(
    policy: Policy, notices: Sequence[Notice], *, name: str, now: Micros
) -> Trial:
    """Return the actions of the agent from now on, if the document does not change."""
    began = now
    # The lock is free at first, and stays this VM's after it is taken. Peers do not
    # answer, so repeated requests change nothing.
    lock = replace(policy.lock, ttl=0) if policy.lock is not None else None
    policy = replace(policy, lock=lock, peers_every=AHEAD_MAX)
    memory = Memory(name=name, lock=Lock(state=LockState.FREE))
    inputs: list[Input] = [Polled(notices=tuple(notices), name=name)]
    happenings: list[Happening] = []
    waits: dict[str, str] = {}
    rules: dict[str, str] = {}
    is_cut = True
    for _ in range(TURNS_MAX):
        decision = decide(policy, memory, inputs, now)
        memory = decision.memory
        # The result of an event does not change after its NotBefore.
        begun = {
            notice.event_id for notice in notices if _has_begun(notice, began, now)
        }
        waits = {key: why for key, why in waits.items() if key in begun} | {
            key: why for key, why in decision.waits if key not in begun
        }
        for task in memory.tasks:
            rules.setdefault(task.event_id, task.rule)
        happenings += [
            happening
            for happening in _told(decision, policy, now)
            if happening.event_id not in begun
        ]
        inputs = [
            _RESULTS[type(command)](command)
            for command in decision.commands
            if type(command) in _RESULTS
        ]
        if inputs:
            continue
        wake = decision.wake
        if wake is not None and all(
            _has_begun(notice, began, wake) for notice in notices
        ):
            wake = None
        if wake is None or wake > began + AHEAD_MAX:
            is_cut = wake is not None
            break
        now = max(wake, now + SECOND // 1_000)
    return Trial(
        happenings=tuple(happenings),
        rules=rules,
        waits=waits,
        is_cut=is_cut,
    )


def _has_begun(notice: Notice, began: Micros, now: Micros) -> bool:
    """Return whether an event's NotBefore was in the simulated time and has passed."""
    return notice.not_before is not None and began <= notice.not_before < now


_RESULTS: Mapping[type[Command], Callable[[Any], Input]] = {
    Run: lambda run: Finished(run_id=run.run_id, state=StepState.DONE),
    Send: lambda send: ApprovalResult(event_id=send.event_id, consent=Consent.GIVEN),
    TakeLock: lambda request: LockResponse(
        number=request.number, answer=LockAnswer.TAKEN
    ),
    AskGate: lambda request: GateResponse(
        number=request.number, answer=GateAnswer.CLEAR
    ),
}
"""The simulated results of commands, as inputs of the next decision."""


def _told(decision: Decision, policy: Policy, now: Micros) -> Iterator[Happening]:
    for command in decision.commands:
        if isinstance(command, Run) and command.task is not None:
            verb = "prepare" if command.phase is Phase.PREPARE else "recover"
            left = describe_duration(command.stop_at - now)
            text = f"{verb} with {command.handler}, in {left} at most"
            yield Happening(at=now, event_id=command.task.event_id, text=text)
        elif isinstance(command, Send):
            yield Happening(at=now, event_id=command.event_id, text="approve")
        elif isinstance(command, AskPeers):
            text = (
                f"ask {', '.join(command.names)} whether they are prepared, "
                f"every {describe_duration(PEERS_EVERY)}"
            )
            yield Happening(at=now, event_id=command.event_id, text=text)
        elif isinstance(command, TakeLock):
            yield from _lock_told(decision, policy, now)
        elif isinstance(command, AskGate):
            yield from _gate_told(decision, policy, now)


def _lock_told(decision: Decision, policy: Policy, now: Micros) -> Iterator[Happening]:
    """Yield the lock requests of the events that need it."""
    terms = policy.lock
    assert terms is not None, "only a lock in the settings is taken"
    for task in decision.memory.tasks:
        if not task.needs_lock:
            continue
        text = f"take the {terms.label}"
        if task.consent is not Consent.NONE:
            text = f"ask for the {terms.label} too, so that others wait"
        elif task.notice.not_before is not None:
            then = "leave it to NotBefore" if terms.withholds else "approve without it"
            margin = format_duration(terms.margin)
            text += f"; if it is not had at NotBefore - {margin}, {then}"
        yield Happening(at=now, event_id=task.event_id, text=text)


def _gate_told(decision: Decision, policy: Policy, now: Micros) -> Iterator[Happening]:
    """Yield the alert requests of the events that wait for the gate."""
    terms = policy.gate
    assert terms is not None, "only a gate in the settings is asked"
    for event_id in decision.memory.gate.events:
        text = (
            f"ask {terms.label} which alerts fire; "
            "while one does, the event is not approved"
        )
        yield Happening(at=now, event_id=event_id, text=text)


def words_of(
    trial: Trial, notices: Sequence[Notice], *, name: str, now: Micros
) -> Iterator[str]:
    """Yield the lines of the text."""
    if not notices:
        yield "the document has no events"
    for notice in notices:
        whose = "" if is_named(notice, name) else "  (of another VM)"
        yield f"{notice.event_type} {notice.status} {notice.id_on_wire}{whose}"
        yield f"  matches  {trial.rules.get(notice.event_id) or 'no rule'}"
        happenings = [
            happening
            for happening in trial.happenings
            if happening.event_id == notice.event_id
        ]
        for happening in happenings:
            yield f"  {when(happening.at, notice, now):<8} {happening.text}"
        if not happenings:
            span = f" in the next {AHEAD_MAX // DAY} days" if trial.is_cut else ""
            yield f"           nothing is done{span}"
        if notice.event_id in trial.waits:
            yield f"  not approved: {trial.waits[notice.event_id]}"


def when(at: Micros, notice: Notice, now: Micros) -> str:
    """Return the time of an action: `now`, or the time before NotBefore."""
    if at - now < SECOND:
        return "now"
    if notice.not_before is not None:
        left = notice.not_before - at
        sign = "-" if left >= 0 else "+"
        return f"NotBefore {sign} {format_duration(round(abs(left), -6))}"
    return f"in {describe_duration(at - now)}"


def document_of(trial: Trial, notices: Sequence[Notice], *, name: str) -> Any:
    """Return the result as JSON: a list of events."""
    return [
        {
            "EventId": notice.id_on_wire,
            "EventType": notice.event_type,
            "EventStatus": notice.status,
            "mine": is_named(notice, name),
            "rule": trial.rules.get(notice.event_id, ""),
            "actions": [
                {"at": format_instant(happening.at), "action": happening.text}
                for happening in trial.happenings
                if happening.event_id == notice.event_id
            ],
            "not_approved": trial.waits.get(notice.event_id, ""),
        }
        for notice in notices
    ]
