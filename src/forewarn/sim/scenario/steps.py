"""The steps of a scenario file, checked against each other and against the fleet.

A step has one key that says what is done, the keys that belong to it, and a time.
Steps come one after the other, so a name can only be used after the step that
gives it. A step with a problem is left out: the file is refused at its end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from forewarn.problems import did_you_mean, listed, quoted
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.settings.forms import Form, Option
from forewarn.settings.tables import Tables
from forewarn.sim import staged
from forewarn.sim.faults import syntax
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import (
    Act,
    Approve,
    Cancel,
    EventPhase,
    Expect,
    Expectation,
    ForVms,
    Jump,
    MoveOn,
    Order,
    Publish,
    Say,
    SetFaults,
    Step,
    Wanted,
)
from forewarn.sim.scenario.validators import Forms
from forewarn.sim.staged import Staged, Stop
from forewarn.verbs import model as verbs
from forewarn.verbs.model import TARGETS_MAX, Argument, Kind
from forewarn.verbs.table import VERBS

STATUSES = (EventStatus.SCHEDULED.value, EventStatus.STARTED.value)

# Of each thing that is done: its keys, its own first.

_EVENT: Mapping[str, Option] = {
    "type": Option(
        form=Forms.WORD, words=tuple(each.value for each in EventType), is_needed=True
    ),
    "source": Option(form=Forms.WORD, words=tuple(each.value for each in EventSource)),
    "vms": Option(form=Forms.VMS, most=validators.NAMES_MAX, is_needed=True),
    "notice": Option(form=Forms.DURATION, is_needed=True),
    "duration": Option(form=Forms.SECONDS),
    "description": validators.ANY_TEXT,
    "migrate": validators.SWITCH,
    "routine": validators.SWITCH,
}

_TARGETS: Mapping[Kind, Option] = {
    Kind.HOST: validators.HOSTS,
    Kind.VM: validators.VMS,
    Kind.EITHER: Option(form=Forms.TARGETS, most=validators.NAMES_MAX),
}

_FORMS: Mapping[verbs.Form, Form] = {
    verbs.Form.NAME: Forms.NAME,
    verbs.Form.NAMES: Forms.VMS,
    verbs.Form.WORD: Forms.WORD,
    verbs.Form.SWITCH: Forms.SWITCH,
    verbs.Form.DURATION: Forms.DURATION,
    verbs.Form.SECONDS: Forms.SECONDS,
    verbs.Form.MOMENT: Forms.DELAY,
}
"""How a step writes an argument of each form, but texts and counts."""


def _argument(argument: Argument) -> Option:
    if argument.form is verbs.Form.TEXT:
        return validators.ANY_TEXT
    if argument.form is verbs.Form.COUNT:
        return Option(form=Forms.COUNT, least=1, most=TARGETS_MAX)
    return Option(
        form=_FORMS[argument.form],
        words=argument.words,
        is_needed=argument.is_needed,
    )


ARGUMENTS: Mapping[str, Mapping[str, Option]] = {
    name: {each.key: _argument(each) for each in entry.arguments}
    for name, entry in VERBS.items()
}
"""The arguments of each verb, as a step writes them."""

_ORDERS: Mapping[str, Mapping[str, Option]] = {
    name: {name: _TARGETS[entry.targets.kind], **ARGUMENTS[name]}
    for name, entry in VERBS.items()
    if entry.targets.in_fleet
}

ACTS: Mapping[str, Mapping[str, Option]] = {
    "event": {"event": Option(form=Forms.TABLE, keys=_EVENT)},
    **_ORDERS,
    "cancel": {"cancel": validators.EVENT},
    "approve": {"approve": validators.EVENT, "by": Option(form=Forms.VMS, most=1)},
    "move": {
        "move": validators.EVENT,
        "to": Option(
            form=Forms.WORD, words=tuple(stop.value for stop in Stop), is_needed=True
        ),
    },
    "withhold": {"withhold": validators.VMS},
    "release": {"release": validators.VMS},
    "disable": {"disable": validators.VMS},
    "jump": {"jump": validators.DURATION},
    "fault": {"fault": Option(form=Forms.FAULTS), "vms": validators.VMS},
    "clear-faults": {"clear-faults": validators.ALL_OR_VMS},
    "expect": {"expect": Option(form=Forms.TABLE)},
    "say": {"say": validators.TEXT},
}
"""What a step can do, by its key."""

COMMON: Mapping[str, Option] = {
    "at": validators.DURATION,
    "after": validators.DURATION,
    "as": Option(form=Forms.NAME),
    "may_be_refused": validators.YES,
}
"""What every step may have."""

_MAKES_EVENTS = frozenset({"event", *_ORDERS}) - {"restore"}

_WANTED: Mapping[Wanted, Option] = {
    Wanted.APPROVED: validators.YES,
    Wanted.APPROVED_BY: validators.VMS,
    Wanted.NOT_APPROVED: validators.ALL_OR_VMS,
    Wanted.SEEN_BY: validators.VMS,
    Wanted.POLLED_BY: validators.VMS,
    Wanted.NO_DEVIATION: validators.ALL_OR_VMS,
    Wanted.STATUS: Option(
        form=Forms.WORD, words=tuple(each.value for each in EventPhase)
    ),
    Wanted.RECOVERED: validators.ALL_OR_VMS,
    Wanted.SHOWN_TO: validators.VMS,
    Wanted.HIDDEN_FROM: validators.VMS,
}

WITHOUT_EVENT = frozenset({Wanted.POLLED_BY, Wanted.NO_DEVIATION})
"""What is expected of a client whatever happens."""

AT_ONCE = frozenset({Wanted.NO_DEVIATION, Wanted.SHOWN_TO, Wanted.HIDDEN_FROM})
"""What is looked at once, unless a time is given."""

_STATUS: Mapping[str, Option] = {"as": Option(form=Forms.WORD, words=STATUSES)}

_EXPECT: Mapping[Wanted, Mapping[str, Option]] = {
    wanted: {
        wanted.value: option,
        "within": Option(form=Forms.DURATION, is_needed=wanted not in AT_ONCE),
        **({} if wanted in WITHOUT_EVENT else {"event": validators.EVENT}),
        **(_STATUS if wanted is Wanted.SEEN_BY else {}),
    }
    for wanted, option in _WANTED.items()
}
"""The keys of each expectation."""

_ANY_EXPECT = {key: option for keys in _EXPECT.values() for key, option in keys.items()}

_NAMED: Mapping[Form, tuple[str, ...]] = {
    Forms.VMS: ("vm",),
    Forms.ALL_OR_VMS: ("vm",),
    Forms.HOSTS: ("host",),
    Forms.TARGETS: ("host", "vm"),
}
"""What the names of a form must be names of."""


@dataclass(slots=True, kw_only=True)
class Known:
    """What a step may refer to."""

    names: Mapping[str, Collection[str]] | None = None
    """Of VMs and hosts; None: the fleet is unknown, so nothing is checked."""
    events: list[str] = field(default_factory=list[str])
    """The names of the steps so far that make events."""

    def check(
        self, tables: Tables, key: str, found: Sequence[str], *kinds: str
    ) -> None:
        """Tell of the names that the fleet does not have."""
        if self.names is None:
            return
        known = {name for kind in kinds for name in self.names[kind]}
        for name in found:
            if name not in known:
                meant = did_you_mean(name, sorted(known))
                what = " or ".join(kinds)
                tables.blame(key, f"there is no {what} {quoted(name)}{meant}")


def read(
    tables: Tables, entries: Sequence[Mapping[str, Any]], known: Known
) -> tuple[Step, ...]:
    """Return the steps of the tables; problems are kept."""
    steps = [
        _StepReader(tables, f"step.{number}", known).read(entry)
        for number, entry in enumerate(entries, start=1)
    ]
    return tuple(step for step in steps if step is not None)


class _StepReader:
    """The reading of one step."""

    def __init__(self, tables: Tables, where: str, known: Known) -> None:
        self._tables = tables
        self._where = where
        self._known = known

    def read(self, entry: Mapping[str, Any]) -> Step | None:
        """Return the step; None where there is a problem with it."""
        told = len(self._tables.problems)
        found = [key for key in ACTS if key in entry]
        if len(found) != 1:
            self._blame_acts(found, entry)
            return None
        [verb] = found
        own = self._take("", entry, {**ACTS[verb], **COMMON}, verb)
        if "at" in entry and "after" in entry:
            self._blame("after", "a step has either `at` or `after`")
        act = self._act(verb, own)
        name = self._name(verb, own.get("as", ""))
        if len(self._tables.problems) > told or act is None:
            return None
        return Step(
            line=self._tables.line(self._where),
            act=act,
            at=own.get("at"),
            after=own.get("after", 0),
            may_be_refused="may_be_refused" in own,
            name=name,
        )

    def _take(
        self,
        inner: str,
        table: Mapping[str, Any],
        keys: Mapping[str, Option],
        what: str,
    ) -> dict[str, Any]:
        """Return the sound values; tell of names that there are not."""
        where = f"{self._where}.{inner}" if inner else self._where
        found = self._tables.take(where, table, keys, of=f" for `{what}`")
        events = self._known.events
        for key, option in keys.items():
            value = found.get(key)
            if option.form is Forms.EVENT and key not in table:
                if not events:
                    self._tables.blame(
                        f"{where}.{key}", "is missing: no step before has made an event"
                    )
                found[key] = events[-1] if events else ""
            elif option.form is Forms.EVENT and value and value not in events:
                so_far = f"; so far there are {listed(events)}" if events else ""
                self._tables.blame(
                    f"{where}.{key}",
                    f"no step before has made an event {quoted(value)}{so_far}",
                )
            elif value and (kinds := _NAMED.get(option.form)):
                self._known.check(self._tables, f"{where}.{key}", value, *kinds)
        return found

    def _blame(self, key: str, message: str) -> None:
        self._tables.blame(f"{self._where}.{key}" if key else self._where, message)

    def _blame_acts(self, found: list[str], entry: Mapping[str, Any]) -> None:
        if found:
            both = " and ".join(quoted(key) for key in found[:2])
            self._blame(found[1], f"a step does one thing; this has {both}")
            return
        strange = [key for key in entry if key not in COMMON]
        for key in strange:
            self._blame(key, f"there is no such step{did_you_mean(key, ACTS)}")
        if not strange:
            self._blame("", f"does nothing; steps are {', '.join(ACTS)}")

    def _name(self, verb: str, given: str) -> str:
        """Return the name of the events that a step makes; empty where it makes none."""
        if verb not in _MAKES_EVENTS:
            if given:
                self._blame("as", f"a step `{verb}` makes no event to be named")
            return ""
        events = self._known.events
        numbered = (f"e{number}" for number in count(len(events) + 1))
        name = given or next(each for each in numbered if each not in events)
        if name in events:
            self._blame("as", f"there is an event {quoted(name)} already")
        events.append(name)
        return name

    def _act(self, verb: str, own: dict[str, Any]) -> Act | None:
        """Return what a step does, of its sound keys; None: it cannot be told."""
        value = own.get(verb)
        if value is None or any(
            option.is_needed and key not in own for key, option in ACTS[verb].items()
        ):
            return None
        if verb in _ORDERS:
            return _order(verb, own)
        vms: tuple[str, ...] = own.get("vms", own.get("by", ()))
        match verb:
            case "event":
                return self._publish(value)
            case "cancel":
                return Cancel(event=value)
            case "approve":
                return Approve(event=value, by=next(iter(vms), ""))
            case "move":
                return MoveOn(event=value, stop=Stop(own["to"]))
            case "withhold" | "release" | "disable" | "clear-faults":
                return ForVms(what=verb, vms=value)
            case "jump":
                return Jump(by=value)
            case "fault":
                playbook = syntax.parse_playbook(value, vms=vms)
                return SetFaults(words=value, playbook=playbook)
            case "say":
                return Say(text=value)
            case _:
                return self._expect(value)

    def _publish(self, event: Mapping[str, Any]) -> Publish | None:
        # Its names are looked at here: they are in a table of the step's.
        if vms := event.get("vms"):
            self._known.check(self._tables, f"{self._where}.event.vms", vms, "vm")
        if "type" not in event:
            return None
        event_type = EventType(event["type"])
        usual = next(source for kind, source in staged.VERBS if kind is event_type)
        source = EventSource(event.get("source", usual))
        if (event_type, source) not in staged.VERBS:
            self._blame(
                "event.source",
                f"a {event_type.value} never comes from {source.value} (5.9)",
            )
        if event.get("migrate") and event_type is not EventType.FREEZE:
            self._blame("event.migrate", "only a Freeze is a live migration")
        if not event.keys() >= {"vms", "notice"}:
            return None
        return Publish(
            wanted=Staged(
                event_type=event_type,
                vms=event["vms"],
                source=source,
                notice=event["notice"],
                duration_seconds=event.get("duration"),
                description=event.get("description"),
                migrates=event.get("migrate", False),
                routine=event.get("routine", False),
            )
        )

    def _expect(self, table: Mapping[str, Any]) -> Expect | None:
        found = [wanted for wanted in Wanted if wanted.value in table]
        if len(found) != 1:
            told = len(self._tables.problems)
            self._tables.take(f"{self._where}.expect", table, {**_ANY_EXPECT})
            if len(self._tables.problems) == told or found:
                known = ", ".join(wanted.value for wanted in Wanted)
                key = f"expect.{found[1].value}" if found else "expect"
                self._blame(key, f"one thing is expected, of {known}")
            return None
        [wanted] = found
        own = self._take("expect", table, _EXPECT[wanted], wanted.value)
        value: Any = own.get(wanted.value)
        return Expect(
            expectation=Expectation(
                wanted=wanted,
                within=own.get("within", 0),
                vms=() if value is True or isinstance(value, str) else value or (),
                event=own.get("event", ""),
                stand=EventPhase(value) if isinstance(value, str) else None,
                status=EventStatus(own["as"]) if "as" in own else None,
            )
        )


def _order(verb: str, own: Mapping[str, Any]) -> Order:
    values = {key: own[key] for key in ARGUMENTS[verb] if own.get(key) is not None}
    return Order(verb=verb, targets=own[verb], values=values)
