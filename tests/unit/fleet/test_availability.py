"""Availability of a period: every clipping, gap and overlap, to the microsecond."""

from dataclasses import replace

import pytest

from forewarn.fleet.availability import (
    Availability,
    Period,
    by_vm,
    of_vm,
    several_domains_down,
)
from forewarn.fleet.model import Span, SpanKind

PERIOD = Period(since=100, until=200)


def span(
    began: int,
    ended: int,
    kind: SpanKind = SpanKind.EXISTENCE,
    *,
    vm: str = "a",
    exact: bool = True,
    domain: int = 0,
) -> Span:
    return Span(
        span_id=f"{vm}/{began:017d}.{kind.value}",
        vm=vm,
        scope="web",
        tenant="shop",
        fault_domain=domain,
        kind=kind,
        began=began,
        ended=ended,
        is_exact=exact,
    )


def availability(*spans: Span) -> Availability:
    return of_vm("a", list(spans), PERIOD).total


@pytest.mark.parametrize(
    ("began", "ended", "existed"),
    [
        (0, 0, 100),
        (0, 99, 0),
        (0, 150, 50),
        (150, 0, 50),
        (120, 130, 10),
        (200, 0, 0),
        (0, 300, 100),
        (100, 200, 100),
    ],
)
def test_vm_counts_for_as_long_as_it_existed(
    began: int, ended: int, existed: int
) -> None:
    assert availability(span(began, ended)).existed == existed


@pytest.mark.parametrize(
    ("began", "ended", "down", "interruptions"),
    [
        (0, 99, 0, 0),
        (0, 100, 0, 0),
        (0, 101, 1, 1),
        (110, 0, 90, 1),
        (110, 111, 1, 1),
        (190, 300, 10, 1),
        (200, 300, 0, 0),
        (0, 0, 100, 1),
    ],
)
def test_only_the_part_of_an_interruption_in_the_period_counts(
    began: int, ended: int, down: int, interruptions: int
) -> None:
    total = availability(span(0, 0), span(began, ended, SpanKind.REBOOT))
    assert (total.planned, total.interruptions) == (down, interruptions)
    assert total.longest == down
    assert total.unplanned == 0
    assert total.percent == 100 - down


def test_adjacent_spans_count_as_one_interruption() -> None:
    total = availability(
        span(0, 0),
        span(110, 120, SpanKind.REBOOT),
        span(120, 150, SpanKind.FAILURE),
        span(151, 152, SpanKind.FREEZE),
    )
    assert total.down == {
        SpanKind.REBOOT: 10,
        SpanKind.FAILURE: 30,
        SpanKind.FREEZE: 1,
    }
    assert (total.planned, total.unplanned) == (11, 30)
    assert (total.interruptions, total.longest) == (2, 40)


def test_unknown_time_is_neither_up_nor_down() -> None:
    total = availability(span(160, 0, exact=False), span(170, 180, SpanKind.FAILURE))
    assert (total.existed, total.unknown) == (40, 60)
    assert total.percent == 75


def test_unknown_time_before_the_period_is_ignored() -> None:
    total = availability(span(50, 0, exact=False))
    assert (total.existed, total.unknown) == (100, 0)


@pytest.mark.parametrize(
    ("began", "ended", "was_there"),
    [
        (0, 99, False),
        (0, 100, False),
        (0, 101, True),
        (200, 0, True),
        (200, 300, True),
        (201, 0, False),
        (201, 300, False),
    ],
)
def test_vm_that_existed_for_an_instant_is_counted(
    began: int, ended: int, was_there: bool
) -> None:
    assert of_vm("a", [span(began, ended)], PERIOD).was_there is was_there
    # Another life, long before, changes nothing.
    both = [span(0, 50), span(began, ended)]
    assert of_vm("a", both, PERIOD).was_there is was_there


def test_time_before_the_creation_of_a_vm_is_not_unknown() -> None:
    total = availability(span(160, 0))
    assert (total.existed, total.unknown) == (40, 0)


def test_gap_between_two_spans_of_existence_is_unknown() -> None:
    total = availability(span(0, 120), span(150, 0, exact=False))
    assert (total.existed, total.unknown) == (70, 30)


