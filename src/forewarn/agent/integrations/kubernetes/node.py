"""Build the patches of a node object, and read forewarn's record in it. Pure.

An annotation of the node records the changes of each handler, so that only those are
undone, even if the VM's disk is lost. The annotation, the taint and the cordon change in
one request with the node's resourceVersion, so either all of them change or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from forewarn.agent.foreign import items, members, objects
from forewarn.protocol.frozen import frozen_dataclass

ANNOTATION = "forewarn/maintenance"
"""The annotation with the changes of each handler, as JSON."""

EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
"""The label of a node that the cloud's load balancers exclude. Its value does not
matter."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_TAINT = re.compile(
    r"(?P<key>(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)"
    r"(?P<value>=(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?)?"
    rf":(?P<effect>{'|'.join(EFFECTS)})",
    re.ASCII,
)
_NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


@frozen_dataclass
class Taint:
    """A taint of the settings."""

    key: str
    effect: str
    value: str | None = None
    """None: the type of the event."""

    @property
    def identity(self) -> str:
        """Return the key and effect, which are unique on a node."""
        return f"{self.key}:{self.effect}"


def parse_taint(text: str) -> Taint:
    """Parse `key:Effect` or `key=value:Effect`; raises ValueError."""
    if (match := _TAINT.fullmatch(text)) is None:
        raise ValueError(
            f"{text[:80]!r} is not a valid taint such as "
            f"forewarn/maintenance:NoSchedule; the effects are {', '.join(EFFECTS)}"
        )
    return Taint(
        key=match["key"],
        effect=match["effect"],
        value=match["value"] and match["value"].removeprefix("="),
    )


def taint_for(text: str, event_type: str) -> Taint | None:
    """Return a taint of the settings with its value for an event; None: no taint."""
    taint = parse_taint(text) if text else None
    if taint is None or taint.value is not None:
        return taint
    # The event type as a valid value.
    return replace(taint, value=_NO_LABEL.sub("-", event_type)[:63].strip("-._"))


# The record of changes


@frozen_dataclass
class Changes:
    """The changes to the node that one handler needs while it is prepared."""

    cordon: bool = False
    taints: tuple[str, ...] = ()
    """Identities of the taints that forewarn has set; there are several if the settings
    have changed during an event."""
    conditions: tuple[str, ...] = ()
    """Types of the conditions."""
    excludes: bool = False
    """Whether load balancers exclude the node."""


@frozen_dataclass
class Record:
    """The content of the annotation."""

    handlers: Mapping[str, Changes] = field(default_factory=dict[str, Changes])
    """The changes by handler."""
    cordoned: bool = False
    """Whether forewarn has made the node unschedulable."""
    excluded: bool = False
    """Whether forewarn has set the label for load balancers."""

    def written(self) -> str | None:
        """Return the annotation; None: nothing is recorded."""
        if not self.handlers:
            return None
        handlers = {
            name: {
                key: value
                for key, value in (
                    ("cordon", changed.cordon),
                    ("taints", changed.taints),
                    ("conditions", changed.conditions),
                    ("excludes", changed.excludes),
                )
                if value
            }
            for name, changed in sorted(self.handlers.items())
        }
        whole = {"cordoned": self.cordoned, "handlers": handlers}
        if self.excluded:
            whole["excluded"] = True
        return json.dumps(whole)

    def others(self, handler: str) -> tuple[Changes, ...]:
        """Return the changes of the other handlers."""
        return tuple(
            changed for name, changed in self.handlers.items() if name != handler
        )


