"""Random lives of three replicas: pauses, lost answers, clocks with errors, takeovers."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from forewarn.cluster import calls, documents, lease
from forewarn.cluster.calls import QUIET_SECONDS, Beats
from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import CLOCK_ERROR, Times
from forewarn.service.cluster import keeper
from forewarn.service.cluster.gate import ReplicaGate
from forewarn.store.memory_cluster import MemoryLeaderStore, SharedMemory
from forewarn.store.port import NotLeaderError
from tests.support.profiles import amounts
from tests.support.replicas import HandClock, Replica

STAGES = [
    f"{stage} {name}"
    for stage in ("send", "answer")
    for name in ("lease", "renew", "take", "follow", "write_replica", "replicas")
]

STEPS = 140
"""Steps of a life: some takeovers and some calls."""

SETTLES = (0.1, 0.6, 1.0)
"""Shares of steps after which an event loop looks at the news of its keeper; a life has one."""

LEASES = (3.0, 3.0, 6.0)
"""The leases of replicas, whose settings can differ."""

FOUND_WITHIN = 120
"""Lives in which every planted bug is found."""


class BrokenError(Exception):
    """An invariant is broken."""


class Member(Replica):
    """A replica with its decisions: its store, and the documents that it serves.

    Its event loop looks at the news of the keeper at any later time (`settle`). Until then,
    the plane of an ended term lives on.
    """

    def __init__(
        self, shared: SharedMemory, name: str, clock: HandClock, times: Times
    ) -> None:
        super().__init__(shared, name, clock, times)
        self.shared = shared
        self.wanted: LeaseRow | None = None
        self.led: LeaseRow | None = None
        self.store: MemoryLeaderStore | None = None
        self.gate: ReplicaGate | None = None
        self.published = self.served = 0
        self.waiting: list[int] = []
        self.approvals: list[int] = []
        """The places of approvals that wait for their answer."""
        self.answered: list[int] = []
        """The places of approvals that are answered because replicas serve them."""

    def _count(self) -> None:
        super()._count()
        gate = self.gate
        if gate is not None and gate is self.keeper.gate:
            self.answered += [place for place in self.approvals if gate.is_read(place)]

    def lead(self, row: LeaseRow) -> None:
        super().lead(row)
        self.wanted = row

    def follow(self) -> None:
        super().follow()
        self.wanted = None

    def settle(self) -> None:
        """End a term, or begin one."""
        if self.led is not None and self.led is not self.wanted:
            self.led = self.store = self.gate = None
            self.waiting, self.approvals = [], []
            self.follower.follow()
        elif self.wanted is not None and self.led is None:
            self.led = self.wanted
            self._take_over(self.led)

    def _take_over(self, row: LeaseRow) -> None:
        try:
            store = MemoryLeaderStore(self.shared, row.term)
            self.follower.lead()
            self.gate = self.keeper.gate_of(row.term)
        except NotLeaderError:
            return
        # The plane publishes everything.
        self.store, self.served, self.published = store, store.number, row.term
        self.gate.use(lambda: self.served)
        # Calls of earlier terms that may not have been made.
        self.waiting = [self.gate.place()]

    def decide(self) -> None:
        """Commit an approval, publish it, and let its answer and its call wait."""
        if self.store is None or self.gate is None:
            return
        try:
            self.store.transact(lambda tx: tx.lock_safety_rows(["web"]))
        except NotLeaderError:
            assert self.led is not None
            self.keeper.lost(self.led.term)
            return
        self.served = self.store.number
        self.waiting.append(self.gate.place())
        self.approvals.append(self.gate.approved())

    def begin(self) -> int | None:
        """Begin the first call whose gate is open; return the number of its commit."""
        if self.gate is None or not self.waiting:
            return None
        return self.waiting.pop(0) if self.gate.is_open(self.waiting[0]) else None

    @property
    def documents(self) -> int:
        return max(self.served, self.follower.position)


@dataclass
class Life:
    """Some replicas of one database, and the calls that have begun."""

    seed: int
    dice: random.Random = field(init=False)
    loops: random.Random = field(init=False)
    settles: float = field(init=False)
    clock: HandClock = field(default_factory=HandClock)
    """The real time."""
    shared: SharedMemory = field(default_factory=SharedMemory)
    members: list[Member] = field(default_factory=list[Member])
    begun: int = 0
    decided_in: int = 0
    """The last term in which a replica has decided."""
    calls: int = 0
    answers: int = 0
    takeovers: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.loops = random.Random(f"event loops {self.seed}")
        self.settles = self.loops.choice(SETTLES)
        for number in range(3):
            self.join(number)

    def join(self, number: int) -> None:
        """Start a replica, or start it again."""
        rate = 1 + self.dice.choice((-1, 0, 1)) * CLOCK_ERROR
        if number == len(self.members):
            clock = HandClock(rate)
        else:
            clock = self.members[number].clock
        self.takeovers += 1
        times = Times(lease=self.loops.choice(LEASES))
        member = Member(self.shared, f"{number}.{self.takeovers}", clock, times)
        self.members[number:] = [member, *self.members[number + 1 :]]
        clocks = [self.clock, *(member.clock for member in self.members)]
        for replica in self.members:
            replica.line.clocks = clocks

    def run(self) -> None:
        """Live; raise BrokenError if an invariant breaks."""
        for _ in range(STEPS):
            self.step()
            self.check()
            self.check_answers()
            self.settle()
            self.check()

    def step(self) -> None:
        dice, member = self.dice, self.dice.choice(self.members)
        kind = dice.randrange(12)
        if kind < 3:
            seconds = dice.choice((0.1, 0.5, 1.0, 1.0, 2.5, 5.2))
            for clock in member.line.clocks:
                clock.advance(seconds)
        elif kind < 6:
            member.keeper.turn()
        elif kind < 8:
            member.follower.turn()
        elif kind == 8:
            member.decide()
        elif kind == 9:
            self.begin(member)
        elif kind == 10:
            member.line.during = {dice.choice(STAGES): [dice.choice((0.6, 2.7, 5.1))]}
            member.line.fails_at = dice.choice(("", "", "send", *STAGES))
        elif dice.random() < 0.1:
            self.join(self.members.index(member))
        else:
            member.line.fails_at = ""

    def settle(self) -> None:
        """Let some event loops look at the news of their keepers."""
        for member in self.members:
            if self.loops.random() < self.settles:
                member.settle()
            if member.store is not None and member.led is not None:
                self.decided_in = max(self.decided_in, member.led.term)

    def begin(self, member: Member) -> None:
        """Begin the calls whose gate is open."""
        while (number := member.begin()) is not None:
            assert member.led is not None
            if member.led.term < self.decided_in:
                raise BrokenError("a call of an ended term begins")
            self.begun = max(self.begun, number)
            self.calls += 1

    def check(self) -> None:
        if sum(replica.keeper.gate.may_act() for replica in self.members) > 1:
            raise BrokenError("two replicas may begin calls")
        for member in self.members:
            if member.answers(member.published) and member.documents < self.begun:
                raise BrokenError("a document is older than a call")

    def check_answers(self) -> None:
        """Check that replicas which wrote their row lately serve what is answered now."""
        for member in self.members:
            for place in member.answered:
                self.answers += 1
                member.approvals.remove(place)
                if any(self.is_stale(other, place) for other in self.members):
                    raise BrokenError("a document is older than an answer")
            member.answered = []

    def is_stale(self, member: Member, number: int) -> bool:
        """Return whether a replica answers VMs, wrote its row lately, and lacks a commit."""
        wrote = member.line.reached.get("answer write_replica", -QUIET_SECONDS)
        return (
            member.documents < number
            and member.answers(member.published)
            and self.clock.at - wrote < QUIET_SECONDS * (1 - CLOCK_ERROR)
        )


@pytest.mark.amounts
@pytest.mark.slow
def test_replicas_keep_their_invariants() -> None:
    begun = terms = answers = 0
    for seed in range(amounts().cluster_lives):
        life = Life(seed)
        life.run()
        begun += life.calls
        answers += life.answers
        terms += life.shared.lease.term
    assert begun > amounts().cluster_lives
    assert answers > amounts().cluster_lives
    assert terms > amounts().cluster_lives


def no_wait(*_: object, **__: object) -> None:
    """Bug: calls wait for no replica."""


def from_answer(
    real: Callable[..., documents.Reading],
) -> Callable[..., documents.Reading]:
    """Bug: the read lease counts from the answer to the read."""

    def published(reading: documents.Reading, number: int) -> documents.Reading:
        complete = real(reading, number)
        return documents.Reading(
            position=complete.position,
            written=complete.written,
            until=complete.until + 2.0,
        )

    return published


def no_margin(times: Times) -> float:
    """Bug: a margin in the wrong direction."""
    return times.lease * 1.1


def as_leader(
    real: Callable[..., float],
) -> Callable[[documents.Reading, lease.LeaseState, int], float]:
    """Bug: a leader answers before it has published."""

    def answers_until(
        reading: documents.Reading, lease_state: lease.LeaseState, _published: int
    ) -> float:
        return real(reading, lease_state, lease_state.term)

    return answers_until


def only_living(
    real: Callable[..., frozenset[str]],
) -> Callable[..., frozenset[str]]:
    """Bug: answers do not wait for a replica before its row changes."""

    def quiet(
        beats: Beats, rows: tuple[ReplicaRow, ...], *, now: float
    ) -> frozenset[str]:
        others = {row.key for row in rows if row.key not in beats.living}
        return real(beats, rows, now=now) | others

    return quiet


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no wait": lambda patch: patch.setattr(ReplicaGate, "_why", no_wait),
    "no margin": lambda patch: patch.setattr(Times, "call_within", property(no_margin)),
    "read lease too long": lambda patch: patch.setattr(
        documents, "published", from_answer(documents.published)
    ),
    "answers before it has published": lambda patch: patch.setattr(
        documents, "answers_until", as_leader(documents.answers_until)
    ),
    "counts its own lease": lambda patch: patch.setattr(
        lease, "free_at", lambda _seen, times, since: since + times.lease
    ),
    "answers without new replicas": lambda patch: patch.setattr(
        keeper, "quiet", only_living(calls.quiet)
    ),
    "no clock": lambda patch: patch.setattr(
        lease, "may_call", lambda lease_state, _now: lease_state.leads
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    lives = [Life(seed) for seed in range(FOUND_WITHIN)]
    with pytest.raises(BrokenError):
        deque(map(Life.run, lives), maxlen=0)
