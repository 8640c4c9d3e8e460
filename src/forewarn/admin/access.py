"""Who asks, what each route demands of them, and what they get to see.

`DEMANDS` is the whole of it: a route that it does not name is for operators who may
order, so a route that somebody adds is closed until it is named here (and a test
fails until it is). What a tenant is shown comes from `control.redaction.sight` alone.
"""

import enum
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast, runtime_checkable

from starlette.requests import Request

from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.control import tokens
from forewarn.control.gateway import CallerGateway, Health, OperatorGateway
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor, ActorKind
from forewarn.store.port import Reader
from forewarn.store.token import Token
from forewarn.verbs.table import VERBS

T = TypeVar("T")

CALLER = "forewarn.caller"
"""Where a request's scope keeps its `Caller`."""


UNIX_PEER = "forewarn.unix_peer"
"""Where a request's scope keeps its `UnixPeer`, if it came to a Unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixPeer:
    """A local process, as the kernel knows it."""

    name: str
    """As the history calls its user: `unix:alice`, which is no token's name."""
    where: str
    """Its process and user, for the history."""
    is_operator: bool
    """It is root, the service's user, or in the service's group."""
    wanted: str
    """The group whose members are operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request."""

    name: str
    """As the history calls them; empty: nobody has said."""
    tenant: str = ""
    """Whose token it is; empty: an operator's."""
    may_write: bool = True
    token_id: str = ""
    """The token of the store that is judged anew in each transaction."""
    peer: str = ""
    """Address of the connection's peer."""
    is_authenticated: bool = True
    """They presented a good token or credentials; false where none are needed."""

    @property
    def actor(self) -> Actor:
        """Return who it is, as the history has them."""
        return Actor(
            kind=ActorKind.TENANT if self.tenant else ActorKind.OPERATOR,
            name=self.name.removeprefix(f"{self.tenant}/"),
            tenant=self.tenant,
            token=self.token_id,
            peer=self.peer,
        )

    @property
    def is_operator(self) -> bool:
        """Tell whether they may see everything."""
        return self.name != "" and not self.tenant

    @classmethod
    def of_token(cls, token: Token) -> "Caller":
        """Return the holder of a token of the store."""
        name = f"{token.tenant}/{token.name}" if token.tenant else token.name
        return cls(
            name=name,
            tenant=token.tenant,
            may_write=not token.read_only,
            token_id=token.token_id,
            # Who made the token may have been anybody.
            is_authenticated=not token.is_unauthenticated,
        )


NOBODY = Caller(name="", may_write=False)
"""Who sent no token to what is open to everybody."""


class Demand(enum.Enum):
    """Who may use a route: whether tenants may, and whether it changes something."""

    OPERATOR_READS = (False, False)
    OPERATOR_ORDERS = (False, True)
    TENANT_READS = (True, False)
    TENANT_ORDERS = (True, True)

    def __init__(self, for_tenants: bool, writes: bool) -> None:  # noqa: FBT001
        """Keep the two questions apart."""
        self.for_tenants = for_tenants
        self.writes = writes


DEMANDS: dict[str, Demand] = {
    "GET /metrics": Demand.OPERATOR_READS,
    "GET /v1/availability": Demand.TENANT_READS,
    "GET /v1/capacity": Demand.OPERATOR_READS,
    "GET /v1/events": Demand.TENANT_READS,
    "GET /v1/explain/{name}": Demand.TENANT_READS,
    "GET /v1/fleet": Demand.TENANT_READS,
    "GET /v1/fleet/export": Demand.OPERATOR_READS,
    "GET /v1/history": Demand.TENANT_READS,
    "GET /v1/history/operations": Demand.TENANT_READS,
    "GET /v1/history/operations/{name}": Demand.TENANT_READS,
    "GET /v1/operations": Demand.TENANT_READS,
    "GET /v1/operations/{name}": Demand.TENANT_READS,
    "GET /v1/problems": Demand.TENANT_READS,
    "GET /v1/requests/{name}": Demand.TENANT_READS,
    "GET /v1/rollouts": Demand.OPERATOR_READS,
    "GET /v1/rollouts/{name}": Demand.OPERATOR_READS,
    "GET /v1/tokens": Demand.OPERATOR_READS,
    "GET /v1/waits": Demand.TENANT_READS,
    "GET /v1/watch": Demand.TENANT_READS,
    "GET /v1/webhooks": Demand.OPERATOR_READS,
    "POST /v1/fleet/apply": Demand.OPERATOR_ORDERS,
    "POST /v1/fleet/plan": Demand.OPERATOR_READS,
    "POST /v1/fleet/validate": Demand.OPERATOR_READS,
    "POST /v1/tokens": Demand.OPERATOR_ORDERS,
    "POST /v1/tokens/revoke": Demand.OPERATOR_ORDERS,
    "POST /v1/webhooks/test": Demand.OPERATOR_ORDERS,
    **{
        f"POST /v1/{verb.name}": (
            Demand.TENANT_ORDERS if verb.for_tenants else Demand.OPERATOR_ORDERS
        )
        for verb in VERBS.values()
    },
}
"""What each route demands, by method and path."""

