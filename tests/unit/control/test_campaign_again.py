"""Work that was held for too long is announced again, that of a campaign within its hours."""

from forewarn.control.execution import release
from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros, format_instant
from forewarn.protocol.operations import Action, Operation, OperationState
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


def test_check_at_the_end_of_the_hold_announces_again_at_once() -> None:
    """It comes before the timer of that instant, and takes its place."""
    it = world_of([{"s0": 0}, {"s0": 1}, {"s0": 2}])
    first, *others = (name_of(number) for number in range(3))
    for host in others:
        it.order(lambda work, host=host: failures.fail_host(work, host))
    it.order(lambda work: verbs.maintain(work, [first], Action.REBOOT, OrderOptions()))
    [held] = (each for each in it.operations() if each.host == first)
    ends = release.hold_ends(held, it.plane.policy)
    it.advance(ends - it.now - SECOND)
    assert it.operation(held.operation_id).state is OperationState.READY
    it.clock.step(SECOND)
    it.order(lambda work: failures.restore_host(work, others[0]))
    it.settle()
    assert it.now == ends
    assert it.operation(held.operation_id).state is OperationState.CANCELLED
