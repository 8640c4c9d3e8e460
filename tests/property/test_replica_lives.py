"""Random lives of three replicas: pauses, lost answers, clocks with errors, takeovers."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from forewarn.cluster import documents, lease
from forewarn.cluster.port import LeaseRow
from forewarn.cluster.times import CLOCK_ERROR, Times
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

STEPS = 120
"""Steps of a life: some takeovers and some calls."""

FOUND_WITHIN = 60
"""Lives in which every planted bug is found."""


class BrokenError(Exception):
    """An invariant is broken."""


class Member(Replica):
    """A replica with its decisions: its store, and the documents that it serves."""

    def __init__(self, shared: SharedMemory, name: str, clock: HandClock) -> None:
        super().__init__(shared, name, clock)
        self.shared = shared
        self.store: MemoryLeaderStore | None = None
        self.served = 0
        self.waiting: list[int] = []

    def lead(self, row: LeaseRow) -> None:
        super().lead(row)
        self.served = max(self.served, row.number)
        self.follower.lead()
        try:
            self.store = MemoryLeaderStore(self.shared, row.term)
        except NotLeaderError:
            return
        self.keeper.gate.use(lambda: self.served)
        # Calls of earlier terms that may not have been made.
        self.waiting = [self.keeper.gate.place()]

    def follow(self) -> None:
        super().follow()
        self.store, self.waiting = None, []
        self.follower.follow()

    def decide(self) -> None:
        """Commit a decision, publish it, and let its call wait."""
        if self.store is None:
            return
        try:
            self.store.transact(lambda tx: tx.lock_safety_rows(["web"]))
        except NotLeaderError:
            self.keeper.lost(self.terms[-1])
            return
        self.served = self.store.number
        self.waiting.append(self.keeper.gate.place())

    @property
    def documents(self) -> int:
        return max(self.served, self.follower.position)

    def answers(self) -> bool:
        if self.keeper.seat.leads:
            return self.keeper.may_answer()
        return self.follower.may_answer()


@dataclass
class Life:
    """Some replicas of one database, and the calls that have begun."""

    seed: int
    dice: random.Random = field(init=False)
    shared: SharedMemory = field(default_factory=SharedMemory)
    members: list[Member] = field(default_factory=list[Member])
    begun: int = 0
    calls: int = 0
    takeovers: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
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
        member = Member(self.shared, f"{number}.{self.takeovers}", clock)
        self.members[number:] = [member, *self.members[number + 1 :]]
        clocks = [each.clock for each in self.members]
        for each in self.members:
            each.line.clocks = clocks

    def run(self) -> None:
        """Live; raise BrokenError if an invariant breaks."""
        for _ in range(STEPS):
            self.step()
            self.check()

    def step(self) -> None:
        dice, member = self.dice, self.dice.choice(self.members)
        kind = dice.randrange(12)
        if kind < 3:
            seconds = dice.choice((0.1, 0.5, 1.0, 1.0, 2.5, 5.2))
            for each in self.members:
                each.clock.advance(seconds)
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

    def begin(self, member: Member) -> None:
        """Begin the calls whose gate is open."""
        while member.waiting and member.keeper.gate.is_open(member.waiting[0]):
            self.begun = max(self.begun, member.waiting.pop(0))
            self.calls += 1

    def check(self) -> None:
        if sum(each.keeper.may_call() for each in self.members) > 1:
            raise BrokenError("two replicas may begin calls")
        for member in self.members:
            if member.answers() and member.documents < self.begun:
                raise BrokenError("a document is older than a call")


@pytest.mark.amounts
@pytest.mark.slow
def test_replicas_keep_their_invariants() -> None:
    begun = terms = 0
    for seed in range(amounts().cluster_lives):
        life = Life(seed)
        life.run()
        begun += life.calls
        terms += life.shared.lease.term
    assert begun > amounts().cluster_lives
    assert terms > amounts().cluster_lives


def test_replica_whose_row_was_removed_and_came_again_is_waited_for() -> None:
    """Life 67: the beats of the new row reached the one that the leader had seen."""
    Life(67).run()


def no_wait(*_: object, **__: object) -> None:
    """Bug: calls wait for no replica."""


def from_answer(
    real: Callable[..., documents.Reading],
) -> Callable[..., documents.Reading]:
    """Bug: the read lease counts from the answer to the read."""

    def published(reading: documents.Reading, number: int) -> documents.Reading:
        made = real(reading, number)
        return documents.Reading(
            position=made.position, written=made.written, until=made.until + 2.0
        )

    return published


def no_margin(_times: Times) -> float:
    """Bug: a lease, and no margin."""
    return 3.3


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no wait": lambda patch: patch.setattr(ReplicaGate, "_why", no_wait),
    "no margin": lambda patch: patch.setattr(Times, "call_within", property(no_margin)),
    "read lease too long": lambda patch: patch.setattr(
        documents, "published", from_answer(documents.published)
    ),
    "no clock": lambda patch: patch.setattr(
        lease, "may_call", lambda seat, _now: seat.leads
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    lives = [Life(seed) for seed in range(FOUND_WITHIN)]
    with pytest.raises(BrokenError):
        deque(map(Life.run, lives), maxlen=0)