def read_record(node: Mapping[str, Any]) -> Record:
    """Parse a node's annotation; one that is not valid counts as empty."""
    text = _at(node, "metadata", "annotations").get(ANNOTATION)
    try:
        whole = members(json.loads(str(text)))
    except ValueError:
        return Record()
    handlers: dict[str, Changes] = {}
    for name, entry in members(whole.get("handlers")).items():
        entry_ = members(entry)
        handlers[name] = Changes(
            cordon=entry_.get("cordon") is True,
            taints=tuple(map(str, items(entry_.get("taints")))),
            conditions=tuple(map(str, items(entry_.get("conditions")))),
            excludes=entry_.get("excludes") is True,
        )
    return Record(
        handlers=handlers,
        cordoned=whole.get("cordoned") is True,
        excluded=whole.get("excluded") is True,
    )


# Patches


def prepare_patch(
    node: Mapping[str, Any], handler: str, desired: Changes, taint: Taint | None
) -> dict[str, Any] | None:
    """Return the merge patch for preparation; None: nothing has to change.

    `desired` is what the handler needs apart from the taint, whose value is known.
    """
    record, spec = read_record(node), _at(node, "spec")
    changes: dict[str, Any] = {}
    labels: dict[str, str | None] = {}
    if desired.cordon and spec.get("unschedulable") is not True:
        changes["unschedulable"] = True
        record = replace(record, cordoned=True)
    if desired.excludes and not _is_excluded(node):
        labels[EXCLUDED] = "true"
        record = replace(record, excluded=True)
    before = record.handlers.get(handler, Changes())
    marks = dict.fromkeys(before.taints)
    if taint is not None:
        ours = {
            taint_ for changed in record.handlers.values() for taint_ in changed.taints
        }
        taints, is_ours = _tainted(spec, taint, ours)
        if is_ours:
            marks[taint.identity] = None
        if taints is not None:
            changes["taints"] = taints
    # Changes that an operator has made before are not recorded, so they stay.
    changed = Changes(
        cordon=(desired.cordon or before.cordon) and record.cordoned,
        taints=tuple(marks),
        conditions=tuple(dict.fromkeys([*before.conditions, *desired.conditions])),
        excludes=(desired.excludes or before.excludes) and record.excluded,
    )
    if changed != Changes():
        record = replace(record, handlers={**record.handlers, handler: changed})
    return _patch(node, changes, labels, record)


def missing_of(node: Mapping[str, Any], patch: Mapping[str, Any]) -> list[str]:
    """Return the parts of a patch that the node of the response lacks.

    An admission webhook can remove parts of a change, and the response is still 200.
    """
    metadata, spec = members(patch.get("metadata")), members(patch.get("spec"))
    written = members(metadata.get("annotations")).get(ANNOTATION)
    names: list[str] = []
    if _at(node, "metadata", "annotations").get(ANNOTATION) != written:
        names.append(f"the annotation {ANNOTATION}")
    for name, value in members(metadata.get("labels")).items():
        if _at(node, "metadata", "labels").get(name) != value:
            names.append(f"the label {name}")
    is_closed = _at(node, "spec").get("unschedulable") is True
    if "unschedulable" in spec and is_closed is not (spec["unschedulable"] is True):
        names.append("spec.unschedulable")
    if "taints" in spec:
        there = {_mark_of(taint) for taint in _taints(_at(node, "spec"))}
        # Other programs' taints do not matter; only those of the patch are checked.
        names += [
            f"the taint {_identity(taint_)}"
            for taint_ in objects(spec["taints"])
            if _mark_of(taint_) not in there
        ]
    return names


