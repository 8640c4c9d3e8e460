"""The gateways of the routes: to the plane, with the rights of the caller, and to the
receivers of webhooks.

A tenant reads only through `control.redaction.tenant_reader`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from forewarn.admin.access import DEMANDS, Caller, Demand, judge
from forewarn.campaigns.plan_progress import Progress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignFileError, CampaignText
from forewarn.cluster.view import View
from forewarn.control.gateway import CallerGateway, Health, OperatorGateway
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.work import Check, Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.settings.amounts import Amount
from forewarn.store.port import Reader

T = TypeVar("T")

IsGone = Callable[[], Awaitable[bool]]
"""Returns whether the client of a request has left."""


_LEAST = Demand.TENANT_READS
"""The right that every operator and tenant has."""

_READS = DEMANDS["POST /v1/fleet/plan"]
_APPLIES = DEMANDS["POST /v1/fleet/apply"]


class WebhookGateway(Protocol):
    """Access to the receivers."""

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        """Return the state of each receiver."""
        ...

    async def test_webhook(self, name: str) -> dict[str, Any]:
        """Post a ping to a receiver and return the result; raises NotFoundError."""
        ...


class CheckGateway(Protocol):
    """Access to the checks."""

    async def checks(self) -> Sequence[dict[str, Any]]:
        """Return the state of each check."""
        ...

    async def run_check(self, name: str) -> dict[str, Any]:
        """Ask a check now, and return its result; raises NotFoundError."""
        ...


class ClusterGateway(Protocol):
    """Access to what this service knows of its replicas."""

    async def cluster(self) -> View | None:
        """Return the replicas as this one sees them; None: the service runs alone."""
        ...


@runtime_checkable
class RemoteGateway(OperatorGateway, Protocol):
    """An operator gateway in another process than the plane."""

    def on_behalf_of(
        self, caller: Caller, *, is_gone: IsGone | None = None
    ) -> CallerGateway:
        """Return the gateway for `caller`, or for one request of it with `is_gone`."""
        ...


class AuthorizedGateway:
    """The gateway of a caller with a token of the store.

    Each transaction checks the token, so a revoked token neither reads nor writes. A
    tenant reads through its `TenantReader`.
    """

    def __init__(self, gateway: CallerGateway, caller: Caller) -> None:
        """Use `gateway` on behalf of `caller`."""
        self._gateway = gateway
        self._caller = caller

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Execute one request; also raises UnauthorizedError."""
        if isinstance(self._gateway, RemoteGateway):
            # The remote gateway takes only a `Decision`, which checks the token itself.
            return await self._gateway.order(who, decide)

        def judged(work: Work) -> T:
            self._judge(work.tx, Demand.RELAY if self._caller.host else _LEAST)
            return decide(work)

        return await self._gateway.order(who, judged)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read the caller's part of the store; also raises UnauthorizedError.

        A relay reads nothing this way: `relay_hub` reads for it.
        """

        def judged(reader: Reader) -> T:
            self._judge(reader, _LEAST)
            tenant = self._caller.tenant
            return ask(TenantReader(reader, tenant) if tenant else reader)

        return await self._gateway.read(judged)

    def _judge(self, reader: Reader, demand: Demand) -> None:
        judge(reader, self._caller, demand, now=self.now())

    @property
    def reserve(self) -> Amount:
        """Return the free capacity that routine work leaves in each pool."""
        return self._gateway.reserve

    @property
    def second_person(self) -> bool:
        """Return whether another operator than its starter must approve a campaign."""
        return self._gateway.second_person

    def now(self) -> Micros:
        """Return the model time."""
        return self._gateway.now()

    async def health(self) -> Health:
        """Return whether the control thread and the store work."""
        return await self._gateway.health()

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return the number of objects of each kind in a fleet file."""
        return await self._gateway.count_fleet(text)

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,  # noqa: ARG002 - the caller's rights are checked
    ) -> MergePlan:
        """Plan or apply a fleet file for an operator; raises ForbiddenError."""

        def check_rights(reader: Reader, now: Micros) -> None:
            judge(reader, self._caller, _APPLIES if who else _READS, now=now)
            if who and text.may_be_empty:
                # The file can remove the whole fleet.
                judge(reader, self._caller, Demand.OPERATOR_EMERGENCY, now=now)

        # Planning a large file is expensive, so the first check precedes it.
        await self._gateway.read(lambda reader: check_rights(reader, self.now()))
        return await self._gateway.merge_fleet(
            text,
            who=who,
            once=once,
            check=lambda work: check_rights(work.tx, work.now),
        )

    async def plan_campaign(self, text: CampaignText, *, hosts_max: int) -> str:
        """Plan a campaign for an operator; also raises ForbiddenError."""
        demand = DEMANDS["POST /v1/campaigns/plan"]
        await self._gateway.read(
            lambda reader: judge(reader, self._caller, demand, now=self.now())
        )
        return await self._gateway.plan_campaign(text, hosts_max=hosts_max)

    async def simulate_campaign(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int
    ) -> str:
        """Simulate a campaign for an operator; also raises ForbiddenError."""
        demand = DEMANDS["POST /v1/campaigns/simulate"]
        await self._gateway.read(
            lambda reader: judge(reader, self._caller, demand, now=self.now())
        )
        return await self._gateway.simulate_campaign(text, assumed, hosts_max=hosts_max)

    async def campaign_progress(self, key: str) -> Progress | None:
        """Return the progress of a request of an operator; also raises ForbiddenError."""
        demand = DEMANDS["GET /v1/campaigns/progress/{key}"]
        await self._gateway.read(
            lambda reader: judge(reader, self._caller, demand, now=self.now())
        )
        return await self._gateway.campaign_progress(key)

    async def start_campaign(
        self,
        text: CampaignText,
        *,
        digest: str,
        who: Who,
        once: Once | None = None,
        check: Check | None = None,  # noqa: ARG002 - the caller's rights are checked
    ) -> Result:
        """Start a campaign for an operator; also raises ForbiddenError."""
        demands = _demands_of_start(text)

        def check_rights(reader: Reader, now: Micros) -> None:
            for demand in demands:
                judge(reader, self._caller, demand, now=now)

        # Planning is expensive, so the first check precedes it.
        await self._gateway.read(lambda reader: check_rights(reader, self.now()))
        return await self._gateway.start_campaign(
            text,
            digest=digest,
            who=who,
            once=once,
            check=lambda work: check_rights(work.tx, work.now),
        )


