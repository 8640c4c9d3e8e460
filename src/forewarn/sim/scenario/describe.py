"""Text about steps, events and operations of a scenario."""

from collections.abc import Iterable

from forewarn.control.rules import obstacles
from forewarn.instants import SECOND, Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.actors import (
    DOWN_ALREADY,
    NO_NOTICE,
    NOBODY_LISTENS,
    POLICY,
)
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Verb
from forewarn.reporting import explanations
from forewarn.sim.scenario.model import (
    Act,
    Approve,
    Cancel,
    Expect,
    Expectation,
    ForVms,
    Jump,
    MoveOn,
    Order,
    Publish,
    Say,
    See,
    SetFaults,
    Step,
)
from forewarn.store.port import Reader
from forewarn.wording import operators


def telling(step: Step) -> str:
    """Return a step as text: `maintain h0 (freeze), called e1`."""
    text = _told(step.act)
    return f"{text}, called {step.name}" if step.name else text


def _told(act: Act) -> str:
    match act:
        case Order():
            how = f" ({impact})" if (impact := act.values.get("impact")) else ""
            return f"{act.verb} {', '.join(act.targets)}{how}"
        case Publish(wanted=wanted):
            when = describe_duration(wanted.notice) if wanted.notice else "no"
            kind = f"{wanted.event_type.value} by {wanted.source.value}"
            return f"event {kind} for {', '.join(wanted.vms)} with {when} notice"
        case Say():
            return act.text
        case Expect(expectation=expectation):
            return _told_of_expectation(expectation)
        case ForVms():
            return f"{_FOR_VMS[act.what]} {', '.join(act.vms) or 'all'}"
        case _:
            return _told_of_others(act)


_FOR_VMS = {
    "withhold": "withhold the approvals of",
    "release": "release the approvals of",
    "disable": "disable",
    "clear-faults": "clear faults of",
}


def _told_of_expectation(wanted: Expectation) -> str:
    parts: list[str] = ["expect", *([wanted.event] if wanted.event else [])]
    parts.append(wanted.wanted.value.replace("_", " "))
    if wanted.phase:
        parts.append(wanted.phase.value)
    if wanted.vms:
        parts.append(", ".join(wanted.vms))
    if wanted.status:
        parts.append(f"as {wanted.status.value}")
    if wanted.within:
        parts.append(f"within {describe_duration(wanted.within)}")
    return " ".join(parts)


def why_at_once(event: Event, name: str) -> str:
    """Return why the event `name` did not wait for an approval; empty: it waited."""
    vms = listed([resource.vm for resource in event.resources])
    if event.approver is None:
        return ""
    return {
        NOBODY_LISTENS: f"{vms} had not asked for events, so {name} started at once (7.4)",
        DOWN_ALREADY: f"{vms} did not run, so {name} started at once (5.3)",
        POLICY: f"the policy of scope {event.scope} approved {name} (5.3)",
        NO_NOTICE: f"{name} is a failure, which does not wait for an approval (5.5)",
    }.get(event.approver, "")


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 failure`, `2 failures`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _told_of_others(act: MoveOn | Cancel | Approve | See | Jump | SetFaults) -> str:
    match act:
        case See():
            does = "run" if act.is_running else f"stop ({act.cause.value})"
            where = f" on {act.host}" if act.host else ""
            return f"the driver sees {listed(act.vms)} {does}{where}"
        case MoveOn():
            return f"move {act.event} to {act.stop.value}"
        case Cancel():
            return f"cancel {act.event}"
        case Approve():
            return f"approve {act.event}" + (f" as {act.by}" if act.by else "")
        case Jump():
            return f"jump {describe_duration(max(act.by, SECOND))}"
        case SetFaults():
            return f"fault {act.words}"


def unfinished(
    reader: Reader, operations: Iterable[Operation], *, now: Micros
) -> list[str]:
    """Return a sentence for each operation that has not ended."""
    sentences: list[str] = []
    for operation in filter(_goes_on, operations):
        why = "; ".join(
            explanations.of_operation(reader, operation, now=now)["blocked_by"]
        )
        stands = f"is {operation.state.value}"
        sentences.append(
            f"{operators.task(operation)} {stands}{f': {why}' if why else ''}"
        )
    return sentences


def hindered(reader: Reader, operations: Iterable[Operation], *, now: Micros) -> str:
    """Return why the first operation that has not ended cannot start.

    Empty: all operations have ended.
    """
    for operation in filter(_goes_on, operations):
        blockers = obstacles.why_not_start(reader, operation, now=now)
        why = "; ".join(operators.reasons(blockers))
        return f"{operators.task(operation)}: {why or 'it does not end'}"
    return ""


def _goes_on(operation: Operation) -> bool:
    """Return whether the operation still ends automatically. A failure lasts until a
    restore."""
    return operation.state not in ENDED_STATES and operation.verb is not Verb.FAIL
