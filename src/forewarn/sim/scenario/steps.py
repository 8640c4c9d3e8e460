"""The steps of a scenario file, checked against each other and against the fleet.

A step has one key that says what is done, the keys that belong to it, and a time.
Steps come one after the other, so a name can only be used after the step that
gives it. Where a value cannot be used, a stand-in that makes no further problem
takes its place: the file is refused at its end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import cast

from forewarn.control.requests.verbs import TARGETS_MAX
from forewarn.instants import SECOND, Micros
from forewarn.problems import did_you_mean, listed, quoted
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.protocol.operations import Action
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import (
    Act,
    Approve,
    Cancel,
    ClearFaults,
    Disable,
    EventPhase,
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
    Wanted,
    Withhold,
)
from forewarn.sim.scenario.validators import Keys
from forewarn.sim.staged import VERBS, Staged, Stop

COMMON = ("at", "after", "as", "may_be_refused")
"""What every step may have."""

IMPACTS = {
    action.value: action
    for action in (Action.FREEZE, Action.LIVE_MIGRATE, Action.REBOOT, Action.REDEPLOY)
}

STATUSES = {
    status.value: status for status in (EventStatus.SCHEDULED, EventStatus.STARTED)
}

Blame = Callable[[str, str, str], None]
"""Told of a problem: the step's key, the key inside it or "", the sentence."""


@dataclass(slots=True, kw_only=True)
class Known:
    """What a step may refer to."""

    vms: frozenset[str] | None = None
    """None: the fleet is unknown, so nothing is checked."""
    hosts: frozenset[str] | None = None
    events: list[str] = field(default_factory=list[str])
    """The names of the steps so far that make events."""


def check_names(
    keys: Keys,
    key: str,
    found: tuple[str, ...],
    known: frozenset[str] | None,
    what: str,
) -> None:
    """Tell of the names that the fleet does not have; `what` is what they should be."""
    for name in found:
        if known is not None and name not in known:
            meant = did_you_mean(name, sorted(known))
            keys.blame(key, f"there is no {what} {quoted(name)}{meant}")


