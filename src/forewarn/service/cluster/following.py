"""The answers of a replica that follows, for operators: it reads, and changes nothing.

The process of the operator API refuses other requests by itself (`admin.leading`), so these
refusals are for requests that were under way when the role changed.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.clock import Clock
from forewarn.control.gateway import BusyError, Health
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.service.readings import Readings, Watchers
from forewarn.settings.amounts import Amount
from forewarn.store.port import Reader

T = TypeVar("T")


def _refuse() -> NoReturn:
    raise BusyError(
        "this replica does not lead", hint="Send the request again: another one leads."
    )


@dataclass(frozen=True, kw_only=True)
class FollowingGateway:
    """The operator gateway of a replica that follows (control.gateway)."""

    readings: Readings
    watchers: Watchers
    clock: Clock
    reserve: Amount
    second_person: bool
    ask_health: Callable[[], Health]

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:  # noqa: ARG002
        """Refuse the request; raises BusyError."""
        _refuse()

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read a consistent view of the store."""
        return await self.readings.read(ask)

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:  # noqa: ARG002
        """Refuse to read the file; raises BusyError."""
        _refuse()

    async def merge_fleet(
        self,
        text: FleetText,  # noqa: ARG002
        *,
        who: Who | None,  # noqa: ARG002
        once: Once | None = None,  # noqa: ARG002
        check: Check | None = None,  # noqa: ARG002
    ) -> MergePlan:
        """Refuse to apply the file; raises BusyError."""
        _refuse()

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:  # noqa: ARG002
        """Refuse to plan; raises BusyError."""
        _refuse()

    async def simulate_campaign(
        self,
        text: CampaignText,  # noqa: ARG002
        assumed: Assumptions,  # noqa: ARG002
        *,
        hosts_max: int,  # noqa: ARG002
    ) -> str:
        """Refuse to simulate; raises BusyError."""
        _refuse()

    async def campaign_progress(self, key: str) -> Progress | None:  # noqa: ARG002
        """Return None: this replica plans nothing."""
        return None

    async def start_campaign(
        self,
        text: CampaignText,  # noqa: ARG002
        *,
        digest: str,  # noqa: ARG002
        who: Who,  # noqa: ARG002
        once: Once | None = None,  # noqa: ARG002
        check: Check | None = None,  # noqa: ARG002
    ) -> Result:
        """Refuse to start the campaign; raises BusyError."""
        _refuse()

    def now(self) -> Micros:
        """Return the model time."""
        return self.clock.now()

    async def health(self) -> Health:
        """Return the health of this replica."""
        return self.ask_health()

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield IDs of changed operations, as the feed names them."""
        return self.watchers.watch()


class NothingSent:
    """The receivers and checks of a replica that follows: the leader has them."""

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        """Raise BusyError."""
        _refuse()

    async def test_webhook(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        """Raise BusyError."""
        _refuse()

    async def checks(self) -> Sequence[dict[str, Any]]:
        """Raise BusyError."""
        _refuse()

    async def run_check(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        """Raise BusyError."""
        _refuse()
