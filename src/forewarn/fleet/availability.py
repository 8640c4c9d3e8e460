"""Compute the downtime of VMs in a period from their spans.

Exact to the microsecond. Unknown time is counted separately, neither as up nor as down.
Interruptions without a gap between them, such as a reboot that fails and the failure
that follows, count as one. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from forewarn.fleet.model import PLANNED_KINDS, Span, SpanKind
from forewarn.instants import Micros

PERCENT_STEPS = 10**6
"""Steps per percent: an outage of one second in three years is still visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period that ends at or before the current time."""

    since: Micros
    until: Micros

    def clip(self, span: Span) -> "Piece":
        """Return the part of the span in the period; it can be empty."""
        return max(span.began, self.since), min(span.ended or self.until, self.until)


Piece: TypeAlias = tuple[Micros, Micros]
"""A start and an end; empty if the end is not later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Sums of a period, for one VM or several."""

    vms: int = 0
    existed: Micros = 0
    """Time in the fleet with records."""
    unknown: Micros = 0
    """Time in the fleet before the records begin."""
    down: Mapping[SpanKind, Micros] = field(default_factory=dict[SpanKind, Micros])
    """Downtime by kind."""
    at_most: Micros = 0
    """Part of the downtime that is an upper bound: migrations without a measured pause."""
    interruptions: int = 0
    longest: Micros = 0
    """Longest interruption of one VM."""
    down_now: int = 0
    """Number of VMs that are down at the end of the period."""

    @property
    def planned(self) -> Micros:
        """Return the downtime because of operations."""
        return sum(self.down.get(kind, 0) for kind in PLANNED_KINDS)

    @property
    def unplanned(self) -> Micros:
        """Return the downtime because of failures."""
        return self.down.get(SpanKind.FAILURE, 0)

    @property
    def percent(self) -> float | None:
        """Return the percentage of time that they ran; None: not in the fleet.

        It is rounded down, so that 100 means no downtime.
        """
        if not self.existed:
            return None
        up = self.existed - self.planned - self.unplanned
        return up * 100 * PERCENT_STEPS // self.existed / PERCENT_STEPS

    def plus(self, other: "Availability") -> "Availability":
        """Return the sums of both."""
        return Availability(
            vms=self.vms + other.vms,
            existed=self.existed + other.existed,
            unknown=self.unknown + other.unknown,
            down={
                kind: self.down.get(kind, 0) + other.down.get(kind, 0)
                for kind in SpanKind
                if kind in self.down or kind in other.down
            },
            at_most=self.at_most + other.at_most,
            interruptions=self.interruptions + other.interruptions,
            longest=max(self.longest, other.longest),
            down_now=self.down_now + other.down_now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VmAvailability:
    """Sums of a period for one VM."""

    vm: str
    scope: str
    """Last scope of the VM among the given spans."""
    tenant: str
    was_there: bool
    """Whether the VM was in the fleet at some time in the period."""
    total: Availability


def by_vm(spans: Iterable[Span], period: Period) -> Iterator[VmAvailability]:
    """Yield the sums of each VM; `spans` are in the order of their IDs.

    A VM that was not in the fleet in the period has sums of zero.
    """
    for vm, group in groupby(spans, key=lambda span: span.vm):
        yield of_vm(vm, list(group), period)


def of_vm(vm: str, spans: list[Span], period: Period) -> VmAvailability:
    """Return the sums of the VM with these spans."""
    lives = [span for span in spans if not span.is_outage]
    outages = [(span, piece) for span, piece in _outages(spans, period)]
    down: dict[SpanKind, Micros] = {}
    for span, (began, ended) in outages:
        down[span.kind] = down.get(span.kind, 0) + ended - began
    merged = _merged(piece for _, piece in outages)
    return VmAvailability(
        vm=vm,
        scope=spans[-1].scope,
        tenant=spans[-1].tenant,
        was_there=any(
            life.began <= period.until and (life.is_open or life.ended > period.since)
            for life in lives
        ),
        total=Availability(
            vms=1,
            existed=sum(_length(period.clip(life)) for life in lives),
            unknown=_unknown(lives, period),
            down=down,
            at_most=sum(
                ended - began for span, (began, ended) in outages if not span.is_exact
            ),
            interruptions=len(merged),
            longest=max(map(_length, merged), default=0),
            down_now=int(
                any(
                    span.began <= period.until and not 0 < span.ended <= period.until
                    for span in spans
                    if span.is_outage
                )
            ),
        ),
    )


def several_domains_down(spans: Iterable[Span], period: Period) -> Micros:
    """Return how long more than one fault domain was down at the same time.

    `spans` are the spans of one scope, in any order.
    """
    steps: list[tuple[Micros, int, int]] = []
    for span, (began, ended) in _outages(spans, period):
        steps += ((began, 1, span.fault_domain), (ended, -1, span.fault_domain))
    # The order of steps at the same time has no effect, because no time passes.
    steps.sort()
    down: dict[int, int] = {}
    total, last = 0, period.since
    for instant, change, fault_domain in steps:
        if sum(1 for vms in down.values() if vms) > 1:
            total += instant - last
        last = instant
        down[fault_domain] = down.get(fault_domain, 0) + change
    return total


def _outages(spans: Iterable[Span], period: Period) -> Iterator[tuple[Span, Piece]]:
    for span in spans:
        piece = period.clip(span)
        if span.is_outage and _length(piece):
            yield span, piece


def _unknown(lives: list[Span], period: Period) -> Micros:
    """Return the time in the fleet before the records begin."""
    total, known_until = 0, period.since
    for life in sorted(lives, key=lambda life: life.began):
        if not life.is_exact:
            total += max(0, min(life.began, period.until) - known_until)
        known_until = max(known_until, life.ended or period.until)
    return total


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces, with adjacent and overlapping ones merged."""
    merged: list[Piece] = []
    for began, ended in sorted(pieces):
        if merged and began <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
        else:
            merged.append((began, ended))
    return merged


def _length(piece: Piece) -> Micros:
    return max(0, piece[1] - piece[0])
