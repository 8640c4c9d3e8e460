"""The reader of the steps of a scenario file, with checks against the fleet.

A step has one key for its action, the keys of this action, and a time. Steps run in order,
so a name can only be used after the step that defines it. A step with a problem is
skipped, and the file is refused at its end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from forewarn.drivers.port import StopCause
from forewarn.drivers.watch import TEXT_CHARACTERS_MAX
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
    See,
    SetFaults,
    Step,
    Wanted,
)
from forewarn.sim.scenario.validators import Forms
from forewarn.verbs import model as verbs
from forewarn.verbs.table import VERBS

STATUSES = (EventStatus.SCHEDULED.value, EventStatus.STARTED.value)

# The keys of each action, starting with the key that identifies it.

_EVENT: Mapping[str, Option] = {
    "type": Option(
        form=Forms.WORD,
        words=tuple(event_type.value for event_type in EventType),
        is_needed=True,
    ),
    "source": Option(
        form=Forms.WORD, words=tuple(source.value for source in EventSource)
    ),
    "vms": Option(form=Forms.VMS, most=validators.NAMES_MAX, is_needed=True),
    "notice": Option(form=Forms.DURATION, is_needed=True),
    "duration": Option(form=Forms.SECONDS),
    "description": validators.ANY_TEXT,
    "migrate": validators.SWITCH,
    "routine": validators.SWITCH,
}

_SIGHTING: Mapping[str, Option] = {
    "vms": Option(form=Forms.VMS, most=validators.NAMES_MAX, is_needed=True),
    "running": Option(form=Forms.SWITCH, is_needed=True),
    "host": Option(form=Forms.HOSTS, most=1),
    "cause": Option(form=Forms.WORD, words=tuple(cause.value for cause in StopCause)),
    "text": validators.TEXT,
}

_TARGETS: Mapping[verbs.Kind, Option] = {
    verbs.Kind.HOST: validators.HOSTS,
    verbs.Kind.VM: validators.VMS,
    verbs.Kind.VM_OR_SCOPE: Option(form=Forms.SCOPES, most=validators.NAMES_MAX),
    verbs.Kind.SCOPE: Option(form=Forms.SCOPES, most=validators.NAMES_MAX),
    verbs.Kind.EITHER: Option(form=Forms.TARGETS, most=validators.NAMES_MAX),
}

_FORMS: Mapping[verbs.Form, Form] = {
    verbs.Form.NAME: Forms.NAME,
    verbs.Form.NAMES: Forms.VMS,
    verbs.Form.LINES: Forms.LINES,
    verbs.Form.WORD: Forms.WORD,
    verbs.Form.SWITCH: Forms.SWITCH,
    verbs.Form.DURATION: Forms.DURATION,
    verbs.Form.SECONDS: Forms.SECONDS,
    verbs.Form.MOMENT: Forms.DELAY,
}
"""The forms of arguments in a step, except texts and counts."""


def _argument(argument: verbs.Argument) -> Option:
    if argument.form is verbs.Form.TEXT:
        return validators.ANY_TEXT
    if argument.form is verbs.Form.COUNT:
        return Option(form=Forms.COUNT, least=1, most=verbs.TARGETS_MAX)
    return Option(
        form=_FORMS[argument.form],
        words=argument.words,
        is_needed=argument.is_needed,
    )


ARGUMENTS: Mapping[str, Mapping[str, Option]] = {
    name: {argument.key: _argument(argument) for argument in entry.arguments}
    for name, entry in VERBS.items()
}
"""The arguments of each verb in a step."""

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
            form=Forms.WORD,
            words=tuple(stop.value for stop in staged.Stop),
            is_needed=True,
        ),
    },
    "sighting": {"sighting": Option(form=Forms.TABLE, keys=_SIGHTING)},
    "withhold": {"withhold": validators.VMS},
    "release": {"release": validators.VMS},
    "disable": {"disable": validators.VMS},
    "jump": {"jump": validators.DURATION},
    "fault": {"fault": Option(form=Forms.FAULTS), "vms": validators.VMS},
    "clear-faults": {"clear-faults": validators.ALL_OR_VMS},
    "expect": {"expect": Option(form=Forms.TABLE)},
    "say": {"say": validators.TEXT},
}
"""The actions of steps, by key."""

COMMON: Mapping[str, Option] = {
    "at": validators.DURATION,
    "after": validators.DURATION,
    "as": Option(form=Forms.NAME),
    "may_be_refused": validators.YES,
}
"""The keys that every step may have."""

_MAKES_EVENTS = frozenset({"event"}) | {
    name for name in _ORDERS if VERBS[name].answer is verbs.Answer.REQUEST
}

_WANTED: Mapping[Wanted, Option] = {
    Wanted.APPROVED: validators.YES,
    Wanted.APPROVED_BY: validators.VMS,
    Wanted.NOT_APPROVED: validators.ALL_OR_VMS,
    Wanted.SEEN_BY: validators.VMS,
    Wanted.POLLED_BY: validators.VMS,
    Wanted.NO_DEVIATION: validators.ALL_OR_VMS,
    Wanted.STATUS: Option(
        form=Forms.WORD, words=tuple(phase.value for phase in EventPhase)
    ),
    Wanted.RECOVERED: validators.ALL_OR_VMS,
    Wanted.SHOWN_TO: validators.VMS,
    Wanted.HIDDEN_FROM: validators.VMS,
}

WITHOUT_EVENT = frozenset({Wanted.POLLED_BY, Wanted.NO_DEVIATION})
"""Expectations that do not depend on an event."""

AT_ONCE = frozenset({Wanted.NO_DEVIATION, Wanted.SHOWN_TO, Wanted.HIDDEN_FROM})
"""Expectations that are checked immediately, unless a time is given."""

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
"""The kinds of objects that the names in a form refer to."""


@dataclass(slots=True, kw_only=True)
class Known:
    """The names that a step may refer to."""

    names: Mapping[str, Collection[str]] | None = None
    """Names of VMs and hosts; None: the fleet is unknown, so nothing is checked."""
    events: list[str] = field(default_factory=list[str])
    """The names of the steps so far that create events."""

    def check(
        self, tables: Tables, key: str, names: Sequence[str], *kinds: str
    ) -> None:
        """Report names that are not in the fleet."""
        if self.names is None:
            return
        known = {name for kind in kinds for name in self.names[kind]}
        for name in names:
            if name not in known:
                meant = did_you_mean(name, sorted(known))
                kinds_text = " or ".join(kinds)
                tables.blame(key, f"{kinds_text} {quoted(name)} does not exist{meant}")


def read(
    tables: Tables, entries: Sequence[Mapping[str, Any]], known: Known
) -> tuple[Step, ...]:
    """Return the steps of the tables, and report problems."""
    steps = [
        _StepReader(tables, f"step.{number}", known).read(entry)
        for number, entry in enumerate(entries, start=1)
    ]
    return tuple(step for step in steps if step is not None)


class _StepReader:
    """A reader of one step."""

    def __init__(self, tables: Tables, where: str, known: Known) -> None:
        self._tables = tables
        self._where = where
        self._known = known

    def read(self, entry: Mapping[str, Any]) -> Step | None:
        """Return the step, or None if it has a problem."""
        problems_before = len(self._tables.problems)
        verbs = [key for key in ACTS if key in entry]
        if len(verbs) != 1:
            self._blame_acts(verbs, entry)
            return None
        [verb] = verbs
        own = self._take("", entry, {**ACTS[verb], **COMMON}, verb)
        if "at" in entry and "after" in entry:
            self._blame("after", "a step has either `at` or `after`")
        act = self._act(verb, own)
        makes_events = act.fails if isinstance(act, See) else verb in _MAKES_EVENTS
        name = self._name(verb, own.get("as", ""), makes_events=makes_events)
        if len(self._tables.problems) > problems_before or act is None:
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
        verb: str,
    ) -> dict[str, Any]:
        """Return the valid values, and report unknown names."""
        where = f"{self._where}.{inner}" if inner else self._where
        members = self._tables.take(where, table, keys, of=f" for `{verb}`")
        events = self._known.events
        for key, option in keys.items():
            value = members.get(key)
            if option.form is Forms.EVENT and key not in table:
                if not events:
                    self._tables.blame(
                        f"{where}.{key}",
                        "is missing: no earlier step has created an event",
                    )
                members[key] = events[-1] if events else ""
            elif option.form is Forms.EVENT and value and value not in events:
                so_far = f"; earlier events are {listed(events)}" if events else ""
                self._tables.blame(
                    f"{where}.{key}",
                    f"no earlier step has created an event {quoted(value)}{so_far}",
                )
            elif value and (kinds := _NAMED.get(option.form)):
                self._known.check(self._tables, f"{where}.{key}", value, *kinds)
        return members

    def _blame(self, key: str, message: str) -> None:
        self._tables.blame(f"{self._where}.{key}" if key else self._where, message)

    def _blame_acts(self, verbs: list[str], entry: Mapping[str, Any]) -> None:
        if verbs:
            both = " and ".join(quoted(key) for key in verbs[:2])
            self._blame(verbs[1], f"a step must have one action; this one has {both}")
            return
        strange = [key for key in entry if key not in COMMON]
        for key in strange:
            self._blame(key, f"unknown key of a step{did_you_mean(key, ACTS)}")
        if not strange:
            self._blame("", f"has no action; actions are {', '.join(ACTS)}")

    def _name(self, verb: str, name_given: str, *, makes_events: bool) -> str:
        """Return the name of the events that a step creates; empty if it creates none."""
        if not makes_events:
            if name_given:
                self._blame("as", f"a step `{verb}` creates no event to name")
            return ""
        events = self._known.events
        numbered = (f"e{number}" for number in count(len(events) + 1))
        name = name_given or next(
            candidate for candidate in numbered if candidate not in events
        )
        if name in events:
            self._blame("as", f"there is already an event {quoted(name)}")
        events.append(name)
        return name

    def _act(self, verb: str, own: dict[str, Any]) -> Act | None:
        """Return the action of a step from its valid keys; None: a key is missing."""
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
            case "sighting":
                return self._see(value)
            case "cancel":
                return Cancel(event=value)
            case "approve":
                return Approve(event=value, by=next(iter(vms), ""))
            case "move":
                return MoveOn(event=value, stop=staged.Stop(own["to"]))
            case "withhold" | "release" | "disable" | "clear-faults":
                return ForVms(what=verb, vms=value)
            case "jump":
                return Jump(by=value)
            case "fault":
                return SetFaults(
                    words=value, playbook=syntax.parse_playbook(value, vms=vms)
                )
            case "say":
                return Say(text=value)
            case _:
                return self._expect(value)

    def _publish(self, event: Mapping[str, Any]) -> Publish | None:
        # Check these names here, because they are in a nested table.
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
            self._blame("event.migrate", "only a Freeze can be a live migration")
        if not event.keys() >= {"vms", "notice"}:
            return None
        return Publish(
            wanted=staged.Staged(
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

    def _see(self, sighting: Mapping[str, Any]) -> See | None:
        # Check these names here, because they are in a nested table.
        hosts: tuple[str, ...] = sighting.get("host", ())
        for key, kind in (("vms", "vm"), ("host", "host")):
            where = f"{self._where}.sighting.{key}"
            self._known.check(self._tables, where, sighting.get(key, ()), kind)
        text: str = sighting.get("text", "")
        if len(text) > TEXT_CHARACTERS_MAX:
            self._blame(
                "sighting.text",
                f"must have at most {TEXT_CHARACTERS_MAX} characters, not {len(text)}",
            )
        if sighting.get("running") and "cause" in sighting:
            self._blame("sighting.cause", "only a VM that does not run has a cause")
        if not sighting.keys() >= {"vms", "running"}:
            return None
        return See(
            vms=sighting["vms"],
            is_running=sighting["running"],
            host=next(iter(hosts), ""),
            cause=StopCause(sighting.get("cause", StopCause.FAILED.value)),
            text=text,
        )

    def _expect(self, table: Mapping[str, Any]) -> Expect | None:
        kinds = [wanted for wanted in Wanted if wanted.value in table]
        if len(kinds) != 1:
            problems_before = len(self._tables.problems)
            self._tables.take(f"{self._where}.expect", table, {**_ANY_EXPECT})
            if len(self._tables.problems) == problems_before or kinds:
                known = ", ".join(wanted.value for wanted in Wanted)
                key = f"expect.{kinds[1].value}" if kinds else "expect"
                self._blame(key, f"must have exactly one of {known}")
            return None
        [wanted] = kinds
        own = self._take("expect", table, _EXPECT[wanted], wanted.value)
        value: Any = own.get(wanted.value)
        return Expect(
            expectation=Expectation(
                wanted=wanted,
                within=own.get("within", 0),
                vms=() if value is True or isinstance(value, str) else value or (),
                event=own.get("event", ""),
                phase=EventPhase(value) if isinstance(value, str) else None,
                status=EventStatus(own["as"]) if "as" in own else None,
            )
        )


def _order(verb: str, own: Mapping[str, Any]) -> Order:
    values = {key: own[key] for key in ARGUMENTS[verb] if own.get(key) is not None}
    return Order(verb=verb, targets=own[verb], values=values)