class StepReader:
    """The reading of one step."""

    def __init__(
        self,
        table: Mapping[str, object],
        *,
        known: Known,
        blame: Blame,
    ) -> None:
        """Read `table`; problems are told to `blame`."""
        self.keys = Keys(table, lambda key, message: blame(key, "", message))
        self.known = known
        self._table = table
        self._blame = blame

    def read(self, line: int) -> Step | None:
        """Return the step; None where it does nothing that is known."""
        found = [key for key in ACTS if key in self._table]
        if len(found) != 1:
            self._blame_acts(found)
            return None
        at: Micros | None = None
        after: Micros = 0
        if "at" in self.keys:
            at = self.keys.take("at", validators.duration, 0)
        if "after" in self.keys:
            after = self.keys.take("after", validators.duration, 0)
            if "at" in self.keys:
                self.keys.blame("after", "a step has either `at` or `after`")
        act = ACTS[found[0]](self)
        name = self._name(act, found[0])
        lenient = self.keys.take("may_be_refused", validators.yes, default=False)
        self.keys.close(ACTS)
        return Step(
            line=line,
            act=act,
            at=at,
            after=after,
            may_be_refused=lenient,
            name=name,
        )

    def _blame_acts(self, found: list[str]) -> None:
        if found:
            both = " and ".join(quoted(key) for key in found[:2])
            self._blame(found[1], "", f"a step does one thing; this has {both}")
            return
        strange = [key for key in self._table if key not in COMMON]
        for key in strange:
            meant = did_you_mean(key, ACTS)
            self._blame(key, "", f"there is no such step{meant}")
        if not strange:
            self._blame("", "", f"does nothing; steps are {', '.join(ACTS)}")

    def _name(self, act: Act, key: str) -> str:
        makes_events = isinstance(act, Publish) or (
            isinstance(act, Order) and act.verb != "restore"
        )
        if not makes_events:
            if "as" in self.keys:
                self.keys.take("as", validators.name, "")
                self.keys.blame("as", f"a step `{key}` makes no event to be named")
            return ""
        events = self.known.events
        numbered = (f"e{number}" for number in count(len(events) + 1))
        usual = next(name for name in numbered if name not in events)
        name = self.keys.take("as", validators.name, usual)
        if name in events:
            self.keys.blame("as", f"there is an event {quoted(name)} already")
        events.append(name)
        return name

    # What several steps have

    def inside(self, key: str) -> Keys:
        """Return the keys of the table that is the value of `key`."""
        nothing: Mapping[str, object] = {}
        table = self.keys.take(key, validators.table, nothing)
        if table is nothing:
            # It was told already; that its keys are missing is nothing new.
            return Keys(table, lambda _key, _message: None)
        return Keys(table, partial(self._blame, key))

    def vms(self, keys: Keys, key: str, found: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names as they are; tell of those that are no VMs."""
        check_names(keys, key, found, self.known.vms, "vm")
        return found

    def hosts(self, keys: Keys, key: str, found: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names as they are; tell of those that are no hosts."""
        check_names(keys, key, found, self.known.hosts, "host")
        return found

    def target(self, key: str, found: tuple[str, ...]) -> tuple[str, ...]:
        """Return one name as it is; tell if it is neither a host nor a VM."""
        known = self.known
        if len(found) > 1:
            self.keys.blame(key, "takes one name")
        elif known.vms is not None and known.hosts is not None:
            both = known.vms | known.hosts
            check_names(self.keys, key, found, both, "host or vm")
        return found

    def event(self, keys: Keys, key: str) -> str:
        """Return the name of the event that `key` has, or the latest without it."""
        events = self.known.events
        if key not in keys:
            keys.take(key, validators.name, "")
            if not events:
                keys.blame(key, "is missing: no step before has made an event")
            return events[-1] if events else ""
        name = keys.take(key, validators.name, "")
        if name and name not in events:
            told = f"; so far there are {listed(events)}" if events else ""
            keys.blame(key, f"no step before has made an event {quoted(name)}{told}")
        return name


# Orders


def _order(verb: str, step: StepReader) -> Order:
    keys = step.keys
    targets = keys.take(verb, validators.names, ())
    if verb in {"maintain", "predict-failure"}:
        step.hosts(keys, verb, targets)
        if verb == "predict-failure" and len(targets) > 1:
            keys.blame(verb, "takes one host")
    elif verb in {"fail", "restore"}:
        step.target(verb, targets)
        return Order(verb=verb, targets=targets)
    else:
        step.vms(keys, verb, targets)
    order = Order(
        verb=verb,
        targets=targets,
        duration_seconds=_maybe(keys, "duration", validators.seconds),
        description=_maybe(keys, "description", validators.any_text),
    )
    if verb == "predict-failure":
        return replace(order, notice=_maybe(keys, "in", validators.duration))
    order = replace(order, not_before=_maybe(keys, "not_before", validators.delay))
    if verb != "maintain":
        return order
    return replace(
        order,
        impact=keys.need("impact", validators.one_of(IMPACTS), Action.FREEZE),
        emergency=keys.take("emergency", validators.switch, default=False),
        at_once=_maybe(keys, "at_once", validators.count(1, TARGETS_MAX)),
    )


def _maybe(
    keys: Keys, key: str, read: Callable[[object], validators.T]
) -> validators.T | None:
    return keys.take(key, read, None)


def _publish(step: StepReader) -> Publish:
    keys = step.inside("event")
    event_type = keys.need("type", validators.member(EventType), EventType.FREEZE)
    usual = next(source for kind, source in VERBS if kind is event_type)
    source = keys.take("source", validators.member(EventSource), usual)
    if (event_type, source) not in VERBS:
        keys.blame(
            "source", f"a {event_type.value} never comes from {source.value} (5.9)"
        )
    wanted = Staged(
        event_type=event_type,
        vms=step.vms(keys, "vms", keys.need("vms", validators.names, ())),
        source=source,
        notice=keys.need("notice", validators.duration, 0),
        duration_seconds=_maybe(keys, "duration", validators.seconds),
        description=_maybe(keys, "description", validators.any_text),
        migrates=keys.take("migrate", validators.switch, default=False),
        routine=keys.take("routine", validators.switch, default=False),
    )
    if wanted.migrates and event_type is not EventType.FREEZE:
        keys.blame("migrate", "only a Freeze is a live migration")
    keys.close()
    return Publish(wanted=wanted)


# What becomes of events


def _move(step: StepReader) -> MoveOn:
    return MoveOn(
        event=step.event(step.keys, "move"),
        stop=step.keys.need("to", validators.member(Stop), Stop.STARTED),
    )


def _approve(step: StepReader) -> Approve:
    event = step.event(step.keys, "approve")
    by = step.keys.take("by", validators.name, "")
    if by:
        step.vms(step.keys, "by", (by,))
    return Approve(event=event, by=by)


def _of_vms(
    kind: type[Withhold] | type[Release] | type[Disable], key: str, step: StepReader
) -> Act:
    vms = step.keys.take(key, validators.names, ())
    return kind(vms=step.vms(step.keys, key, vms))


# Faults


def _set_faults(step: StepReader) -> SetFaults:
    keys = step.keys
    vms = step.vms(keys, "vms", keys.take("vms", validators.names, ()))

    def read(value: object) -> SetFaults:
        line = validators.text(value)
        try:
            return SetFaults(words=line, playbook=syntax.parse_playbook(line, vms=vms))
        except ForewarnError as error:
            raise ValueError(error.message) from error

    nothing = SetFaults(words="", playbook=Playbook(steps=()))
    return keys.take("fault", read, nothing)


def _clear_faults(step: StepReader) -> ClearFaults:
    vms = step.keys.take("clear-faults", validators.all_or_names, ())
    return ClearFaults(vms=step.vms(step.keys, "clear-faults", vms))


# Expectations

_READERS: Mapping[Wanted, Callable[[object], object]] = {
    Wanted.APPROVED: validators.yes,
    Wanted.APPROVED_BY: validators.names,
    Wanted.NOT_APPROVED: validators.all_or_names,
    Wanted.SEEN_BY: validators.names,
    Wanted.POLLED_BY: validators.names,
    Wanted.NO_DEVIATION: validators.all_or_names,
    Wanted.STATUS: validators.member(EventPhase),
    Wanted.RECOVERED: validators.all_or_names,
    Wanted.SHOWN_TO: validators.names,
    Wanted.HIDDEN_FROM: validators.names,
}

WITHOUT_EVENT = frozenset({Wanted.POLLED_BY, Wanted.NO_DEVIATION})
"""What is expected of a client whatever happens."""

AT_ONCE = frozenset({Wanted.NO_DEVIATION, Wanted.SHOWN_TO, Wanted.HIDDEN_FROM})
"""What is looked at once, unless a time is given."""


def _expect(step: StepReader) -> Expect:
    keys = step.inside("expect")
    found = [wanted for wanted in Wanted if wanted.value in keys]
    if len(found) != 1:
        for key in (*(wanted.value for wanted in Wanted), "within", "event", "as"):
            keys.take(key, lambda _value: None, None)
        if not keys.close():
            known = ", ".join(wanted.value for wanted in Wanted)
            key = found[1].value if found else ""
            keys.blame(key, f"one thing is expected, of {known}")
        return Expect(expectation=Expectation(wanted=Wanted.APPROVED, within=SECOND))
    [wanted] = found
    value = keys.take(wanted.value, _READERS[wanted], ())
    expectation = Expectation(
        wanted=wanted,
        within=(
            keys.take("within", validators.duration, 0)
            if wanted in AT_ONCE
            else keys.need("within", validators.duration, 0)
        ),
        stand=value if isinstance(value, EventPhase) else None,
    )
    if isinstance(value, tuple):
        found_vms = cast("tuple[str, ...]", value)
        vms = step.vms(keys, wanted.value, found_vms)
        expectation = replace(expectation, vms=vms)
    if wanted is Wanted.SEEN_BY:
        status = _maybe(keys, "as", validators.one_of(STATUSES))
        expectation = replace(expectation, status=status)
    if wanted not in WITHOUT_EVENT:
        expectation = replace(expectation, event=step.event(keys, "event"))
    keys.close()
    return Expect(expectation=expectation)


ACTS: Mapping[str, Callable[[StepReader], Act]] = {
    "event": _publish,
    **{
        verb: partial(_order, verb)
        for verb in (
            "maintain",
            "reboot",
            "redeploy",
            "evict",
            "terminate",
            "upgrade-os",
            "reimage",
            "fail",
            "restore",
            "predict-failure",
        )
    },
    "cancel": lambda step: Cancel(event=step.event(step.keys, "cancel")),
    "approve": _approve,
    "move": _move,
    "withhold": partial(_of_vms, Withhold, "withhold"),
    "release": partial(_of_vms, Release, "release"),
    "disable": partial(_of_vms, Disable, "disable"),
    "jump": lambda step: Jump(by=step.keys.take("jump", validators.duration, 0)),
    "fault": _set_faults,
    "clear-faults": _clear_faults,
    "expect": _expect,
    "say": lambda step: Say(text=step.keys.take("say", validators.text, "")),
}
"""What a step can do, by its key."""
