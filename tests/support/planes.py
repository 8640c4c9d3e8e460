"""A control plane on a turned clock, without a world around it."""

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.instants import Micros


def wait(plane: Plane, clock: VirtualClock, duration: Micros) -> None:
    """Let time pass, and the plane do what becomes due meanwhile."""
    target = clock.now() + duration
    while (due := plane.next_due()) is not None and due <= target:
        clock.advance_to(max(due, clock.now()))
        while plane.advance(now=clock.now()):
            pass
    clock.advance_to(target)