TOPIC_DEMANDS: Mapping[str, Demand] = {
    "hosts": Demand.OPERATOR_READS,
    "operations": Demand.TENANT_READS,
    "events": Demand.TENANT_READS,
    "problems": Demand.TENANT_READS,
    "history": Demand.TENANT_READS,
}
"""What each topic of the stream demands; a topic that is missing here is closed."""


_PATTERNS = {
    key: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(key)))
    for key in DEMANDS
    if "{" in key
}


def demand_of(method: str, path: str) -> Demand | None:
    """Return what a request demands, by its head; None: the table names no such route.

    Routes that another program adds (`admit_operators`) are not in the table.
    """
    asked = f"{method} {path}"
    found = DEMANDS.get(asked)
    if found is not None or not path.startswith("/v1/"):
        return found
    for key, pattern in _PATTERNS.items():
        if pattern.fullmatch(asked):
            return DEMANDS[key]
    return None


def caller_of(request: Request) -> Caller:
    """Return who sent the request, as the gate found out."""
    return cast("Caller", request.scope[CALLER])


def admission(prefix: str) -> Callable[[Request], Awaitable[None]]:
    """Return what lets requests on to the routes of a router, as `DEMANDS` says.

    `head.Head` has judged the same from the path. This looks at the route that was
    found, so a route without an entry in the table is closed however its path is
    written. `prefix` is the router's own, which its routes do not know.
    """

    async def admit(request: Request) -> None:
        path = prefix + str(getattr(request.scope.get("route"), "path", ""))
        demand = DEMANDS.get(f"{request.method} {path}", Demand.OPERATOR_ORDERS)
        check(caller_of(request), demand)

    return admit


async def admit_operators(request: Request) -> None:
    """Let operators on to routes that `DEMANDS` does not know: of who added them.

    Whoever may only read may only GET.
    """
    reads = request.method == "GET"
    demand = Demand.OPERATOR_READS if reads else Demand.OPERATOR_ORDERS
    check(caller_of(request), demand)


def check(caller: Caller, demand: Demand) -> None:
    """Raise ForbiddenError for who may not do what a route demands."""
    if caller.tenant and not demand.for_tenants:
        raise ForbiddenError(
            f"this token is tenant {caller.tenant}'s, and this is for operators",
            hint="ask the operator; the page 'Tenants and tokens' "
            "says what a tenant may do",
        )
    if demand.writes and not caller.may_write:
        raise ForbiddenError(
            "this token may only read",
            hint="ask for one that was made without --read-only",
        )


@runtime_checkable
class RemoteGateway(OperatorGateway, Protocol):
    """A desk in another process than the plane, which is told who asks."""

    def on_behalf_of(self, caller: Caller) -> CallerGateway:
        """Return the gateway that asks for `caller`."""
        ...


class AuthorizedGateway:
    """The gateway for who came with a token of the store.

    The token is judged in every transaction, so nothing is read or ordered with one
    that was revoked before; a tenant reads through its `TenantReader`.
    """

    def __init__(self, gateway: CallerGateway, caller: Caller) -> None:
        """Ask `gateway` on behalf of `caller`."""
        self._gateway = gateway
        self._caller = caller

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one order; also raises UnauthorizedError."""
        if isinstance(self._gateway, RemoteGateway):
            # It takes nothing but a `Decision`, which judges the token by itself.
            return await self._gateway.order(who, decide)

        def judged(work: Work) -> T:
            self._judge(work.tx)
            return decide(work)

        return await self._gateway.order(who, judged)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read what the caller may see; also raises UnauthorizedError."""

        def judged(reader: Reader) -> T:
            self._judge(reader)
            tenant = self._caller.tenant
            return ask(TenantReader(reader, tenant) if tenant else reader)

        return await self._gateway.read(judged)

    def _judge(self, reader: Reader) -> None:
        token = reader.get(Token, self._caller.token_id)
        if token is None or not tokens.is_good(reader, token, now=self.now()):
            raise unauthorized()

    def now(self) -> Micros:
        """Return the model time."""
        return self._gateway.now()

    async def health(self) -> Health:
        """Tell whether the ticker and the store work."""
        return await self._gateway.health()

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a fleet file has."""
        return await self._gateway.count_fleet(text)

    async def merge_fleet(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Plan or apply a fleet file for an operator; raises ForbiddenError."""
        check(self._caller, Demand.OPERATOR_ORDERS if who else Demand.OPERATOR_READS)
        await self.read(lambda _reader: None)
        return await self._gateway.merge_fleet(text, who=who, once=once)


def on_behalf_of(gateway: OperatorGateway, caller: Caller) -> CallerGateway:
    """Return the gateway that asks for `caller`, who may read everything through it."""
    is_remote = isinstance(gateway, RemoteGateway)
    return gateway.on_behalf_of(caller) if is_remote else gateway


def gateway_for(gateway: OperatorGateway, caller: Caller) -> CallerGateway:
    """Return the gateway as the caller may use it."""
    asking = on_behalf_of(gateway, caller)
    return AuthorizedGateway(asking, caller) if caller.token_id else asking


def unauthorized() -> UnauthorizedError:
    """Return the error of whoever came without a good token."""
    return UnauthorizedError(
        "a good bearer token is needed",
        hint="set FOREWARN_TOKEN, or send Authorization: Bearer TOKEN",
    )
