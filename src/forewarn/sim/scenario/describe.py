"""Steps of a scenario in words, one line each."""

from forewarn.instants import SECOND, describe_duration
from forewarn.problems import listed
from forewarn.protocol.actors import (
    DOWN_ALREADY,
    NO_NOTICE,
    NOBODY_LISTENS,
    POLICY,
)
from forewarn.protocol.events import Event
from forewarn.sim.scenario.model import (
    Act,
    Approve,
    Cancel,
    ClearFaults,
    Disable,
    Expect,
    Expectation,
    Jump,
    MoveOn,
    Order,
    Publish,
    Release,
    Say,
    SetFaults,
    Step,
    Withhold,
)


def telling(step: Step) -> str:
    """Return what a step does: `maintain h0 (freeze), called e1`."""
    told = _told(step.act)
    return f"{told}, called {step.name}" if step.name else told


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
        case MoveOn() | Cancel() | Approve():
            return _told_of_event(act)
        case _:
            return _told_by_hand(act)


def _told_of_expectation(wanted: Expectation) -> str:
    what: list[str] = ["expect", *([wanted.event] if wanted.event else [])]
    what.append(wanted.wanted.value.replace("_", " "))
    if wanted.stand:
        what.append(wanted.stand.value)
    if wanted.vms:
        what.append(", ".join(wanted.vms))
    if wanted.status:
        what.append(f"as {wanted.status.value}")
    if wanted.within:
        what.append(f"within {describe_duration(wanted.within)}")
    return " ".join(what)


def why_at_once(event: Event, name: str) -> str:
    """Return why an event called `name` waited for no approval; empty: it waited."""
    vms = listed([resource.vm for resource in event.resources])
    if event.approver is None:
        return ""
    return {
        NOBODY_LISTENS: f"{vms} had not asked for events, so {name} went at once (7.4)",
        DOWN_ALREADY: f"{vms} did not run, so {name} went at once (5.3)",
        POLICY: f"the policy of scope {event.scope} approved {name} (5.3)",
        NO_NOTICE: f"{name} is a failure, which waits for no approval (5.5)",
    }.get(event.approver, "")


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 failure`, `2 failures`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _told_of_event(act: MoveOn | Cancel | Approve) -> str:
    match act:
        case MoveOn():
            return f"move {act.event} to {act.stop.value}"
        case Cancel():
            return f"cancel {act.event}"
        case Approve():
            return f"approve {act.event}" + (f" as {act.by}" if act.by else "")


def _told_by_hand(
    act: Withhold | Release | Disable | Jump | SetFaults | ClearFaults,
) -> str:
    match act:
        case Withhold():
            return f"withhold the approvals of {', '.join(act.vms)}"
        case Release():
            return f"release the approvals of {', '.join(act.vms)}"
        case Disable():
            return f"disable {', '.join(act.vms)}"
        case Jump():
            return f"jump {describe_duration(max(act.by, SECOND))}"
        case SetFaults():
            return f"fault {act.words}"
        case ClearFaults():
            return f"clear faults of {', '.join(act.vms) or 'all'}"
