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


def held_for_too_long(opens: Micros, world: World, blackout: str = "") -> Operation:
    """Hold the first host from its window on, until it is announced again."""
    start(world, daily(opens) + blackout + ONE_STAGE)
    while not (
        found := [operation for operation in world.operations() if operation.moves]
    ):
        world.advance("10m")
    (held,) = found
    other = name_of(1) if held.host == name_of(0) else name_of(0)
    world.order(lambda work: failures.fail_host(work, other))
    while world.operation(held.operation_id).state is not OperationState.CANCELLED:
        world.advance("1h")
    (again,) = (
        operation
        for operation in world.operations()
        if operation.host == held.host
        and operation.state is not OperationState.CANCELLED
    )
    return again


def of() -> tuple[World, Micros]:
    """Return two hosts of one scope, and the first opening of a window."""
    world = world_of([{"s0": 0}, {"s0": 1}])
    return world, (world.now + 2 * HOUR) // MINUTE * MINUTE


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
    world = world_of([{"s0": 0}, {"s0": 1}, {"s0": 2}])
    first, *others = (name_of(number) for number in range(3))
    for host in others:
        world.order(lambda work, host=host: failures.fail_host(work, host))
    world.order(
        lambda work: verbs.maintain(work, [first], Action.REBOOT, OrderOptions())
    )
    [held] = (operation for operation in world.operations() if operation.host == first)
    ends = release.hold_ends(held, world.plane.policy)
    world.advance(ends - world.now - SECOND)
    assert world.operation(held.operation_id).state is OperationState.READY
    world.clock.step(SECOND)
    world.order(lambda work: failures.restore_host(work, others[0]))
    world.settle()
    assert world.now == ends
    assert world.operation(held.operation_id).state is OperationState.CANCELLED
