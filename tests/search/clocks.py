"""Steps of the wall clock, and restarts: the twin of `control.requests.clock_steps`.

A wall clock is where the world began, or a fixed step ahead of it. So it can be set
forward and back without end, with few states. Of an operation that waits, `left` is by
the wall clock and `notice` by the monotonic one; every other `left` is a duration.
"""

from tests.search.model import Model
from tests.search.orders import need
from tests.search.state import State
from tests.search.turn import Turn


def offset(model: Model, state: State) -> int:
    """Return by how many ticks the wall clock is ahead."""
    return state.ahead * model.setting.clock_step


def forward(turn: Turn, _first: int, _second: int) -> None:
    """Set the clock forward while the service runs."""
    _step(turn, ahead=1, is_down=False)


def back(turn: Turn, _first: int, _second: int) -> None:
    """Set the clock back while the service runs."""
    _step(turn, ahead=0, is_down=False)


def restart_forward(turn: Turn, _first: int, _second: int) -> None:
    """Set the clock forward while the service is down."""
    _step(turn, ahead=1, is_down=True)
    restart(turn, 0, 0)


def restart_back(turn: Turn, _first: int, _second: int) -> None:
    """Set the clock back while the service is down."""
    _step(turn, ahead=0, is_down=True)
    restart(turn, 0, 0)


def restart(turn: Turn, _first: int, _second: int) -> None:
    """Begin again: it is unknown how much of a notice has passed."""
    for slot in turn.open():
        turn.ops[slot] = turn.model.restarted(turn.op(slot))


def _step(turn: Turn, *, ahead: int, is_down: bool) -> None:
    need(so=turn.ahead != ahead)
    by = (turn.ahead - ahead) * turn.model.setting.clock_step
    turn.ahead = ahead
    for slot in turn.open():
        op = turn.op(slot)
        if op.is_waiting:
            turn.ops[slot] = op._replace(left=op.left + by)
        elif turn.model.longest(op) is not None and (
            is_down or not turn.model.moves_timers
        ):
            turn.ops[slot] = op._replace(left=max(op.left + by, 0))


CLOCK_LABELS = {
    "clock forward": forward,
    "clock back": back,
    "restart": restart,
    "restart, clock forward": restart_forward,
    "restart, clock back": restart_back,
}
"""The steps of the clock, and restarts, by name."""
