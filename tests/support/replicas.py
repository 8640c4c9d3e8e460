"""Replicas of a cluster in memory, on clocks that a test moves."""

from forewarn.clock import Clock
from forewarn.cluster import documents as cluster_documents
from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import Times
from forewarn.fleet.model import Vm
from forewarn.protocol import documents
from forewarn.protocol.lifecycle import ViewState
from forewarn.protocol.published import Publication, ViewSnapshot
from forewarn.protocol.views import View
from forewarn.service.cluster.follower import Follower
from forewarn.service.cluster.keeper import Keeper
from forewarn.store.memory_cluster import MemoryCluster, SharedMemory
from forewarn.store.port import StoreError

TIMES = Times(lease=3.0)


class HandClock:
    """A clock with a rate and pauses; its wall clock is never read."""

    def __init__(self, rate: float = 1.0) -> None:
        self.rate, self.at = rate, 1_000.0

    def advance(self, seconds: float) -> None:
        """Let real seconds pass."""
        self.at += seconds * self.rate

    def now(self) -> int:
        raise AssertionError("no wall clock decides in a cluster")

    def monotonic(self) -> float:
        return self.at


class Line:
    """The connection of a replica to the database: it fails or delays on request."""

    def __init__(self) -> None:
        self.fails_at = ""
        self.error = StoreError("the database does not answer")
        """The error of a failing call."""
        self.during: dict[str, list[float]] = {}
        self.clocks: list[HandClock] = []
        self.asked: list[str] = []
        self.reached: dict[str, float] = {}
        """When each stage began last, on the first clock."""

    def __call__(self, stage: str) -> None:
        self.asked.append(stage)
        self.reached[stage] = self.clocks[0].at
        for seconds in self.during.pop(stage, []):
            for clock in self.clocks:
                clock.advance(seconds)
        if self.fails_at and stage.startswith(self.fails_at):
            raise self.error


class Replica:
    """A replica with its threads, whose turns a test calls."""

    def __init__(
        self,
        shared: SharedMemory,
        name: str,
        clock: HandClock | None = None,
        times: Times = TIMES,
        remembered: int = 0,
    ) -> None:
        self.clock = clock or HandClock()
        self.line = Line()
        self.line.clocks.append(self.clock)
        self.terms: list[int] = []
        """The terms in which it began to lead, and 0 for each end."""
        self.views: dict[str, ViewSnapshot] = {}
        self.guests: set[str] = set()
        self.opened = 0
        self.remembered = remembered
        """The number that its next process gets."""
        self.keeper = Keeper(
            MemoryCluster(shared, fault=self.line),
            self._clock(),
            self,
            key=name,
            url=f"http://{name}",
            times=times,
            remembered=remembered,
            known=lambda: self.follower.position,
            opened=self._count,
        )
        self.follower = Follower(
            MemoryCluster(shared, fault=self.line),
            self._clock(),
            ReplicaRow(key=name, name=name, url=f"http://{name}", position=0),
            publish=self.publish,
            known=lambda: self.keeper.known,
            remember=self._remember,
        )

    def _clock(self) -> Clock:
        return self.clock

    def _count(self) -> None:
        self.opened += 1

    def _remember(self, number: int) -> None:
        self.remembered = number

    def answers(self, published: int) -> bool:
        """Return whether it may answer VMs if it has published the documents of a term."""
        reading, lease_state = self.follower.reading, self.keeper.lease_state
        return self.clock.at < cluster_documents.answers_until(
            reading, lease_state, published
        )

    def lead(self, row: LeaseRow) -> None:
        self.terms.append(row.term)

    def follow(self) -> None:
        self.terms.append(0)

    def publish(self, publication: Publication) -> None:
        """Apply changes as the endpoint does."""
        for view in publication.views:
            old = self.views.get(view.view_id)
            if old is None or old.rank <= view.rank:
                self.views[view.view_id] = view
        for view_id in publication.views_gone:
            self.views.pop(view_id, None)
        self.guests |= {guest.vm for guest in publication.guests}
        self.guests.difference_update(publication.guests_gone)


def view_of(name: str) -> View:
    """Return an enabled view without events."""
    return View(
        view_id=name,
        scope="web",
        enabling=name,
        state=ViewState.ENABLED,
        epoch=1,
        incarnation=1,
        digest=documents.digest(()),
    )


def vm_of(name: str, *, view: str) -> Vm:
    """Return a VM with a view."""
    return Vm(
        name=name,
        wire_name=name,
        host="h1",
        scope="web",
        tenant="shop",
        view=view,
        vm_id="00000000-0000-4000-8000-000000000001",
    )
