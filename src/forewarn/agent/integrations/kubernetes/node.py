"""What is said to a node object, and what of it was said by forewarn. Pure.

An annotation of the node remembers which handler did what, so that only that is
undone, also after the VM's disk is lost. It changes in the same request as the taint
and the cordon, under the node's resourceVersion: either all of it is there, or nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forewarn.agent.foreign import items, members, objects
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.protocol.notices import Notice

ANNOTATION = "forewarn/maintenance"
"""On the node: what each handler did to it, as JSON."""

COMPONENT = "forewarn-agent"
"""Who it is that emits Events."""

MESSAGE_CHARACTERS_MAX = 1024
"""Of an Event, as the API has it; of a condition it is enough."""

REASON_CHARACTERS_MAX = 100
"""Of an event's type in a reason, which may have 128 with its ending."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

QUIET = "NoMaintenance"
"""The reason of a condition that is False."""

_TAINT = re.compile(
    r"(?P<key>(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)"
    r"(?P<value>=(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?)?"
    rf":(?P<effect>{'|'.join(EFFECTS)})",
    re.ASCII,
)
_CONDITION = re.compile(
    r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.ASCII
)
_NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_NO_REASON = re.compile(r"[^A-Za-z0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint as the settings have it."""

    key: str
    effect: str
    value: str | None = None
    """None: the type of the event."""

    @property
    def identity(self) -> str:
        """Return what a node has once at most: key and effect."""
        return f"{self.key}:{self.effect}"


def parse_taint(text: str) -> Taint:
    """Return the taint of `key:Effect` or `key=value:Effect`; raises ValueError."""
    found = _TAINT.fullmatch(text)
    if found is None:
        effects = ", ".join(EFFECTS)
        raise ValueError(
            f"{text[:80]!r} is no taint such as forewarn/maintenance:NoSchedule, "
            f"with one of {effects}"
        )
    value = found["value"]
    return Taint(
        key=found["key"],
        effect=found["effect"],
        value=None if value is None else value[1:],
    )


def is_condition(text: str) -> bool:
    """Tell whether a text may be the type of a condition."""
    return _CONDITION.fullmatch(text) is not None


def label(text: str) -> str:
    """Return an event's type as the value of a taint may be written."""
    return _NO_LABEL.sub("-", text)[:63].strip("-._")


def reason(notice: Notice | None, *, is_over: bool = False) -> str:
    """Return the reason of an event: `RebootScheduled`, `RebootOver`."""
    words = "" if notice is None else _NO_REASON.sub("", notice.event_type)
    kind = words[:REASON_CHARACTERS_MAX] or "Event"
    if is_over:
        return f"{kind}Over"
    has_started = notice is not None and notice.has_started
    return f"{kind}Started" if has_started else f"{kind}Scheduled"


def sentence(notice: Notice | None, *, is_over: bool = False) -> str:
    """Return what is told of an event."""
    kind = (notice.event_type if notice is not None else "") or "Event"
    if is_over:
        return f"{kind} of this VM is over"[:MESSAGE_CHARACTERS_MAX]
    due = None if notice is None else notice.not_before
    when = "may begin at any moment"
    if notice is not None and notice.has_started:
        when = "has started"
    elif due is not None:
        when = f"not before {format_instant(due)}"
    text = f"{kind} of this VM, {when}"
    if notice is not None and notice.description:
        text = f"{text}: {notice.description}"
    return text[:MESSAGE_CHARACTERS_MAX]


# What was done, by whom


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What one handler wants of the node while it is prepared."""

    cordon: bool = False
    taints: tuple[str, ...] = ()
    """Identities of those that forewarn set: more than one where the settings have
    changed in the middle of an event."""
    conditions: tuple[str, ...] = ()
    """Their types."""

    @property
    def is_any(self) -> bool:
        """Tell whether there is anything to remember."""
        return self.cordon or bool(self.taints) or bool(self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the annotation says."""

    deeds: Mapping[str, Deed] = field(default_factory=dict[str, Deed])
    """By handler."""
    cordoned: bool = False
    """Whether it was forewarn that made the node unschedulable."""

    def written(self) -> str | None:
        """Return the annotation; None: there is nothing to say."""
        if not self.deeds:
            return None
        handlers = {
            name: {
                key: value
                for key, value in (
                    ("cordon", deed.cordon),
                    ("taints", deed.taints),
                    ("conditions", deed.conditions),
                )
                if value
            }
            for name, deed in sorted(self.deeds.items())
        }
        return json.dumps({"cordoned": self.cordoned, "handlers": handlers})

    def others(self, handler: str) -> tuple[Deed, ...]:
        """Return what handlers but this one want."""
        return tuple(deed for name, deed in self.deeds.items() if name != handler)


def read_record(node: Mapping[str, Any]) -> Record:
    """Return what a node's annotation says; what cannot be read says nothing."""
    text = _at(node, "metadata", "annotations").get(ANNOTATION)
    try:
        whole = members(json.loads(str(text)))
    except ValueError:
        return Record()
    deeds: dict[str, Deed] = {}
    for name, found in members(whole.get("handlers")).items():
        each = members(found)
        deeds[name] = Deed(
            cordon=each.get("cordon") is True,
            taints=tuple(map(str, items(each.get("taints")))),
            conditions=tuple(map(str, items(each.get("conditions")))),
        )
    return Record(deeds=deeds, cordoned=whole.get("cordoned") is True)


# What is sent


def prepare_patch(
    node: Mapping[str, Any],
    handler: str,
    *,
    taint: Taint | None,
    cordon: bool,
    condition: str,
    event_type: str,
) -> dict[str, Any] | None:
    """Return the merge patch that closes a node; None: it is closed already."""
    record, spec = read_record(node), _at(node, "spec")
    changes: dict[str, Any] = {}
    is_cordoned = spec.get("unschedulable") is True
    if cordon and not is_cordoned:
        changes["unschedulable"] = True
        record = replace(record, cordoned=True)
    before = record.deeds.get(handler, Deed())
    marks = dict.fromkeys(before.taints)
    if taint is not None:
        ours = {each for deed in record.deeds.values() for each in deed.taints}
        value = label(event_type) if taint.value is None else taint.value
        taints, is_ours = _tainted(spec, taint, value, ours)
        if is_ours:
            marks[taint.identity] = None
        if taints is not None:
            changes["taints"] = taints
    types = dict.fromkeys(before.conditions)
    if condition:
        types[condition] = None
    # Where an operator had cordoned it, there is nothing that could be undone.
    deed = Deed(
        cordon=(cordon or before.cordon) and record.cordoned,
        taints=tuple(marks),
        conditions=tuple(types),
    )
    if deed.is_any:
        record = replace(record, deeds={**record.deeds, handler: deed})
    return _patch(node, changes, record)


def recover_patch(node: Mapping[str, Any], handler: str) -> dict[str, Any] | None:
    """Return the merge patch that opens a node again; None: nothing is to be done."""
    record, spec = read_record(node), _at(node, "spec")
    deed = record.deeds.get(handler)
    if deed is None:
        return None
    others = record.others(handler)
    changes: dict[str, Any] = {}
    cordoned = record.cordoned
    if deed.cordon and cordoned and not any(each.cordon for each in others):
        cordoned = False
        if spec.get("unschedulable") is True:
            changes["unschedulable"] = None
    gone = set(deed.taints).difference(*(each.taints for each in others))
    kept = [each for each in _taints(spec) if _identity(each) not in gone]
    if len(kept) < len(_taints(spec)):
        changes["taints"] = kept or None
    left = {name: each for name, each in record.deeds.items() if name != handler}
    return _patch(node, changes, Record(deeds=left, cordoned=cordoned))


def _tainted(
    spec: Mapping[str, Any], taint: Taint, value: str, ours: set[str]
) -> tuple[list[Any] | None, bool]:
    """Return the taints to set, None: as they are; and whether ours is among them."""
    found = [each for each in _taints(spec) if _identity(each) == taint.identity]
    is_ours = not found or taint.identity in ours
    if not is_ours or (found and str(found[0].get("value") or "") == value):
        return None, is_ours
    kept = [each for each in _taints(spec) if _identity(each) != taint.identity]
    fresh = {"key": taint.key, "value": value, "effect": taint.effect}
    return [*kept, fresh], True


def _patch(
    node: Mapping[str, Any], changes: Mapping[str, Any], record: Record
) -> dict[str, Any] | None:
    metadata = _at(node, "metadata")
    written = record.written()
    has = _at(node, "metadata", "annotations").get(ANNOTATION)
    if not changes and written == has:
        return None
    patch: dict[str, Any] = {
        "metadata": {
            # Nobody may have changed it meanwhile: taints are replaced as a whole.
            "resourceVersion": metadata.get("resourceVersion"),
            "annotations": {ANNOTATION: written},
        }
    }
    if changes:
        patch["spec"] = dict(changes)
    return patch


def condition_patch(
    node: Mapping[str, Any],
    kind: str,
    notice: Notice | None,
    *,
    is_on: bool,
    now: Micros,
) -> dict[str, Any]:
    """Return the strategic merge patch of a node's status for one condition."""
    status = "True" if is_on else "False"
    moment = _second(now)
    since = moment
    for each in objects(_at(node, "status").get("conditions")):
        if _is(each, kind, status):
            since = str(each.get("lastTransitionTime") or moment)
    told = {
        "type": kind,
        "status": status,
        "reason": reason(notice) if is_on else QUIET,
        "message": sentence(notice) if is_on else "No maintenance is prepared for",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": since,
    }
    return {"status": {"conditions": [told]}}


def condition_is_on(node: Mapping[str, Any], kind: str) -> bool:
    """Tell whether a condition of this type says True."""
    found = objects(_at(node, "status").get("conditions"))
    return any(_is(each, kind, "True") for each in found)


def event(
    node: Mapping[str, Any],
    *,
    reason: str,
    message: str,
    mark: str,
    is_warning: bool,
    now: Micros,
) -> dict[str, Any]:
    """Return a core/v1 Event about a node; the same `mark` is the same Event."""
    metadata = _at(node, "metadata")
    name, moment = str(metadata.get("name")), _second(now)
    place = re.sub(r"[^a-z0-9-]+", "-", mark.lower()).strip("-")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{place}"[:253], "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": name,
            "uid": metadata.get("uid"),
        },
        "reason": reason,
        "message": message[:MESSAGE_CHARACTERS_MAX],
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": COMPONENT, "host": name},
        "reportingComponent": COMPONENT,
        "reportingInstance": name,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _is(condition: Mapping[str, Any], kind: str, status: str) -> bool:
    return condition.get("type") == kind and condition.get("status") == status


def _second(now: Micros) -> str:
    return format_instant(now - now % SECOND)


def _identity(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key')}:{taint.get('effect')}"


def _taints(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return objects(spec.get("taints"))


def _at(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = members(value).get(key)
    return members(value)
