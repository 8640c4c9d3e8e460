"""The replicas as one of them sees them: who leads, and how far each is behind. Pure.

A replica looks at the shared rows several times a second. Each time is its own monotonic
time, so nothing here depends on the clocks of other machines: for how long a replica is
behind is counted from the look that first showed a transaction which it lacks.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from forewarn.cluster.calls import Beats, watched
from forewarn.cluster.port import Condition, LeaseRow, ReplicaRow, Role, StandbyState
from forewarn.cluster.times import READ_LEASE

SILENT_SECONDS = READ_LEASE
"""Seconds without a heartbeat, or without an answer of the database, after which the state
of a replica is unknown. A replica writes its row five times in this period."""

FLAPPING_SECONDS = 900.0
"""Seconds for which a takeover counts as recent. Restarts for an upgrade make one takeover
for each replica, and are over by then."""

FLAPPING_TAKEOVERS = 4
"""Recent takeovers that are a problem: an upgrade of three replicas makes fewer."""

LAGGING_SECONDS = 10.0
"""Seconds behind after which a replica is a problem. It has answered VMs with 503 for half
of this time."""

NUMBERS_KEPT = 1_000
"""Maximum remembered numbers of transactions: above that, every second one is forgotten,
the oldest never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The shared rows, as the database had them."""

    at: float
    """When the answer came."""
    lease: LeaseRow
    rows: tuple[ReplicaRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The looks of a replica, as far as it remembers them."""

    look: Look | None = None
    """The last one; None: the database has not answered yet."""
    condition: Condition | None = None
    """The last one; None: the database has not told it yet."""
    beats: Beats = field(default_factory=Beats)
    numbers: tuple[tuple[int, float], ...] = ()
    """Numbers of transactions that a replica lacks, each with the time of the first look
    that showed it."""
    takeovers: tuple[float, ...] = ()
    """When recent takeovers were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """A replica, as another one sees it."""

    row: ReplicaRow
    role: Role | None
    """None: unknown, since it is silent."""
    entries: int | None
    """Transactions that its documents lack; None: unknown."""
    seconds: float | None
    """Time for which its documents have lacked one; 0: they are complete. None: unknown."""
    silent_for: float
    """Seconds since its row changed, or since this replica saw it first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All replicas, as one of them sees them."""

    observer: str
    """The key of the replica that sees them so."""
    age: float | None
    """Seconds since the database has answered; None: it has not answered yet."""
    lease: LeaseRow | None
    """None: unknown, since the database does not answer."""
    term: int | None
    """The term that was seen last; None: none was seen."""
    leader: ReplicaView | None
    """The holder of the lease. None: it is free, or the row of its holder is unknown."""
    led_for: float | None
    """Seconds since the leader took the lease, by its clock; None: unknown."""
    takeovers: int
    """Recent takeovers that this replica has seen."""
    condition: Condition | None
    """None: unknown, since the database does not answer."""
    replicas: tuple[ReplicaView, ...]
    """In the order of their names."""

    @property
    def observer_name(self) -> str:
        """Return the name of the replica that sees them so."""
        return self.observer.rpartition(" ")[0]

    @property
    def has_leader(self) -> bool | None:
        """Return whether a replica leads; None: unknown."""
        if self.lease is None:
            return None
        return self.leader is not None and self.leader.role in {Role.LEADS, Role.UNSURE}

    @property
    def is_flapping(self) -> bool:
        """Return whether leaders have changed too often."""
        return self.takeovers >= FLAPPING_TAKEOVERS

    @property
    def lacks_standby(self) -> bool:
        """Return whether a fail-over of the database could lose answered approvals.

        With one replica, the database is like a file: nothing is there to fail over.
        """
        return len(self.replicas) > 1 and self.standby in {
            StandbyState.NOT_SET,
            StandbyState.MISSING,
        }

    @property
    def standby(self) -> StandbyState | None:
        """Return the state of the synchronous standby; None: the database is away."""
        return None if self.condition is None else self.condition.standby

    @property
    def lagging(self) -> tuple[ReplicaView, ...]:
        """Return the replicas that are too far behind or silent, without the leader."""
        return tuple(
            replica
            for replica in self.replicas
            if replica is not self.leader
            and replica.role is not Role.BEHIND
            and (replica.seconds is None or replica.seconds >= LAGGING_SECONDS)
        )

    @property
    def differing(self) -> tuple[ReplicaView, ...]:
        """Return the running replicas if their leases differ, else none.

        A replica that is silent may have ended, and an older version writes no lease.
        """
        running = tuple(
            replica
            for replica in self.replicas
            if replica.row.lease is not None
            and replica.role not in {None, Role.STOPPED}
        )
        return running if len({replica.row.lease for replica in running}) > 1 else ()

    @property
    def refusing(self) -> tuple[ReplicaView, ...]:
        """Return the replicas that have seen transactions which the database lost."""
        return tuple(
            replica for replica in self.replicas if replica.role is Role.BEHIND
        )


def looked(watch: Watch, look: Look) -> Watch:
    """Return what is remembered after `look`."""
    before = watch.look
    numbers = watch.numbers
    if before is None or look.lease.number > before.lease.number:
        numbers = (*numbers, (look.lease.number, look.at))
    slowest = min(_positions(look), default=look.lease.number)
    numbers = tuple(number for number in numbers if number[0] > slowest)
    if len(numbers) > NUMBERS_KEPT:
        numbers = numbers[::2]
    new = 0 if before is None else max(look.lease.term - before.lease.term, 0)
    takeovers = (*watch.takeovers, *(look.at,) * min(new, FLAPPING_TAKEOVERS))
    return replace(
        watch,
        look=look,
        beats=watched(watch.beats, look.rows, now=look.at),
        numbers=numbers,
        takeovers=tuple(at for at in takeovers if look.at - at < FLAPPING_SECONDS),
    )


def view(watch: Watch, now: float, *, observer: str) -> View:
    """Return the replicas at a time, as `observer` sees them."""
    look = watch.look
    answers = look is not None and now - look.at < SILENT_SECONDS
    rows = () if look is None else look.rows
    lease = look.lease if look is not None and answers else None
    replicas = _ordered(
        _unknown(watch, row, now) if lease is None else _seen(watch, lease, row, now)
        for row in rows
    )
    holder = None if lease is None else lease.holder
    leader = next((replica for replica in replicas if replica.row.key == holder), None)
    return View(
        observer=observer,
        age=None if look is None else now - look.at,
        lease=lease,
        term=None if look is None else look.lease.term,
        leader=leader,
        led_for=None if leader is None else _led_for(leader),
        takeovers=sum(now - at < FLAPPING_SECONDS for at in watch.takeovers),
        condition=watch.condition if answers else None,
        replicas=replicas,
    )


def _ordered(replicas: Iterable[ReplicaView]) -> tuple[ReplicaView, ...]:
    return tuple(
        sorted(replicas, key=lambda replica: (replica.row.name, replica.row.key))
    )


def _positions(look: Look) -> list[int]:
    """Return the positions of the replicas that follow."""
    return [row.position for row in look.rows if row.key != look.lease.holder]


def _led_for(leader: ReplicaView) -> float | None:
    written = leader.row.led_for
    return None if written is None else written + leader.silent_for


def _silent_for(watch: Watch, row: ReplicaRow, now: float) -> float:
    return now - watch.beats.first_seen[row.key][1]


def _unknown(watch: Watch, row: ReplicaRow, now: float) -> ReplicaView:
    return ReplicaView(
        row=row,
        role=None,
        entries=None,
        seconds=None,
        silent_for=_silent_for(watch, row, now),
    )


def _seen(watch: Watch, lease: LeaseRow, row: ReplicaRow, now: float) -> ReplicaView:
    silent_for = _silent_for(watch, row, now)
    if silent_for >= SILENT_SECONDS:
        return _unknown(watch, row, now)
    role = _role(row, is_holder=row.key == lease.holder)
    if role is Role.BEHIND:
        # Its transactions are other ones than those of the database.
        return replace(_unknown(watch, row, now), role=role)
    if row.key == lease.holder:
        return ReplicaView(
            row=row, role=role, entries=0, seconds=0.0, silent_for=silent_for
        )
    lacking = [at for number, at in watch.numbers if number > row.position]
    return ReplicaView(
        row=row,
        role=role,
        entries=max(lease.number - row.position, 0),
        seconds=now - lacking[0] if lacking else 0.0,
        silent_for=silent_for,
    )


def _role(row: ReplicaRow, *, is_holder: bool) -> Role:
    """Return the role of a replica: its row can be older than the lease."""
    if is_holder and row.role is Role.FOLLOWS:
        return Role.LEADS
    if not is_holder and row.role is Role.LEADS:
        return Role.UNSURE
    return row.role
