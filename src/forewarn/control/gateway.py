"""The port through which the operator API reaches the control plane.

The service implements it across the thread of the plane; a world on a virtual clock
implements it directly.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.prepared import Prepared
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import dry_run
from forewarn.control.requests.campaigns import start_once
from forewarn.control.requests.idempotency import Once, Result, earlier_result
from forewarn.control.rules.sightings import NOTHING_SEEN, Seen
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.settings.amounts import Amount
from forewarn.store.port import Reader

T = TypeVar("T")


class BusyError(ForewarnError):
    """Too many requests wait for the control plane. The caller can try again soon."""


LEADS, FOLLOWS = "leads", "follows"
"""The roles of a service. One without replicas leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Health of the service."""

    alive: bool
    """Whether the control thread runs; if not, the process should be restarted."""
    ready: bool
    """Whether the service takes requests: the store works and everything is
    published."""
    problems: tuple[str, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why the driver cannot reach hosts now, by host."""
    role: str = LEADS
    """Whether this service decides, or follows the replica that does."""
    seen: Seen = NOTHING_SEEN
    """Observations of VMs by drivers that are not recorded."""


class CallerGateway(Protocol):
    """The interface from the operator API to the plane, for one caller."""

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one request; raises the errors of `decide`, and BusyError."""
        ...

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read a consistent view of the store, outside the thread of the plane."""
        ...

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return the number of objects of each kind in a fleet file.

        Raises FleetFileError.
        """
        ...

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,
    ) -> MergePlan:
        """Apply a fleet file for `who`, and return the changes.

        If `who` is None, only plan the changes. Otherwise `check` is called in the
        transaction, before the changes, and its error refuses them. Raises
        FleetFileError, RefusedError, BusyError, and RepeatedError for a repeated
        request; then nothing is changed.
        """
        ...

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:
        """Return the plan of a campaign file as JSON, with at most `hosts_max` hosts.

        It is for operators, and changes nothing. Raises CampaignFileError,
        RefusedError, and BusyError.
        """
        ...

    async def simulate_campaign(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int
    ) -> str:
        """Return what happens in a simulation of a campaign file, as JSON.

        It is for operators, and changes nothing. Raises the errors of `plan_campaign`.
        """
        ...

    async def campaign_progress(self, key: str) -> Progress | None:
        """Return how far the plan or simulation with a key has come.

        It is for operators. None: none with this key is under way.
        """
        ...

    async def start_campaign(
        self,
        text: CampaignText,
        *,
        digest: str,
        who: Who,
        once: Once | None = None,
        check: Check | None = None,
    ) -> Result:
        """Start the campaign of a file if its plan still has this digest.

        Return the ID of the campaign. `check` is called in the transaction. Raises
        CampaignFileError, RefusedError, and BusyError; then nothing is changed.
        """
        ...

    @property
    def reserve(self) -> Amount:
        """Return the free capacity that routine work leaves in each pool."""
        ...

    @property
    def second_person(self) -> bool:
        """Return whether another operator than its starter must approve a campaign."""
        ...

    def now(self) -> Micros:
        """Return the model time."""
        ...

    async def health(self) -> Health:
        """Return whether the control thread and the store work."""
        ...


async def start_prepared(
    gateway: CallerGateway,
    prepare: Callable[[], Awaitable[Prepared]],
    *,
    who: Who,
    once: Once | None,
    check: Check | None,
) -> Result:
    """Start the campaign that `prepare` plans, unless an earlier request has.

    To plan takes long, so a repeated request gets the first result before. A dry run
    raises DryRunError.
    """
    earlier = await gateway.read(
        lambda reader: earlier_result(reader, once, now=gateway.now())
    )
    if earlier is not None:
        return earlier
    prepared = await prepare()

    def start(work: Work) -> Result:
        if who.is_dry_run:
            raise dry_run.of_start(work, prepared, check=check)
        return start_once(work, prepared, once=once, check=check)

    return await gateway.order(who, start)


class OperatorGateway(CallerGateway, Protocol):
    """The interface from the operator API to the plane, with a feed of all changes."""

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield IDs of changed operations from now on.

        IDs can repeat. A reader that is too slow gets an empty tuple and must read
        everything again.
        """
        ...
