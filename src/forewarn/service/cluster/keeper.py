"""The thread that keeps the lease of a replica, or watches it until it can take it.

`cluster.lease` decides; this module asks the database and passes the results on. It has
its own connection, so that no transaction delays a renewal. If the database is away or
slow, nothing is lost: the time at which driver calls end was set with the last renewal,
and the gate of the term compares it with the clock while the thread still waits for an answer.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from forewarn.clock import Clock
from forewarn.cluster import documents, lease
from forewarn.cluster.calls import (
    Beats,
    Commit,
    Positions,
    of_takeover,
    quiet,
    seen_by_others,
    silent,
    watched,
)
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import Cluster, LeaseRow, ReplicaRow, Role
from forewarn.cluster.times import Times
from forewarn.protocol.frozen import changed
from forewarn.service.cluster.gate import ReplicaGate
from forewarn.store.port import NotLeaderError, StoreError, StoreTooNewError
from forewarn.wording.replicas import ACCEPT_LOSS

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.2
"""Pause after a request that failed: short compared with the shortest lease."""

SOON_SECONDS = 0.01
"""Pause when the lease has run out and another replica has taken it meanwhile."""

ROUNDS_BETWEEN_PRUNES = 10
"""Renewals between two removals of old rows of the feed."""


class Listener(Protocol):
    """The service. The thread of the keeper calls it, so it must return at once."""

    def lead(self, row: LeaseRow) -> None:
        """Begin to decide in the term of `row`: everything up to its number is there."""
        ...

    def follow(self) -> None:
        """Stop deciding: the term has ended."""
        ...


class Keeper:
    """Keeps or watches the lease for one replica."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        listener: Listener,
        *,
        key: str,
        url: str,
        times: Times,
        remembered: int = 0,
        known: Callable[[], int] = lambda: 0,
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        """Use `cluster`, which no other thread uses.

        `remembered` is the highest number that this replica has seen in this database
        before its process began. `known` returns the number of the last transaction in the documents.
        `opened` is called when no call or answer waits for other replicas any more.
        """
        self._cluster, self._clock, self._listener = cluster, clock, listener
        self._key, self._url, self._times = key, url, times
        self._known, self._opened = known, opened
        self._lock = threading.Lock()
        self._lease_state = LeaseState(known=remembered)
        self._beats = Beats()
        self._rounds = 0
        self._took = 0.0
        """When it took the lease, while it leads."""
        self.takeovers = 0
        """The number of times that it has taken the lease."""
        self._is_away = self._said_behind = self._said_old = False
        self._lost_term = 0
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._main, name="forewarn-keeper")
        self.gate = self._gate_of(0, None)
        """The gate of its last term."""

    def _now(self) -> float:
        return self._clock.monotonic()

    # For other threads

    @property
    def lease_state(self) -> LeaseState:
        """Return what this replica knows about the lease."""
        with self._lock:
            return lease.at(self._lease_state, self._now())

    @property
    def known(self) -> int:
        """Return the highest number that it has seen in the database, or committed."""
        with self._lock:
            return max(self._lease_state.known, self.gate.number)

    def _may_call_in(self, term: int) -> bool:
        with self._lock:
            return lease.may_call_in(self._lease_state, term, self._now())

    def _gate_of(self, term: int, takeover: Commit | None) -> ReplicaGate:
        return ReplicaGate(
            lambda: self._may_call_in(term),
            self._clock,
            self._times,
            self._key,
            takeover=takeover,
            wanted=self.wake,
        )

    def gate_of(self, term: int) -> ReplicaGate:
        """Return the gate of a term; raises NotLeaderError if it has ended."""
        with self._lock:
            if self._lease_state.term != term:
                raise NotLeaderError(f"term {term} of this replica has ended")
            return self.gate

    def shown(self, row: ReplicaRow) -> ReplicaRow:
        """Return the row of this replica with its role, for other replicas."""
        lease_state, now = self.lease_state, self._now()
        led_for = now - self._took if lease_state.leads else None
        return changed(row, role=lease_state.role, led_for=led_for)

    def lost(self, term: int) -> None:
        """Note that the database refused a transaction of this term."""
        self._lost_term = term
        self.wake()

    def wake(self) -> None:
        """Let the thread look again now, as after the leader released the lease."""
        self._woken.set()
        self._cluster.wake()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, releases: bool = True) -> None:
        """Begin no more calls, release the lease, and end the thread.

        The caller has stopped deciding. With `releases` false it could not, and the
        lease runs out.
        """
        with self._lock:
            term, self._lease_state = (
                self._lease_state.term,
                lease.stopped(self._lease_state),
            )
        # Another stop does not release what this one has kept.
        releases = releases and not self._stopping.is_set()
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        if term and releases:
            with suppress(StoreError):  # then it runs out
                self._cluster.release(term)
        self._cluster.close()

    # The thread

    def _main(self) -> None:
        while not self._stopping.is_set():
            seconds = self.turn()
            if self.gate.waits:
                self._cluster.wait(seconds)
            else:
                self._woken.wait(seconds)
            self._woken.clear()

    def turn(self) -> float:
        """Look at the lease, or renew it; return the seconds until the next time."""
        lease_state = self.lease_state
        is_lost = lease_state.leads and self._lost_term == lease_state.term
        try:
            if lease_state.leads:
                self._lead(lease_state)
            elif lease_state.role is not Role.STOPPED:
                self._watch()
        except StoreTooNewError as error:
            self._say_old(error)
            return self._times.renew_every
        except StoreError as error:
            if not self._is_away:
                log.warning("the cluster's database does not answer: %s", error)
            self._is_away = True
            return AGAIN_SECONDS
        if self._is_away and not is_lost:
            log.info("the cluster's database answers again")
            self._is_away = False
        return self._seconds()

    def _seconds(self) -> float:
        lease_state, now = self.lease_state, self._now()
        if lease_state.leads:
            end = lease_state.renewed + self._times.renew_every
            if (until := self.gate.until) is not None:
                end = min(end, until)
            return max(end - now, 0.0)
        if lease_state.role is not Role.FOLLOWS:
            return self._times.renew_every
        left = (
            self._times.look_every
            if lease_state.seen is None
            else lease.free_at(lease_state.seen, self._times, lease_state.since) - now
        )
        return min(max(left, SOON_SECONDS), self._times.look_every)

    def _known_now(self) -> int:
        return max(self._known(), self.known)

    def _watch(self) -> None:
        known = self._known_now()
        row = self._cluster.lease()
        lease_state = self._change(
            lambda lease_state, now: lease.saw(lease_state, row, now=now, known=known)
        )
        if lease_state.role is Role.BEHIND:
            self._say_behind()
        self._look_at_beats()
        now = self._now()
        if lease_state.seen is None or not lease.may_take(
            lease_state, self._times, now
        ):
            return
        # Others may read both as soon as the lease is taken.
        asked_at = self._took = now
        taken = self._cluster.take(
            lease_state.seen, holder=self._key, url=self._url, seconds=self._times.lease
        )
        if taken is None:
            return
        gate = self._gate_of(taken.term, of_takeover(taken, now=self._now()))
        with self._lock:
            self.gate = gate
            self._lease_state = lease_state = lease.took(
                self._lease_state, taken, self._times, asked=asked_at, now=self._now()
            )
        if (
            not lease_state.leads
        ):  # it was stopped meanwhile, or the database has gone back
            self._cluster.release(taken.term)
            return
        log.info("this replica leads in term %s", taken.term)
        self.takeovers += 1
        self._listener.lead(taken)

    def _lead(self, lease_state: LeaseState) -> None:
        if self._lost_term == lease_state.term:
            known = self.known
            self._leave(
                lambda lease_state, now: lease.lost(
                    lease_state, None, now=now, known=known
                )
            )
            return
        now = self._now()
        if (
            now >= lease_state.renewed + self._times.renew_every
            or lease_state.role is Role.UNSURE
        ):
            self._renew(lease_state)
        if self.lease_state.leads:
            self._look_at_replicas()

    def _renew(self, lease_state: LeaseState) -> None:
        known, asked_at = self._known_now(), self._now()
        row = self._cluster.renew(lease_state.term)
        self._leave(
            lambda lease_state, now: (
                lease.lost(lease_state, None, now=now, known=known)
                if row is None
                else lease.renewed(
                    lease_state, row, self._times, asked=asked_at, now=now, known=known
                )
            )
        )

    def _look_at_replicas(self) -> None:
        asked_at = self._now()
        rows = self._look_at_beats()
        resting = quiet(self._beats, rows, now=asked_at)
        if self.gate.take(Positions(asked=asked_at, rows=rows, quiet=resting)):
            self._opened()
        self._compare(seen_by_others(self._beats, rows))
        ended = silent(
            self._beats,
            rows,
            self._times,
            key=self._key,
            since=self._took,
            now=self._now(),
        )
        for row in ended:
            if self._cluster.remove_replica(row):
                log.warning("replica %s has ended or lost the database", row.name)
        self._rounds += 1
        if self._rounds % ROUNDS_BETWEEN_PRUNES == 0:
            number = self._cluster.lease().number
            self._cluster.prune(documents.prune_to(rows, number, key=self._key))

    def _look_at_beats(self) -> tuple[ReplicaRow, ...]:
        """Return the rows of all replicas, whose beats it watches in each role."""
        rows = self._cluster.replicas()
        self._beats = watched(self._beats, rows, now=self._now())
        return rows

    def _compare(self, number: int) -> None:
        """Ask whether the database still has the number that another replica has seen."""
        if number > self.known:
            row = self._cluster.lease()
            self._leave(
                lambda lease_state, now: lease.saw(
                    lease_state, row, now=now, known=number
                )
            )

    def _change(self, step: Callable[[LeaseState, float], LeaseState]) -> LeaseState:
        with self._lock:
            self._lease_state = step(self._lease_state, self._now())
            return self._lease_state

    def _say_behind(self) -> None:
        if not self._said_behind:
            log.error(
                "the database has lost transactions that this replica has seen (up to"
                " number %s), so it does not lead, and answers VMs with 503. %s",
                self.known,
                ACCEPT_LOSS,
            )
        self._said_behind = True

    def _say_old(self, error: StoreTooNewError) -> None:
        if not self._said_old:
            log.error("this replica cannot lead: %s", error)
        self._said_old = True

    def _leave(self, step: Callable[[LeaseState, float], LeaseState]) -> None:
        """Take a step of a leader, and say so if its term has ended."""
        term = self._lease_state.term
        lease_state = self._change(step)
        if lease_state.leads or lease_state.role is Role.STOPPED:
            return
        if lease_state.role is Role.BEHIND:
            self._say_behind()
        else:
            log.warning("term %s of this replica has ended", term)
        self.gate.end()
        self._listener.follow()
