"""How long VMs were down in a period, reckoned from their spans.

Exact to the microsecond. What is not known is told apart: it counts neither as up
nor as down. Interruptions that follow each other without a gap (a reboot that
fails, and the failure) are one interruption. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from forewarn.fleet.model import PLANNED_KINDS, Span, SpanKind
from forewarn.instants import Micros

PERCENT_STEPS = 10**6
"""Steps of a percent: an outage of a second in three years is still seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From an instant to another, which is not after the present one."""

    since: Micros
    until: Micros

    def clip(self, span: Span) -> "Piece":
        """Return what of the span lies in the period; it may be empty."""
        ended = span.ended or self.until
        return max(span.began, self.since), min(ended, self.until)


Piece: TypeAlias = tuple[Micros, Micros]
"""From an instant to another; nothing where the second is not later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """What a period came to, for one VM or for several together."""

    vms: int = 0
    existed: Micros = 0
    """How long they were there, and it is known what became of them."""
    unknown: Micros = 0
    """How long they were there, before what is known begins."""
    down: Mapping[SpanKind, Micros] = field(default_factory=dict[SpanKind, Micros])
    """How long they did not run, by why."""
    at_most: Micros = 0
    """How much of it is only a bound: migrations whose pause nobody measured."""
    interruptions: int = 0
    longest: Micros = 0
    """The longest interruption of one VM."""
    down_now: int = 0
    """How many of them do not run when the period ends."""

    @property
    def planned(self) -> Micros:
        """Return how long operations kept them from running."""
        return sum(self.down.get(kind, 0) for kind in PLANNED_KINDS)

    @property
    def unplanned(self) -> Micros:
        """Return how long failures kept them from running."""
        return self.down.get(SpanKind.FAILURE, 0)

    @property
    def percent(self) -> float | None:
        """Return how much of the time they ran, rounded down; None: never there.

        Rounded down, so that 100 means that nothing was down.
        """
        if not self.existed:
            return None
        up = self.existed - self.planned - self.unplanned
        return up * 100 * PERCENT_STEPS // self.existed / PERCENT_STEPS

    def plus(self, other: "Availability") -> "Availability":
        """Return what both come to together."""
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
    """What a period came to for one VM."""

    vm: str
    scope: str
    """Where it was last, of what was asked for."""
    tenant: str
    was_there: bool
    """In the period, if only for an instant."""
    total: Availability


def by_vm(spans: Iterable[Span], period: Period) -> Iterator[VmAvailability]:
    """Yield what the period came to for each VM; `spans` are in order of their ids.

    A VM that was not there in the period is told with nothing.
    """
    for vm, group in groupby(spans, key=lambda span: span.vm):
        yield of_vm(vm, list(group), period)


def of_vm(vm: str, spans: list[Span], period: Period) -> VmAvailability:
    """Return what the period came to for the VM that has these spans."""
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
    """Return how long more than one fault domain was down at once.

    `spans` are those of one scope, in any order.
    """
    steps: list[tuple[Micros, int, int]] = []
    for span, (began, ended) in _outages(spans, period):
        steps += ((began, 1, span.fault_domain), (ended, -1, span.fault_domain))
    # Of what happens at one instant, what ends comes first, or not: no time passes.
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
    """Return how long the VM was there before what is known of it begins."""
    total, known_until = 0, period.since
    for life in sorted(lives, key=lambda life: life.began):
        if not life.is_exact:
            total += max(0, min(life.began, period.until) - known_until)
        known_until = max(known_until, life.ended or period.until)
    return total


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces, those as one that follow each other without a gap."""
    merged: list[Piece] = []
    for began, ended in sorted(pieces):
        if merged and began <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
        else:
            merged.append((began, ended))
    return merged


def _length(piece: Piece) -> Micros:
    return max(0, piece[1] - piece[0])
