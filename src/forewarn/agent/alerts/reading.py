"""Parse the response of an alert server defensively, select alerts, and summarize them.

A selector of the settings is an alert's name, or one or more pairs `label=value` with
spaces between them, which must all match: `Disk*`, `severity=page team=db`. Pure.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from forewarn.agent.foreign import members
from forewarn.agent.handlers.records import last_line
from forewarn.problems import quoted
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

NAMES_SHOWN = 5
"""Maximum number of alert names in a message; the others are counted."""

NAME_CHARACTERS = 60
"""Maximum length of one name in a message, in characters."""

ALERTS_MAX = 100_000
"""Maximum number of alerts in one response. A server with more is broken, and the list
is never truncated silently."""

FIRING, PENDING = "firing", "pending"
"""States of an alert in Prometheus; in Alertmanager all alerts fire."""

INACTIVE = "inactive"
"""A state that some compatible servers list too."""

SUPPRESSED = "suppressed"
"""The state of a silenced or inhibited alert in Alertmanager."""

NAME_LABEL = "alertname"
"""The label with an alert's name."""

WORDS_MAX = 20
"""Maximum number of words in one selector: alerts have about a dozen labels."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class AlertsError(ForewarnError):
    """The response cannot be used; the message says why."""


@frozen_dataclass
class Alert:
    """An active alert."""

    labels: Mapping[str, str]
    is_pending: bool = False

    @property
    def name(self) -> str:
        """Return the alert's name; empty if it has none."""
        return self.labels.get(NAME_LABEL, "")


def of_prometheus(body: bytes) -> list[Alert]:
    """Parse a response to `GET /api/v1/alerts`; raises AlertsError."""
    whole = members(_json(body))
    if whole.get("status") != "success":
        kind, why = whole.get("errorType"), whole.get("error")
        reason = (
            last_line(f"{kind}: {why}") if why else "a body that is not Prometheus'"
        )
        raise AlertsError(f"it answered with {reason}")
    alerts = members(whole.get("data")).get("alerts")
    alerts_read: list[Alert] = []
    for alert in _each(alerts, "data.alerts"):
        state = alert.get("state")
        if state == INACTIVE:
            continue
        if state not in (FIRING, PENDING):
            # An unknown state must not count as inactive.
            raise AlertsError(
                f"the state of an alert is neither {FIRING} nor {PENDING}"
            )
        labels = _labels(alert)
        alerts_read.append(Alert(labels=labels, is_pending=state == PENDING))
    return alerts_read


def of_alertmanager(body: bytes) -> list[Alert]:
    """Parse a response to `GET /api/v2/alerts`; raises AlertsError.

    Silenced and inhibited alerts are skipped, in case a server ignores the query for
    active ones.
    """
    alerts: list[Alert] = []
    for alert in _each(_json(body), "the answer"):
        state = members(alert.get("status")).get("state")
        if not isinstance(state, str):
            raise AlertsError("an alert has no status.state")
        if state != SUPPRESSED:
            alerts.append(Alert(labels=_labels(alert)))
    return alerts


def counted(
    alerts: Sequence[Alert], selection: Selection, *, pending: bool
) -> list[Alert]:
    """Return the alerts that count."""
    return [
        alert
        for alert in alerts
        if (pending or not alert.is_pending) and selection.counts(alert.labels)
    ]


def words_of(alerts: Sequence[Alert]) -> str:
    """Return a summary of bounded length: `3 alerts fire: DiskFull (2), NodeDown`."""
    if not alerts:
        return "no alert fires"
    names = Counter(_shown(alert.name) for alert in alerts)
    # The most frequent first, then by name, so that the text is deterministic.
    ordered = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    names_shown = [
        f"{name} ({count})" if count > 1 else name
        for name, count in ordered[:NAMES_SHOWN]
    ]
    if len(ordered) > NAMES_SHOWN:
        names_shown.append(f"and {len(ordered) - NAMES_SHOWN} more names")
    is_one = len(alerts) == 1
    verb = "fires" if is_one else "fire"
    if any(alert.is_pending for alert in alerts):
        verb = "fires or is pending" if is_one else "fire or are pending"
    noun = "alert" if is_one else "alerts"
    return f"{len(alerts)} {noun} {verb}: {', '.join(names_shown)}"


def _shown(name: str) -> str:
    # A comma would look like the start of another name.
    shown = last_line(name).replace(",", " ") or "without a name"
    return shown if len(shown) <= NAME_CHARACTERS else f"{shown[:NAME_CHARACTERS]}…"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body, object_hook=_lean)
    except (ValueError, RecursionError) as error:
        raise AlertsError("its answer is not JSON") from error


def _lean(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an object without large members that are not used."""
    if "labels" in alert:
        alert.pop("annotations", None)
        alert.pop("receivers", None)
    return alert


def _each(value: object, source: str) -> Iterator[dict[str, Any]]:
    if not isinstance(value, list):
        raise AlertsError(f"{source} is not a list of alerts")
    alerts = cast("list[Any]", value)
    if len(alerts) > ALERTS_MAX:
        raise AlertsError(f"it has more than {ALERTS_MAX:,} alerts")
    for alert in alerts:
        if not isinstance(alert, dict):
            raise AlertsError(f"{source} has an item that is not an alert")
        yield cast("dict[str, Any]", alert)


def _labels(alert: Mapping[str, Any]) -> Mapping[str, str]:
    labels = alert.get("labels")
    if not isinstance(labels, dict):
        raise AlertsError("an alert has no labels")
    return {
        label: value
        for label, value in cast("dict[str, Any]", labels).items()
        if isinstance(value, str)
    }


# Selectors


@frozen_dataclass
class Selector:
    """Matches alerts by their labels; a missing label counts as empty."""

    parts: tuple[tuple[str, str], ...]
    """Each label with the pattern of its value; case-sensitive."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert matches."""
        return all(
            fnmatchcase(labels.get(label, ""), pattern) for label, pattern in self.parts
        )


@frozen_dataclass
class Selection:
    """The alerts that count: those of `only`, or all if it is empty, without `ignore`."""

    only: tuple[Selector, ...] = ()
    ignore: tuple[Selector, ...] = ()

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert counts."""
        if self.only and not any(
            name_pattern.matches(labels) for name_pattern in self.only
        ):
            return False
        return not any(name_pattern.matches(labels) for name_pattern in self.ignore)


def selection(only: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Parse the selectors of the settings; raises ValueError with a sentence."""
    return Selection(
        only=tuple(map(selector, only)), ignore=tuple(map(selector, ignore))
    )


def selector(text: str) -> Selector:
    """Parse one selector; raises ValueError with a sentence."""
    terms = text.split()
    if not 0 < len(terms) <= WORDS_MAX:
        raise ValueError(f"{quoted(text)} must have 1 to {WORDS_MAX} words")
    return Selector(parts=tuple(_part(text, word) for word in terms))


def _part(text: str, word: str) -> tuple[str, str]:
    if set(word) & set('{}"'):
        raise ValueError(
            f"{quoted(text)}: write a name such as DiskFull or Disk*, or labels such as "
            "severity=page, without braces and quotes"
        )
    label, equals, value = word.partition("=")
    if not equals:
        return NAME_LABEL, word
    if label.endswith("!") or value.startswith("~"):
        raise ValueError(
            f"{quoted(text)}: the only operator is =, with * for any characters; write "
            "the opposite into the other list (ignore or only)"
        )
    if not _LABEL.fullmatch(label):
        raise ValueError(f"{quoted(text)}: {quoted(label)} is not a valid label name")
    return label, value
