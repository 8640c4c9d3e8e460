"""Callers, the rights that each route needs, and the gateway that each caller uses.

`DEMANDS` is the complete table. A route without an entry is only for operators with write
access, and a test fails until the route has one. A tenant reads only through
`control.redaction.tenant_reader`.
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
from forewarn.store.records import Token
from forewarn.verbs.table import VERBS

T = TypeVar("T")

CALLER = "forewarn.caller"
"""Key of a request's `Caller` in its ASGI scope."""


UNIX_PEER = "forewarn.unix_peer"
"""Key of a request's `UnixPeer` in its ASGI scope, if it came to a Unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixPeer:
    """A local process, as the kernel identifies it."""

    name: str
    """The name of the process's user in the history: `unix:alice`. No token can have
    such a name."""
    where: str
    """The process ID and user, for the history."""
    is_operator: bool
    """Whether the user is root, the service's user, or in the service's group."""
    wanted: str
    """The group whose members are operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request."""

    name: str
    """The caller's name in the history; empty if it is unknown."""
    tenant: str = ""
    """The tenant of the caller's token; empty for an operator."""
    may_write: bool = True
    token_id: str = ""
    """The ID of the token in the store. Each transaction checks this token again."""
    peer: str = ""
    """Address of the connection's peer."""
    is_authenticated: bool = True
    """Whether the caller presented a valid token or credentials; false if none are
    needed."""

    @property
    def actor(self) -> Actor:
        """Return the caller as an actor in the history."""
        return Actor(
            kind=ActorKind.TENANT if self.tenant else ActorKind.OPERATOR,
            name=self.name.removeprefix(f"{self.tenant}/"),
            tenant=self.tenant,
            token=self.token_id,
            peer=self.peer,
        )

    @property
    def is_operator(self) -> bool:
        """Tell whether the caller may see everything."""
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
            # Any local user can have created the token.
            is_authenticated=not token.is_unauthenticated,
        )


NOBODY = Caller(name="", may_write=False)
"""A caller without a token, on a route that needs none."""


class Demand(enum.Enum):
    """The right that a route needs: whether tenants have it, and whether it writes."""

    OPERATOR_READS = (False, False)
    OPERATOR_ORDERS = (False, True)
    TENANT_READS = (True, False)
    TENANT_ORDERS = (True, True)

    def __init__(self, for_tenants: bool, writes: bool) -> None:  # noqa: FBT001
        """Store both rights."""
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
"""The right that each route needs, by method and path."""

TOPIC_DEMANDS: Mapping[str, Demand] = {
    "hosts": Demand.OPERATOR_READS,
    "operations": Demand.TENANT_READS,
    "events": Demand.TENANT_READS,
    "problems": Demand.TENANT_READS,
    "history": Demand.TENANT_READS,
}
"""The right that each topic of the stream needs; a topic without an entry is closed."""


_PATTERNS = {
    key: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(key)))
    for key in DEMANDS
    if "{" in key
}


def demand_of(method: str, path: str) -> Demand | None:
    """Return the right that a request needs, or None for an unknown route.

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
    """Return the sender of the request, as the gate identified it."""
    return cast("Caller", request.scope[CALLER])


def admission(prefix: str) -> Callable[[Request], Awaitable[None]]:
    """Return the dependency that admits requests to the routes of a router.

    `head.Head` checks the same from the path. This checks the matched route, so a route
    without an entry in the table is closed, however its path is written. `prefix` is
    the router's prefix, which its routes do not contain.
    """

    async def admit(request: Request) -> None:
        path = prefix + str(getattr(request.scope.get("route"), "path", ""))
        demand = DEMANDS.get(f"{request.method} {path}", Demand.OPERATOR_ORDERS)
        check(caller_of(request), demand)

    return admit


async def admit_operators(request: Request) -> None:
    """Admit operators to routes that are not in `DEMANDS`.

    A caller with read access may only GET.
    """
    reads = request.method == "GET"
    demand = Demand.OPERATOR_READS if reads else Demand.OPERATOR_ORDERS
    check(caller_of(request), demand)


def check(caller: Caller, demand: Demand) -> None:
    """Raise ForbiddenError if the caller does not have the right that a route needs."""
    if caller.tenant and not demand.for_tenants:
        raise ForbiddenError(
            "this request needs an operator token; this token belongs to tenant "
            f"{caller.tenant}",
            hint="Ask the operator. The page 'Tenants and tokens' "
            "lists what a tenant can do.",
        )
    if demand.writes and not caller.may_write:
        raise ForbiddenError(
            "this token is read-only",
            hint="Use a token that was created without --read-only.",
        )


@runtime_checkable
class RemoteGateway(OperatorGateway, Protocol):
    """An operator gateway in another process than the plane."""

    def on_behalf_of(self, caller: Caller) -> CallerGateway:
        """Return the gateway for the requests of `caller`."""
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
            self._judge(work.tx)
            return decide(work)

        return await self._gateway.order(who, judged)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read the caller's part of the store; also raises UnauthorizedError."""

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
        """Return whether the control thread and the store work."""
        return await self._gateway.health()

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return the number of objects of each kind in a fleet file."""
        return await self._gateway.count_fleet(text)

    async def merge_fleet(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Plan or apply a fleet file for an operator; raises ForbiddenError."""
        check(self._caller, Demand.OPERATOR_ORDERS if who else Demand.OPERATOR_READS)
        await self.read(lambda _reader: None)
        return await self._gateway.merge_fleet(text, who=who, once=once)


def on_behalf_of(gateway: OperatorGateway, caller: Caller) -> CallerGateway:
    """Return a gateway for `caller` that reads everything."""
    is_remote = isinstance(gateway, RemoteGateway)
    return gateway.on_behalf_of(caller) if is_remote else gateway


def gateway_for(gateway: OperatorGateway, caller: Caller) -> CallerGateway:
    """Return the gateway with the rights of the caller."""
    asking = on_behalf_of(gateway, caller)
    return AuthorizedGateway(asking, caller) if caller.token_id else asking


def unauthorized() -> UnauthorizedError:
    """Return the error for a caller without a valid token."""
    return UnauthorizedError(
        "a valid bearer token is needed",
        hint="Set FOREWARN_TOKEN, or send Authorization: Bearer TOKEN.",
    )
