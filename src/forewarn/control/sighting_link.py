"""The sightings of the plane's driver: taken, confirmed, and acted on one by one.

Sightings that wait for their confirmation are only in memory. After a crash, the driver
returns them again (`Driver.sightings`).
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from forewarn.control.requests import sighted
from forewarn.control.requests.sighted import Meaning
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.sightings import NOTHING_SEEN, Confirmations
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Driver, Sighting
from forewarn.instants import Micros
from forewarn.store.port import Store, latest

TAKEN_TOGETHER = 100
"""Maximum sightings whose VMs are read at once, which takes about a millisecond: a driver
that starts can report each VM of a large fleet."""


class SightingLink:
    """Takes the sightings of one driver."""

    def __init__(
        self,
        driver: Driver,
        *,
        store: Store,
        policy: Policy,
        run: Callable[[Callable[[Work], object], Micros], object],
    ) -> None:
        """Act as `policy` allows; `run` carries out a decision in a transaction."""
        self._driver = driver
        self._store = store
        self._run = run
        self._acts = policy.sighting_acts
        self._confirmations = Confirmations(
            confirm=policy.sighting_confirm, stopped_max=policy.sightings_max
        )
        self._new: deque[Sighting] = deque()
        self._confirmed: deque[Sighting] = deque()
        self.seen = NOTHING_SEEN
        """The unrecorded observations; other threads may read it."""

    def collect(self, *, now: Micros) -> None:
        """Take the new sightings of the driver, and those that are confirmed."""
        self._new.extend(self._driver.sightings(now=now))
        due = self._confirmations.due(now=now, limit=TAKEN_TOGETHER)
        for sighting, meant in self._meanings(due):
            self._decide(sighting, meant, now=now)
        self._judge()

    def has_more(self) -> bool:
        """Return whether sightings are waiting for a step."""
        return bool(self._new or self._confirmed)

    def take_one(self, now: Micros) -> bool:
        """Do one step; return whether it needed a transaction.

        A sighting that cannot be processed, because the store is locked, is kept.
        """
        if self._confirmed:
            sighting, acts = self._confirmed[0], self._acts
            meant = self._run(lambda work: sighted.act(work, sighting, acts), now)
            self._confirmed.popleft()
            if meant is Meaning.EXPECTED:
                self._confirmations.take(sighting, is_expected=True, now=now)
            return True
        some = [self._new[at] for at in range(min(len(self._new), TAKEN_TOGETHER))]
        for sighting, meant in self._meanings(some):
            if meant is Meaning.NOTHING:
                self._confirmations.drop(sighting.vm, now=now)
            else:
                is_expected = meant is Meaning.EXPECTED
                self._confirmations.take(sighting, is_expected=is_expected, now=now)
            self._new.popleft()
        self._judge()
        return False

    def next_due(self) -> Micros | None:
        """Return the time of the next confirmation."""
        return self._confirmations.next_due()

    def _meanings(self, some: list[Sighting]) -> list[tuple[Sighting, Meaning]]:
        """Return what sightings mean, from one view of the store."""
        if not some:
            return []
        ask = partial(sighted.meaning, acts=self._acts)
        return latest(
            self._store,
            lambda reader: [(sighting, ask(reader, sighting)) for sighting in some],
        )

    def _decide(self, sighting: Sighting, meant: Meaning, *, now: Micros) -> None:
        """Process a sighting whose time has elapsed; unless it is dropped, it waits again."""
        if meant is Meaning.NOTHING:
            self._confirmations.drop(sighting.vm, now=now)
        elif meant is Meaning.EXPECTED:
            return
        elif self._confirmations.is_expected(sighting.vm):
            # The driver's work has ended. A driver that repeats nothing gets the time now.
            self._confirmations.take(sighting, is_expected=False, now=now)
        elif sighting.is_without_reason:
            self._confirmations.show(sighting)
        elif sighting.running or not self._is_withheld(sighting):
            self._confirmations.drop(sighting.vm, now=now)
            self._confirmed.append(sighting)

    def _is_withheld(self, sighting: Sighting) -> bool:
        withheld = self._confirmations.withheld()
        return withheld is not None and withheld.applies_to(sighting)

    def _judge(self) -> None:
        """Publish what is not recorded, and whether too many VMs stopped at once."""
        self.seen = self._confirmations.seen()
