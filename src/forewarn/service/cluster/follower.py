"""The thread with which a replica follows the committed documents.

It reads everything once, and then the records that the feed names. Each round reads one
snapshot, publishes it, and only then confirms its position in the row of the replica.
`cluster.documents` says until when the replica may answer. While the replica leads, the
plane publishes, and this thread only writes the row. The plane begins with the documents
that are published: a last round brings them up to the takeover.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice

from forewarn.clock import Clock
from forewarn.cluster import documents
from forewarn.cluster.documents import Reading
from forewarn.cluster.port import LeaseRow, Moment, ReplicaRow
from forewarn.cluster.times import READ_LEASE
from forewarn.control.transactions.publishing import (
    events_for,
    guest_of,
    publish_all,
    snapshot_of,
)
from forewarn.fleet.model import Vm, VmState
from forewarn.protocol import documents as rendering
from forewarn.protocol.frozen import changed
from forewarn.protocol.published import Publication
from forewarn.protocol.views import View
from forewarn.store.feed import FEED_KEYS, FollowedCluster
from forewarn.store.port import PAGE_ROWS, Reader, StoreError

log = logging.getLogger(__name__)

ROUND_SECONDS = READ_LEASE / 5
"""Maximum seconds between two writes of the row: four may fail before the read lease
ends."""

AGAIN_SECONDS = 0.2
"""Pause after a round that failed."""

Changes = tuple[tuple[str, str], ...]


class NotTakenError(StoreError):
    """The event loop does not take documents."""


class Follower:
    """Follows the feed for the endpoint of one replica."""

    def __init__(
        self,
        cluster: FollowedCluster,
        clock: Clock,
        row: ReplicaRow,
        *,
        publish: Callable[[Publication], None],
        followed: Callable[[LeaseRow, Changes | None], None] = lambda _row, _all: None,
        shown: Callable[[ReplicaRow], ReplicaRow] = lambda row: row,
        known: Callable[[], int] = lambda: 0,
        remember: Callable[[int], None] = lambda _number: None,
    ) -> None:
        """Use `cluster`, which no other thread uses, and write `row`.

        `publish` gets the changes of the documents. `followed` is called after each
        round, with the changed records of other kinds too; None: all may have changed.
        `shown` adds to the row what other replicas show of this one. `known` returns the
        highest number that this replica has seen in the database otherwise. `remember`
        keeps the highest of all for its next process, once a round and at the end.
        """
        self._cluster, self._clock, self._row = cluster, clock, row
        self._publish, self._followed, self._shown = publish, followed, shown
        self._known, self._least = known, 0
        self._remember = remember
        self._lock = threading.Lock()
        self._turning = threading.Lock()
        self._reading = Reading()
        self._leads = False
        self._position: int | None = None
        """The number up to which the feed was applied; None: everything must be read."""
        self._confirmed = -1
        self._views: set[str] = set()
        """Views that the endpoint has; `_lock` guards them and the guests."""
        self._guests: set[str] = set()
        self._stale: set[str] = set()
        """Views that are not served, because this version renders them otherwise."""
        self._is_away = self._said_lost = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="forewarn-follower")

    # For other threads

    @property
    def reading(self) -> Reading:
        """Return how far the documents are complete."""
        with self._lock:
            return self._reading

    @property
    def position(self) -> int:
        """Return the number of the last transaction in the published documents."""
        return self.reading.position

    def lead(self) -> tuple[str, ...] | None:
        """Leave the documents to the plane, after a last round.

        The caller has taken the lease, so nothing of an earlier term is committed later,
        and the round publishes all that was. Return the views that are not served because
        this version renders them otherwise; None: the round failed, and `publish_all_of`
        must publish everything.
        """
        with self._turning:
            try:
                is_complete = self._round()
                # The row says now that this replica leads.
                self._write()
            except StoreError as error:
                log.warning("the cluster's database cannot be read: %s", error)
                is_complete = False
            self._leads = True
            return tuple(sorted(self._stale)) if is_complete else None

    def publish_all_of(self, reader: Reader) -> tuple[str, ...]:
        """Publish everything that is committed, and what is gone; return as `lead` does."""
        with self._turning:
            return tuple(sorted(self._publish_everything(reader)))

    def note(self, publication: Publication) -> None:
        """Note what the plane has published.

        After the term, the feed can be too short, and everything is read: then this shows
        what is gone.
        """
        with self._lock:
            self._add(publication)
            self._views.difference_update(publication.views_gone)
            self._guests.difference_update(publication.guests_gone)

    def _add(self, publication: Publication) -> None:
        self._views.update(view.view_id for view in publication.views)
        self._guests.update(guest.vm for guest in publication.guests)

    def follow(self) -> None:
        """Follow again: the first round reads what was committed since `lead`."""
        with self._turning:
            self._leads = False
        self._cluster.wake()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and remove the row, so that no approval or call waits for it.

        The caller answers no VM any more. If the database does not answer or has lost
        transactions, the row stays until the leader removes it.
        """
        self._stopping.set()
        self._cluster.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._remember(self._highest())
        if not (self._is_away or self._said_lost):
            with suppress(StoreError):
                self._remove_row()
        self._cluster.close()

    def _remove_row(self) -> None:
        for row in self._cluster.replicas():
            if row.key == self._row.key:
                self._cluster.remove_replica(row)

    # The thread

    def _main(self) -> None:
        while not self._stopping.is_set():
            seconds = self.turn()
            self._cluster.wait(seconds)

    def turn(self) -> float:
        """Do a round; return the seconds until the next one, unless a notification comes."""
        try:
            with self._turning:
                self._round()
        except StoreError as error:
            if not self._is_away:
                log.warning("the cluster's database cannot be read: %s", error)
            self._is_away = True
            return AGAIN_SECONDS
        self._is_away = False
        written, now = self.reading.written or 0.0, self._clock.monotonic()
        return max(written + ROUND_SECONDS - now, 0.0)

    def _round(self) -> bool:
        """Do a round; return whether everything committed is published now."""
        written, now = self.reading.written, self._clock.monotonic()
        if written is None or now >= written + ROUND_SECONDS:
            self._remember(self._highest())
            self._write()
        if self._leads:
            return False
        # Before the snapshot: what is committed later need not be in it.
        self._least = self._highest()
        moment, changes = self._cluster.follow(self._position, self._apply)
        if moment.number < self._least:
            if not self._said_lost:
                log.error(
                    "the database has lost transactions: it has number %s, and this replica"
                    " has seen %s",
                    moment.number,
                    self._least,
                )
            self._said_lost = True
            return False
        self._said_lost = False
        self._position = moment.number
        with self._lock:
            self._reading = documents.published(self._reading, moment.number)
        if self._confirmed < moment.number:
            self._write()
        self._followed(moment.lease, changes)
        return True

    def _highest(self) -> int:
        return max(self.position, self._known())

    def _write(self) -> None:
        asked_at, number = self._clock.monotonic(), self.position
        self._cluster.write_replica(self._shown(changed(self._row, position=number)))
        self._confirmed = number
        with self._lock:
            self._reading = documents.wrote(self._reading, asked=asked_at)

    # The snapshot

    def _apply(self, reader: Reader, moment: Moment) -> tuple[Moment, Changes | None]:
        """Publish the snapshot, and return what has changed in it."""
        if moment.number < self._least:
            return moment, ()
        changes = _merged(moment)
        if changes is None:
            if stale := self._publish_everything(reader):
                log.warning(
                    "%s views have documents of another version of forewarn; they are"
                    " served when the leader has this version",
                    len(stale),
                )
            return moment, None
        keys = iter(changes)
        while page := tuple(islice(keys, PAGE_ROWS)):
            self._give(self._publication(reader, page))
        return moment, changes

    def _publication(self, reader: Reader, changes: Changes) -> Publication:
        views, guests = _keys(changes, View), _keys(changes, Vm)
        by_id = {view_id: reader.get(View, view_id) for view_id in views}
        events = {
            view_id: events_for(reader, view)
            for view_id, view in by_id.items()
            if view is not None
        }
        snapshots = [
            snapshot_of(view, events[view.view_id])
            for view in by_id.values()
            if view is not None
            # Another version of forewarn leads, and renders the document otherwise.
            and (
                not view.is_enabled
                or view.digest == rendering.digest(events[view.view_id])
            )
        ]
        vms = [vm for name in guests if (vm := reader.get(Vm, name)) is not None]
        there = [guest_of(vm) for vm in vms if vm.state is not VmState.DELETED]
        shown_ids = {view.view_id for view in snapshots}
        self._stale.difference_update(views)
        self._stale |= {
            view.view_id
            for view in by_id.values()
            if view is not None and view.view_id not in shown_ids
        }
        names = {guest.vm for guest in there}
        return Publication(
            views=tuple(snapshots),
            views_gone=tuple(view for view in views if view not in shown_ids),
            guests=tuple(there),
            guests_gone=tuple(guest for guest in guests if guest not in names),
        )

    def _publish_everything(self, reader: Reader) -> set[str]:
        """Publish all of a snapshot, and what is gone; return the views that are left out.

        If it fails before its end, the next one still finds what is gone.
        """
        views: set[str] = set()
        guests: set[str] = set()

        def give(publication: Publication) -> None:
            views.update(view.view_id for view in publication.views)
            guests.update(guest.vm for guest in publication.guests)
            self._give(publication)

        stale = set(publish_all(reader, give))
        with self._lock:
            gone = Publication(
                views_gone=tuple(sorted(self._views - views)),
                guests_gone=tuple(sorted(self._guests - guests)),
            )
        self._give(gone)
        self._stale = stale
        return stale

    def _give(self, publication: Publication) -> None:
        # Until it is published, the endpoint may have the old state or the new one.
        with self._lock:
            self._add(publication)
        if publication:
            self._publish(publication)
        self.note(publication)


def _merged(moment: Moment) -> Changes | None:
    """Return the changed records, each once; None: all must be read."""
    if moment.rows is None:
        return None
    merged: dict[tuple[str, str], None] = {}
    for row in moment.rows:
        if row.changes is None:
            return None
        merged.update(dict.fromkeys(row.changes))
    return tuple(merged) if len(merged) <= FEED_KEYS else None


def _keys(changes: Iterable[tuple[str, str]], kind: type) -> list[str]:
    return [key for name, key in changes if name == kind.__name__]
