"""A life whose service is replicas of one cluster in memory: one leads, one follows.

The clocks of the replicas have nothing to do with the time of the life: a takeover takes
no time in it, so that a story ends the same with it and without. Each replica has an
endpoint, and a way to the driver on which its calls are judged.
"""

import copy
from collections.abc import Sequence
from typing import Any

from forewarn.cluster.port import LeaseRow
from forewarn.drivers.port import Call, Report, Sighting
from forewarn.instants import Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.published import Publication
from forewarn.store.memory_cluster import MemoryLeaderStore, SharedMemory
from forewarn.store.port import Store
from tests.support.lives import Life
from tests.support.replicas import TIMES, Replica
from tests.support.watched import WatchedStore, stored
from tests.support.witness import WitnessDriver
from tests.support.worlds import World

PAUSES = (0.01, *(0.5,) * 20)
"""Seconds between two turns of all threads while a call waits: longer in all than the
read lease of a replica that has ended."""


class Member(Replica):
    """A replica with its endpoint."""

    term = 0
    """The term in which it leads, as far as it knows; 0: it follows."""

    def __init__(self, shared: SharedMemory, name: str) -> None:
        self.endpoint = Endpoint(own_events=True)
        super().__init__(shared, name)

    def lead(self, row: LeaseRow) -> None:
        super().lead(row)
        self.follower.lead()
        self.term = row.term

    def publish(self, publication: Publication) -> None:
        for view in publication.views:
            old = self.views.get(view.view_id)
            assert old is None or old.rank <= view.rank, f"2.10: {view} after {old}"
        super().publish(publication)
        self.endpoint.publish(publication)

    def may_answer(self) -> bool:
        """Return whether VMs get documents from this replica."""
        # Its plane publishes in the turn in which it takes the lease.
        return self.answers(self.term)


class ReplicatedLife(Life):
    """A life in which another replica takes over when the service dies or is paused."""

    shared: SharedMemory
    leader: Member
    follower: Member

    # The replicas

    def _new_world(self, seed: int) -> World:
        self.shared = SharedMemory()
        self.members: list[Member] = []
        """All that ever were: the ended ones are paused, as after SIGSTOP."""
        self.late: list[Call] = []
        """Calls that were begun by a replica whose term had ended."""
        self.begun: list[tuple[str, int, str]] = []
        """All calls that the driver has taken, with its memory."""
        self.leader = self._join()
        self.leader.keeper.turn()
        self.follower = self._join()
        return ReplicaWorld(
            self,
            store=self._open,
            driver=MemberDriver(self),
            policy=self.policy,
            seed=seed,
        )

    def _join(self) -> Member:
        member = Member(self.shared, f"replica {len(self.members)}")
        self.members.append(member)
        member.follower.turn()
        member.keeper.turn()
        return member

    def _open(self) -> Store:
        inner = MemoryLeaderStore(self.shared, self.leader.term)
        self.leader.keeper.gate.use(lambda: inner.number)
        return WatchedStore(inner, self.mirror, self._committed)

    def pass_time(self, seconds: float) -> None:
        """Let time pass on the clocks of the replicas."""
        for member in self.members:
            member.clock.advance(seconds)

    def turn(self, seconds: float) -> None:
        """Let time pass, and give each thread of the running replicas a turn."""
        self.pass_time(seconds)
        self.follower.follower.turn()
        self.follower.keeper.turn()
        self.leader.keeper.turn()

    def take_over(self) -> None:
        """Pause the leader for longer than its lease; the other replica leads."""
        new = self.follower
        new.keeper.turn()
        self.pass_time(TIMES.lease)
        new.follower.turn()
        new.keeper.turn()
        assert new.term > self.leader.term, "no takeover"
        self.leader, self.follower = new, self._join()
        world = copy.copy(self.world)
        assert isinstance(world, ReplicaWorld)
        world.use(self)
        world.store = self._open()
        self._world = world
        assert world.read(stored) == self.mirror.content(), "S11: something is lost"
        world.begin()

    # Instead of a restart

    def restart_service(self, crash_after: int = 0) -> None:
        """Let the other replica take over."""
        assert not crash_after, "not in this life"
        self.process_ended()
        self.driver.process += 1
        self.take_over()
        self._check_acknowledged()

    def lose_memory(self) -> None:
        """Lose the driver's memory together with the leader."""
        self.process_ended()
        self.driver.process += 1
        self.hypervisor = self.driver.inner = self._new_hypervisor()
        self.take_over()
        self._settled()

    # Served documents

    def answering(self) -> list[Endpoint]:
        """Return the endpoints from which VMs may have documents, paused ones too."""
        return [member.endpoint for member in self.members if member.may_answer()]

    def check(self) -> None:
        """Judge what the leader and the follower serve."""
        self.turn(PAUSES[0])
        for member in (self.leader, self.follower):
            assert member.may_answer(), "a replica that runs does not answer"
            self._check(member.endpoint)

    def may_begin(self, member: Member, call: Call) -> bool:
        """Judge who begins a call; return whether it reaches the driver."""
        if member is not self.leader:
            self.late.append(call)
            return False
        able = [replica for replica in self.members if replica.keeper.gate.may_act()]
        assert able == [member], "another replica may begin calls too"
        assert self.name_of(call) not in self.begun, f"S11: {call} was made twice"
        return True

    def name_of(self, call: Call) -> tuple[str, int, str]:
        """Return what no two calls have in common, while the driver knows its calls."""
        return (*call.name, self.hypervisor.memory)


class TurningGate:
    """The gate of a leader. While a call waits, the threads of all replicas have turns."""

    is_shared = True

    def __init__(self, life: ReplicatedLife) -> None:
        """Use the gate of the replica that leads now."""
        self._life, self._member = life, life.leader

    def place(self) -> int:
        return self._member.keeper.gate.place()

    def is_open(self, place: int, /) -> bool:
        gate, life = self._member.keeper.gate, self._life
        for seconds in PAUSES:
            if gate.is_open(place) or life.leader is not self._member:
                break
            life.turn(seconds)
        return gate.is_open(place)

    def may_act(self) -> bool:
        return self._member.keeper.gate.may_act()


class MemberDriver(WitnessDriver):
    """The way of one replica to the driver."""

    def __init__(self, life: ReplicatedLife) -> None:
        """Be the way of the replica that leads now."""
        super().__init__(life.driver, lambda _call: None)
        self._life, self._member = life, life.leader

    def begin(self, call: Call, *, now: Micros) -> None:
        if self._life.may_begin(self._member, call):
            self.inner.begin(call, now=now)
            self._life.begun.append(self._life.name_of(call))

    def reports(self, *, now: Micros) -> Sequence[Report]:
        # Each process has its own driver, which tells it its own results.
        is_running = self._member is self._life.leader
        return self.inner.reports(now=now) if is_running else ()

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        is_running = self._member is self._life.leader
        return self.inner.sightings(now=now) if is_running else ()


class ReplicaWorld(World):
    """The service of one replica that leads."""

    def __init__(self, life: ReplicatedLife, **more: Any) -> None:
        self._take(life)
        super().__init__(**more)

    def use(self, life: ReplicatedLife) -> None:
        """Be the service of the replica that leads now."""
        self._take(life)
        self.driver = MemberDriver(life)

    def _take(self, life: ReplicatedLife) -> None:
        self.member = life.leader
        self.gate = TurningGate(life)

    def new_endpoint(self) -> Endpoint:
        return self.member.endpoint
