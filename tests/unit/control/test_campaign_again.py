"""A host of a campaign that was held for too long is announced again, within its hours."""

from forewarn.control.requests import failures
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant
from forewarn.protocol.operations import Operation, OperationState
from tests.support.campaigns import ONE_STAGE, start
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World


def daily(opens: Micros) -> str:
    """Return windows into which the work does not fit after a new notice of 15 minutes."""
    return (
        '[campaign.expect]\ntypical = "20m"\nslow = "50m"\n[[campaign.window]]\n'
        f'start = "{format_instant(opens)[11:16]}"\nlength = "1h"\ntimezone = "UTC"\n'
    )


def held_for_too_long(opens: Micros, it: World, blackout: str = "") -> Operation:
    """Hold the first host from its window on, until it is announced again."""
    start(it, daily(opens) + blackout + ONE_STAGE)
    while not (found := [each for each in it.operations() if each.moves]):
        it.advance("10m")
    (held,) = found
    other = name_of(1) if held.host == name_of(0) else name_of(0)
    it.order(lambda work: failures.fail_host(work, other))
    while it.operation(held.operation_id).state is not OperationState.CANCELLED:
        it.advance("1h")
    (again,) = (
        each
        for each in it.operations()
        if each.host == held.host and each.state is not OperationState.CANCELLED
    )
    return again


def of() -> tuple[World, Micros]:
    """Return two hosts of one scope, and the first opening of a window."""
    it = world_of([{"s0": 0}, {"s0": 1}])
    return it, (it.now + 2 * HOUR) // MINUTE * MINUTE


def test_the_new_notice_ends_when_the_work_fits_into_a_window() -> None:
    it, opens = of()
    again = held_for_too_long(opens, it)
    assert again.not_before == opens + 2 * DAY


def test_the_new_notice_ends_after_a_blackout() -> None:
    it, opens = of()
    begins, ends = (format_instant(opens + hours * HOUR)[:-1] for hours in (36, 4 * 24))
    forbids = (
        f'[[campaign.blackout]]\nname = "closing"\nfrom = "{begins}"\n'
        f'until = "{ends}"\n'
    )
    again = held_for_too_long(opens, it, forbids)
    assert again.not_before == opens + 4 * DAY