def test_unmeasured_pause_is_counted_separately() -> None:
    total = availability(
        span(0, 0),
        span(110, 120, SpanKind.LIVE_MIGRATE, exact=False),
        span(130, 132, SpanKind.LIVE_MIGRATE),
    )
    assert (total.planned, total.at_most) == (12, 10)


@pytest.mark.parametrize(
    ("began", "ended", "down_now"), [(110, 0, 1), (110, 201, 1), (110, 200, 0)]
)
def test_vm_down_at_the_end_is_counted(began: int, ended: int, down_now: int) -> None:
    total = availability(span(0, 0), span(began, ended, SpanKind.FAILURE))
    assert total.down_now == down_now


@pytest.mark.parametrize(
    ("began", "ended", "down_now"),
    [(200, 0, 1), (201, 0, 0), (0, 1, 0), (110, 120, 0)],
)
def test_vm_down_at_the_end_is_counted_after_earlier_spans(
    began: int, ended: int, down_now: int
) -> None:
    total = availability(
        span(0, 0),
        span(105, 106, SpanKind.REBOOT),
        span(began, ended, SpanKind.FAILURE),
    )
    assert total.down_now == down_now


def test_vm_that_never_existed_has_no_availability() -> None:
    assert availability(span(0, 50)).percent is None
    assert Availability().percent is None


def test_percentage_is_100_only_without_downtime() -> None:
    year = Period(since=0, until=365 * 86_400 * 10**6)
    availability = of_vm("a", [span(0, 0), span(5, 6, SpanKind.FREEZE)], year).total
    assert availability.percent == 99.999999


def test_totals_of_several_vms_are_added() -> None:
    spans = [
        span(0, 0),
        span(110, 120, SpanKind.REBOOT),
        span(0, 0, vm="b"),
        span(115, 145, SpanKind.FAILURE, vm="b"),
    ]
    first, second = by_vm(spans, PERIOD)
    total = first.total.plus(second.total)
    assert (first.vm, second.vm, total.vms) == ("a", "b", 2)
    assert (total.existed, total.planned, total.unplanned) == (200, 10, 30)
    assert (total.interruptions, total.longest, total.percent) == (2, 30, 80)


def test_every_figure_of_several_vms_is_added() -> None:
    def vm(name: str) -> list[Span]:
        return [
            span(110, 0, vm=name, exact=False),
            span(120, 125, SpanKind.LIVE_MIGRATE, vm=name, exact=False),
            span(190, 0, SpanKind.FAILURE, vm=name),
        ]

    first, second, third = by_vm([*vm("a"), *vm("b"), *vm("c")], PERIOD)
    total = first.total.plus(second.total).plus(third.total)
    assert (total.unknown, total.at_most, total.down_now) == (30, 15, 3)
    assert total.down == {SpanKind.LIVE_MIGRATE: 15, SpanKind.FAILURE: 30}
    nobody = Availability()
    assert total.plus(nobody) == nobody.plus(total) == total


@pytest.mark.parametrize(
    ("second", "domain", "both"),
    [
        ((120, 140), 1, 10),
        ((120, 140), 0, 0),
        ((130, 140), 1, 0),
        ((0, 0), 1, 20),
        ((0, 110), 1, 0),
        ((112, 118), 1, 6),
    ],
)
def test_overlapping_downtime_of_two_fault_domains_is_counted(
    second: tuple[int, int], domain: int, both: int
) -> None:
    spans = [
        span(0, 0),
        span(110, 130, SpanKind.REBOOT),
        span(*second, SpanKind.FAILURE, vm="b", domain=domain),
    ]
    assert several_domains_down(spans, PERIOD) == both
    assert several_domains_down(reversed(spans), PERIOD) == both


def test_downtime_of_three_fault_domains_at_once_counts_once() -> None:
    spans = [
        span(110, 140, SpanKind.FAILURE, domain=0),
        span(115, 135, SpanKind.FAILURE, vm="b", domain=1),
        span(120, 130, SpanKind.FAILURE, vm="c", domain=2),
        replace(span(110, 140, SpanKind.FAILURE, vm="d"), fault_domain=0),
    ]
    assert several_domains_down(spans, PERIOD) == 20