def reverse_patch(
    before: Mapping[str, Any], node: Mapping[str, Any], patch: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the patch that undoes a change which the node's annotation does not record.

    Return None if the annotation is complete, because a recovery will then undo the
    change.
    """
    wanted, there = read_record(patch), read_record(node)
    if (
        wanted.handlers.items() <= there.handlers.items()
        and wanted.cordoned <= there.cordoned
        and wanted.excluded <= there.excluded
    ):
        return None
    metadata: dict[str, Any] = {
        "resourceVersion": _at(node, "metadata").get("resourceVersion")
    }
    if labels := _at(patch, "metadata", "labels"):
        there = _at(before, "metadata", "labels")
        metadata["labels"] = {name: there.get(name) for name in labels}
    spec = {name: _at(before, "spec").get(name) for name in _at(patch, "spec")}
    return {"metadata": metadata, "spec": spec}


def taints_left(
    before: Mapping[str, Any], node: Mapping[str, Any], patch: Mapping[str, Any]
) -> list[str]:
    """Return the taints that a patch removes and the node of the response still has."""
    spec = members(patch.get("spec"))
    if "taints" not in spec:
        return []
    kept_ids = {_identity(taint_) for taint_ in objects(spec["taints"])}
    gone = {_identity(taint) for taint in _taints(_at(before, "spec"))} - kept_ids
    left = map(_identity, _taints(_at(node, "spec")))
    return [f"the taint {taint}" for taint in left if taint in gone]


def recover_patch(node: Mapping[str, Any], handler: str) -> dict[str, Any] | None:
    """Return the merge patch for recovery; None: nothing has to change."""
    record, spec = read_record(node), _at(node, "spec")
    if (changed := record.handlers.get(handler)) is None:
        return None
    others = record.others(handler)
    changes: dict[str, Any] = {}
    labels: dict[str, str | None] = {}
    cordoned, excluded = record.cordoned, record.excluded
    if changed.cordon and cordoned and not any(record_.cordon for record_ in others):
        cordoned = False
        if spec.get("unschedulable") is True:
            changes["unschedulable"] = None
    if (
        changed.excludes
        and excluded
        and not any(record_.excludes for record_ in others)
    ):
        excluded = False
        if _is_excluded(node):
            labels[EXCLUDED] = None
    gone = set(changed.taints).difference(*(record_.taints for record_ in others))
    taints_kept = [taint for taint in _taints(spec) if _identity(taint) not in gone]
    if len(taints_kept) < len(_taints(spec)):
        changes["taints"] = taints_kept or None
    left = {name: other for name, other in record.handlers.items() if name != handler}
    return _patch(
        node,
        changes,
        labels,
        Record(handlers=left, cordoned=cordoned, excluded=excluded),
    )


def _tainted(
    spec: Mapping[str, Any], taint: Taint, ours: set[str]
) -> tuple[list[Any] | None, bool]:
    """Return the taints to set, None: unchanged, and whether forewarn owns this one."""
    same = [
        present for present in _taints(spec) if _identity(present) == taint.identity
    ]
    is_ours = not same or taint.identity in ours
    if not is_ours or (same and str(same[0].get("value") or "") == taint.value):
        return None, is_ours
    others = [
        present for present in _taints(spec) if _identity(present) != taint.identity
    ]
    fresh = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return [*others, fresh], True


def _patch(
    node: Mapping[str, Any],
    changes: Mapping[str, Any],
    labels: Mapping[str, str | None],
    record: Record,
) -> dict[str, Any] | None:
    written = record.written()
    has = _at(node, "metadata", "annotations").get(ANNOTATION)
    if not (changes or labels) and written == has:
        return None
    patch: dict[str, Any] = {
        "metadata": {
            # The node must be unchanged, since the list of taints is replaced as a whole.
            "resourceVersion": _at(node, "metadata").get("resourceVersion"),
            "annotations": {ANNOTATION: written},
        }
    }
    if labels:
        patch["metadata"]["labels"] = dict(labels)
    if changes:
        patch["spec"] = dict(changes)
    return patch


def _is_excluded(node: Mapping[str, Any]) -> bool:
    return EXCLUDED in _at(node, "metadata", "labels")


def _mark_of(taint: Mapping[str, Any]) -> tuple[str, str]:
    return _identity(taint), str(taint.get("value") or "")


def _identity(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key')}:{taint.get('effect')}"


def _taints(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return objects(spec.get("taints"))


def _at(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = members(value).get(key)
    return members(value)
