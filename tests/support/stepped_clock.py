"""Run a command of forewarn on a wall clock that a file sets.

`python stepped_clock.py FILE python -m forewarn serve …`, or a fork that runs `main`:
FILE has the seconds by which the wall clock is off. The monotonic clock is the machine's
own, as after a step. The process of the operator API is on the same clock, as all
processes of a machine are.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from forewarn import cli
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros
from forewarn.service import api_process

ROOT = Path(__file__).parents[2]


def stepped(path: Path) -> Callable[[SystemClock], Micros]:
    """Return a reading of the wall clock that is off by what the file says."""
    now_of_machine = SystemClock.now

    def now(self: SystemClock) -> Micros:
        text = path.read_text(encoding="ascii") or "0"
        return now_of_machine(self) + round(float(text) * SECOND)

    return now


def install(path: Path) -> None:
    """Put this process, and those that it starts for the operator API, on the clock."""
    setattr(SystemClock, "now", stepped(path))  # noqa: B010 - for types
    begin = (
        f"import sys; sys.path.append({str(ROOT)!r}); from pathlib import Path; "
        f"from tests.support import stepped_clock; "
        f"stepped_clock.install(Path({str(path)!r})); "
    )
    setattr(api_process, "_BEGIN", begin + getattr(api_process, "_BEGIN"))  # noqa: B009, B010


def main(arguments: Sequence[str]) -> int:
    """Run `forewarn` on the clock of a file, which is the first argument."""
    install(Path(arguments[0]))
    return cli.main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main([sys.argv[1], *sys.argv[5:]]))