def _demands_of_start(text: CampaignText) -> tuple[Demand, ...]:
    """Return the demands on the caller who starts the campaign of a file."""
    # A service without campaigns does not load the reader of their files.
    from forewarn.campaigns.file import read_campaign  # noqa: PLC0415

    try:
        campaign = read_campaign(text.text, name=text.name)
    except CampaignFileError:
        # The planner refuses the file.
        return (Demand.OPERATOR_RUNS,)
    if campaign.is_emergency:
        return (Demand.OPERATOR_RUNS, Demand.OPERATOR_EMERGENCY)
    return (Demand.OPERATOR_RUNS,)


def on_behalf_of(
    gateway: OperatorGateway, caller: Caller, *, is_gone: IsGone | None = None
) -> CallerGateway:
    """Return a gateway for `caller` that reads everything."""
    if not isinstance(gateway, RemoteGateway):
        return gateway
    return gateway.on_behalf_of(caller, is_gone=is_gone)


def gateway_for(
    gateway: OperatorGateway, caller: Caller, *, is_gone: IsGone | None = None
) -> CallerGateway:
    """Return the gateway with the rights of the caller, for a request with `is_gone`."""
    asking = on_behalf_of(gateway, caller, is_gone=is_gone)
    return AuthorizedGateway(asking, caller) if caller.token_id else asking
