"""The place of a service in its cluster: two threads, and what they tell the event loop.

The keeper watches or keeps the lease, the follower the committed documents. Each has a
connection of its own to the database, and a third one answers where the leader is now.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from forewarn import __version__
from forewarn.admin.leader import Leader
from forewarn.admin.meters import Reading
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.cluster.documents import answers_until
from forewarn.cluster.port import LeaseRow, ReplicaRow, Role
from forewarn.cluster.times import READ_LEASE, Times
from forewarn.cluster.view import Look, View, Watch, looked, view
from forewarn.ids import RandomIds
from forewarn.metadata.passed_on import replica_key
from forewarn.protocol.operations import Operation
from forewarn.protocol.published import Publication
from forewarn.service import limits
from forewarn.service.cluster import cluster_metrics
from forewarn.service.cluster.addresses import ReplicaAddress
from forewarn.service.cluster.follower import Changes, Follower, NotTakenError
from forewarn.service.cluster.keeper import Keeper
from forewarn.service.cluster.memory import ReplicaMemory
from forewarn.service.cluster.passing import LeaderDoor
from forewarn.store.feed import FollowedCluster, LeaderStore
from forewarn.store.port import Reader, Store
from forewarn.store.records import LEADER_KEY
from forewarn.store.records import Leader as StoreSecret
from forewarn.store.snapshot import SnapshotStore

T = TypeVar("T")


class Backend(Protocol):
    """The database that the replicas share."""

    def prepare(self) -> Store | SnapshotStore:
        """Bring its tables up to date, and return a reader; raises StoreError."""
        ...

    def connect(self) -> FollowedCluster:
        """Return a new connection for one thread; raises StoreError."""
        ...

    def lead(self, row: LeaseRow) -> LeaderStore:
        """Return the store of a term; raises NotLeaderError if it has ended."""
        ...


class Replica:
    """One replica; its methods are called on the event loop unless they say otherwise."""

    def __init__(
        self,
        backend: Backend,
        address: ReplicaAddress,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        times: Times,
        memory: Path,
        threads: Executor,
        ids: RandomIds,
        publish: Callable[[Publication], None],
        changed: Callable[[Sequence[str]], None],
        role_changed: Callable[[], None],
        may_call: Callable[[], None],
    ) -> None:
        """Connect; raises StoreError. This blocks, so a thread calls it.

        `memory` is the file that remembers the database for the next process.

        `publish` and `changed` get what the leader has committed, `role_changed` is
        called when `term` has changed, and `may_call` in any thread when driver calls
        that waited may begin.
        """
        self.address = address
        self.key = f"{address.name} {ids.short('r')}"
        self.term: LeaseRow | None = None
        """The term in which this replica leads; None: it follows."""
        self.published = 0
        """The last term whose documents were published completely; 0: none."""
        self._loop = loop
        self._clock, self._threads = clock, threads
        self._publish, self._changed = publish, changed
        self._role_changed = role_changed
        self._lease: LeaseRow | None = None
        self.follows_leader = False
        """Whether another replica has renewed or taken the lease since this one looks."""
        self._secret = ""
        self._turned = asyncio.Event()
        self._asking: asyncio.Task[LeaseRow] | None = None
        self._asker = backend.connect()
        self._asker_turn = asyncio.Lock()
        self._watch = Watch()
        self._asked_condition: float | None = None
        remembered = ReplicaMemory(memory, self._asker.lease().database)
        self.follower = Follower(
            backend.connect(),
            clock,
            self._first_row(times),
            publish=self._give,
            followed=self._note_round,
            shown=self._with_role,
            known=lambda: self.keeper.known,
            remember=remembered.keep,
        )
        self.keeper = Keeper(
            backend.connect(),
            clock,
            self,
            key=self.key,
            url=address.metadata_url,
            times=times,
            remembered=remembered.number,
            known=lambda: self.follower.position,
            opened=may_call,
        )

    def _first_row(self, times: Times) -> ReplicaRow:
        return ReplicaRow(
            key=self.key,
            name=self.address.name,
            url=self.address.url,
            position=0,
            version=__version__,
            lease=times.lease,
        )

    def start(self) -> None:
        """Start the threads."""
        self.follower.start()
        self.keeper.start()

    async def leave(self, *, releases: bool) -> None:
        """Cease to lead: with `releases`, another replica takes over at once.

        Otherwise the lease runs out before.
        """
        await asyncio.to_thread(self.keeper.stop, releases=releases)

    async def stop(self) -> None:
        """End the threads, and close the connections."""
        await asyncio.to_thread(self.keeper.stop)
        await asyncio.to_thread(self.follower.stop)
        if self._asking is not None:
            await asyncio.wait([self._asking])
        self._asker.close()

    @property
    def answers_until(self) -> float:
        """Return the I/O time until which VMs may get the documents of this replica."""
        return answers_until(
            self.follower.reading, self.keeper.lease_state, self.published
        )

    @property
    def refuses(self) -> bool:
        """Return whether the database has lost what this replica has seen."""
        return self.keeper.lease_state.role is Role.BEHIND

    # The leader

    def leader(self) -> Leader:
        """Return the replica that leads, as this one knows it."""
        row = self._lease
        if row is None or not row.holder:
            return Leader()
        look = self._watch.look
        rows = () if look is None else look.rows
        url = next((replica.url for replica in rows if replica.key == row.holder), "")
        return Leader(name=row.holder.rpartition(" ")[0], url=url)

    def know(self, secret: str) -> None:
        """Sign requests to the leader with a key of this secret of the store."""
        self._secret = secret

    @property
    def knows_secret(self) -> bool:
        """Return whether requests to the leader can be signed."""
        return bool(self._secret)

    async def read_cluster(self) -> None:
        """Read the lease and the rows of all replicas; raises StoreError."""
        lease, rows = await self._on_asker(self._read_rows)
        at = self._clock.monotonic()
        self._watch = looked(self._watch, Look(at=at, lease=lease, rows=rows))
        asked_at = self._asked_condition
        if asked_at is None or at >= asked_at + limits.CONDITION_SECONDS:
            condition = await self._on_asker(self._asker.condition)
            self._watch = replace(self._watch, condition=condition)
            self._asked_condition = at

    def _read_rows(self) -> tuple[LeaseRow, tuple[ReplicaRow, ...]]:
        # In this order: a position that is read later than the number only looks better.
        return self._asker.lease(), self._asker.replicas()

    def readings(self, passed_on: Mapping[tuple[str, str], int]) -> list[Reading]:
        """Return the metrics; `passed_on` counts requests by kind and result."""
        return list(
            cluster_metrics.readings(
                self.view(),
                self.keeper.lease_state,
                now=self._clock.monotonic(),
                takeovers=self.keeper.takeovers,
                passed_on=passed_on,
            )
        )

    def view(self) -> View:
        """Return what this replica knows of all of them."""
        return view(self._watch, self._clock.monotonic(), observer=self.key)

    def door(self) -> LeaderDoor | None:
        """Return where the leader answers VMs; None: none is known."""
        row = self._lease
        if row is None or not row.holder or not row.url or not self._secret:
            return None
        if row.holder == self.key:
            return None
        key = replica_key(self._secret, row.term)
        return LeaderDoor(url=parse_url(row.url), key=key)

    async def caught_up(self) -> None:
        """Return when everything is served that is committed now."""
        if self._asking is not None:
            # That answer can be from before the commit.
            await asyncio.wait([self._asking])
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        row = await asyncio.shield(self._asking)
        while self.follower.position < row.number:
            await self._turned.wait()

    async def _ask(self) -> LeaseRow:
        return await self._on_asker(self._asker.lease)

    async def _on_asker(self, ask: Callable[[], T]) -> T:
        async with self._asker_turn:
            return await self._loop.run_in_executor(self._threads, ask)

    # Called by the threads

    def lead(self, row: LeaseRow) -> None:
        """Begin a term (keeper.Listener)."""
        self._call_soon(self._take_term, row)

    def follow(self) -> None:
        """End the term (keeper.Listener)."""
        self._call_soon(self._take_term, None)

    def _with_role(self, row: ReplicaRow) -> ReplicaRow:
        return self.keeper.shown(row)

    def _take_term(self, row: LeaseRow | None) -> None:
        self.term = row
        self._role_changed()

    def _give(self, publication: Publication) -> None:
        """Publish, and return when it is done: the follower confirms it then."""
        done: Future[None] = Future()

        def publish() -> None:
            self._publish(publication)
            done.set_result(None)

        self._call_soon(publish)
        try:
            done.result(READ_LEASE)
        except TimeoutError as error:
            raise NotTakenError("the event loop does not take documents") from error

    def _note_round(self, row: LeaseRow, changes: Changes | None) -> None:
        if not row.holder:
            # The bell of a release rings here: a candidate does not wait for its next look.
            self.keeper.wake()
        self._call_soon(self._take_round, row, changes)

    def _take_round(self, row: LeaseRow, changes: Changes | None) -> None:
        if self._lease is not None and row.beat != self._lease.beat:
            self.follows_leader = row.holder != self.key
        self._lease = row
        self._turned.set()
        self._turned = asyncio.Event()
        if changes is None:
            self._changed(())
        elif operations := [key for kind, key in changes if kind == Operation.__name__]:
            self._changed(operations)

    def _call_soon(self, act: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act, *arguments)


def secret_in(reader: Reader) -> str:
    """Return the secret of the store; empty: no leader has written yet."""
    secret = reader.get(StoreSecret, LEADER_KEY)
    return "" if secret is None else secret.secret
