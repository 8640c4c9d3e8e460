"""Build the conditions and Events of a node for an event. Pure.

The handler sets its own condition. With `aks_conditions` it also sets the conditions of
the node-problem-detector of AKS, with the same texts. Autoscalers and drain programs
parse the event type and NotBefore from such a message: `Preempt Scheduled: Sat, 01 Aug
2026 05:41:02 GMT. …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.foreign import members, objects
from forewarn.instants import SECOND, Micros, format_http_date, format_instant
from forewarn.protocol.notices import SCHEDULED, STARTED, Notice

MESSAGE_CHARACTERS_MAX = 1024
"""Maximum length of an Event's message in the API; also used for conditions."""

REASON_CHARACTERS_MAX = 100
"""Maximum length of an event type in a reason; the API permits 128 with the suffix."""

COMPONENT = "forewarn-agent"
"""The component name in Events."""

QUIET = "NoMaintenance"
"""The reason of the handler's condition while it is False."""

ANY_EVENT = "VMEventScheduled"
"""The condition of AKS for any event. Its reason has the same name."""

PREEMPTION = "PreemptionScheduled"
"""The condition of AKS for a Preempt, which Karpenter's Azure provider reads."""

PREEMPTION_REASON = "SpotEvictionIncoming"

_AKS = {
    ANY_EVENT: (ANY_EVENT, f"No{ANY_EVENT}", "VM has no scheduled event"),
    PREEMPTION: (
        PREEMPTION_REASON,
        f"No{PREEMPTION}",
        "VM has no scheduled preemption",
    ),
}
"""For each condition of AKS: the reason, and the reason and message while it is off."""

PREEMPT = "Preempt"

_CONDITION = re.compile(
    r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.ASCII
)
_NO_REASON = re.compile(r"[^A-Za-z0-9]+", re.ASCII)


def is_condition(text: str) -> bool:
    """Return whether a string is a valid condition type."""
    return _CONDITION.fullmatch(text) is not None


def wanted_types(own: str, notice: Notice | None, *, has_aks: bool) -> tuple[str, ...]:
    """Return the types of the conditions for an event.

    `own` is the handler's condition; empty: none.
    """
    aks = [ANY_EVENT] if has_aks else []
    if has_aks and notice is not None and notice.event_type == PREEMPT:
        aks.append(PREEMPTION)
    return (own, *aks) if own else tuple(aks)


def event_reason(notice: Notice | None, *, is_over: bool = False) -> str:
    """Return the reason of an event: `RebootScheduled`, `RebootOver`."""
    notice = notice or Notice(event_id="")
    kind = _NO_REASON.sub("", notice.event_type)[:REASON_CHARACTERS_MAX] or "Event"
    if is_over:
        return f"{kind}Over"
    return f"{kind}Started" if notice.has_started else f"{kind}Scheduled"


def event_sentence(notice: Notice | None, *, is_over: bool = False) -> str:
    """Return the message for an event."""
    notice = notice or Notice(event_id="")
    kind = notice.event_type or "Event"
    if is_over:
        return f"{kind} of this VM is over"[:MESSAGE_CHARACTERS_MAX]
    when = "may begin at any moment"
    if notice.has_started:
        when = "has started"
    elif notice.not_before is not None:
        when = f"not before {format_instant(notice.not_before)}"
    text = f"{kind} of this VM, {when}"
    if notice.description:
        text = f"{text}: {notice.description}"
    return text[:MESSAGE_CHARACTERS_MAX]


def status_patch(
    node: Mapping[str, Any],
    types: Sequence[str],
    notice: Notice | None,
    *,
    is_on: bool,
    now: Micros,
) -> dict[str, Any]:
    """Return the strategic merge patch of a node's status for these conditions."""
    return {
        "status": {
            "conditions": [
                _condition(node, kind, notice, is_on=is_on, now=now) for kind in types
            ]
        }
    }


def is_on_at(node: Mapping[str, Any], kind: str) -> bool:
    """Return whether a condition of this type is True."""
    return any(_is(condition_, kind, "True") for condition_ in _conditions_of(node))


def unset_types(
    node: Mapping[str, Any], types: Sequence[str], *, is_on: bool
) -> Sequence[str]:
    """Return the types of conditions that do not have the requested status."""
    return [kind for kind in types if is_on_at(node, kind) is not is_on]


def event_body(
    node: Mapping[str, Any],
    *,
    reason: str,
    message: str,
    mark: str,
    is_warning: bool,
    now: Micros,
) -> dict[str, Any]:
    """Return a core/v1 Event about a node; the same `mark` gives the same name."""
    metadata = members(node.get("metadata"))
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


def _words(kind: str, notice: Notice | None, *, is_on: bool) -> tuple[str, str]:
    """Return the reason and the message of a condition."""
    usual = "", QUIET, "No maintenance is prepared for"
    reason, quiet_reason, quiet_message = _AKS.get(kind, usual)
    if not is_on:
        return quiet_reason, quiet_message
    if reason:
        return reason, _aks_message(notice)
    return event_reason(notice), event_sentence(notice)


def _condition(
    node: Mapping[str, Any],
    kind: str,
    notice: Notice | None,
    *,
    is_on: bool,
    now: Micros,
) -> dict[str, Any]:
    status = "True" if is_on else "False"
    since = moment = _second(now)
    for condition_ in _conditions_of(node):
        if _is(condition_, kind, status):
            since = str(condition_.get("lastTransitionTime") or moment)
    reason, message = _words(kind, notice, is_on=is_on)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": since,
    }


def _aks_message(notice: Notice | None) -> str:
    """Return the message in the form of AKS: type, status, NotBefore, ID.

    If the event has no NotBefore, the message has no time and no colon, so that no
    program parses a wrong time.
    """
    if notice is None:
        return "Event Scheduled."
    text = f"{notice.event_type} {STARTED if notice.has_started else SCHEDULED}"
    if notice.not_before is not None and not notice.has_started:
        text = f"{text}: {format_http_date(notice.not_before)}"
    text = f"{text}. DurationInSeconds: {notice.duration_seconds}."
    return f"{text} EventId: {notice.event_id}"[:MESSAGE_CHARACTERS_MAX]


def _conditions_of(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return objects(members(node.get("status")).get("conditions"))


def _is(condition: Mapping[str, Any], kind: str, status: str) -> bool:
    return condition.get("type") == kind and condition.get("status") == status


def _second(now: Micros) -> str:
    return format_instant(now - now % SECOND)
