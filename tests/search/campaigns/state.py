"""A state of a small campaign: small values only, so that many fit.

Instants are kept as the ticks that are left. Sets of hosts and operators are bits. What
the service remembers in memory only, its pending steps, is a part of its own: a crash
forgets it, and the next start finds it again.
"""

from typing import NamedTuple

WAITING, ANNOUNCED, READY, WORKING, RECOVERING, DONE, SKIPPED, FAILED = range(8)
"""How a host is in its campaign. READY: approved or due, and held."""
HOW = (
    "waiting",
    "announced",
    "ready",
    "working",
    "recovering",
    "done",
    "skipped",
    "failed",
)
TURN, HOST, GROUP = range(3)
"""The thing a waiting host waits for: its turn, its host, or the budget of its rack."""

TAKE_TURN = 1
"""The pending step that announces the next host. The others follow it, a bit each."""


def call(host: int) -> int:
    """Return the pending step that calls up a waiting host."""
    return 2 << host


def look(host: int) -> int:
    """Return the pending step that checks an approved host."""
    return 32 << host


class Item(NamedTuple):
    """A host in its campaign."""

    how: int
    left: int = 0
    """Ticks until its timer: NotBefore, or the end of the recovery."""
    waits: int = TURN
    is_braked: bool = False
    """Whether it also waits for the end of the brake, for its rollout."""

    @property
    def is_in_flight(self) -> bool:
        """Return whether it is announced or in work."""
        return ANNOUNCED <= self.how <= RECOVERING

    @property
    def is_open(self) -> bool:
        """Return whether its operation has not ended."""
        return self.how <= RECOVERING


class Course(NamedTuple):
    """The record of the campaign, as far as it changes."""

    state: str
    stage: int
    stage_left: int
    soak: int = -1
    """Ticks until the soak ends; -1: it has not begun."""
    is_approved: bool = False
    is_asked: bool = False
    ramp: int = 1
    ramp_done: int = 0
    outcomes: str = ""
    done: int = 0
    skipped: int = 0
    ahead: tuple[tuple[int, int], ...] = ()
    failed: int = 0
    pauses: int = 0
    halt: str = ""
    """The cause of its halt."""
    due: int = -1
    """Ticks until its timer; -1: none."""

    @property
    def has_ended(self) -> bool:
        """Return whether nothing changes it."""
        return self.state in {"Done", "Aborted"}


class State(NamedTuple):
    """Everything that is durable, and the pending steps."""

    course: Course
    items: tuple[Item, ...]
    queue: tuple[int, ...]
    """The hosts with an open operation, in the order of the IDs of these."""
    down: int = 0
    """Hosts that have failed."""
    cordons: int = 0
    """Hosts that the campaign has cordoned."""
    met: int = 0
    """Hosts on which the work has begun."""
    blamed: int = 0
    """Hosts whose VM is down because of the campaign."""
    brake: int = 0
    """1: it is on; 2: it also withdraws."""
    hour: int = 0
    """Ticks since midnight."""
    pending: int = 0
    """Steps that the service remembers."""

    @property
    def in_flight(self) -> int:
        """Return the number of hosts that are announced or in work."""
        return sum(item.is_in_flight for item in self.items)


class Label(NamedTuple):
    """A step, for a trace: what happens, and to whom."""

    what: str
    first: int = -1

    def __str__(self) -> str:
        """Return what it says to a person."""
        return self.what if self.first < 0 else f"{self.what} {self.first}"


class RefusedError(Exception):
    """It cannot be done in this state."""


def need(*, so: bool) -> None:
    """Refuse unless `so`."""
    if not so:
        raise RefusedError


def told(state: State) -> str:
    """Return a state on one line, for a person who reads a trace."""
    hosts = " ".join(
        f"h{host}:{HOW[item.how]}"
        + ("" if not item.left else f"({item.left})")
        + ("!" if state.down >> host & 1 else "")
        for host, item in enumerate(state.items)
    )
    course = state.course
    extra = f" halt={course.halt}" if course.halt else ""
    extra += f" pauses={course.pauses:b}" if course.pauses else ""
    extra += " brake" if state.brake else ""
    return f"{course.state} stage {course.stage}{extra} | {hosts}"
