"""Callers, and the roles that each route needs.

`DEMANDS` has all routes of this package: a test fails for a route without an entry.
`context` has the rights for other routes.
"""

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.control import tokens
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor, ActorKind, service_part
from forewarn.store.port import Reader
from forewarn.store.records import Token
from forewarn.verbs.model import Entry
from forewarn.verbs.roles import (
    ALL_ROLES,
    READ_ONLY,
    STOPPING_ROLES,
    Role,
    role_names,
)
from forewarn.verbs.table import VERBS

CALLER = "forewarn.caller"
"""Key of a request's `Caller` in its ASGI scope."""


UNIX_PEER = "forewarn.unix_peer"
"""Key of a request's `UnixPeer` in its ASGI scope, if it came to a Unix socket."""


SESSION = "forewarn.session"
"""Key of a request's `Pass` in its ASGI scope, if a session identified the caller."""

IN_BROWSER = "forewarn.in_browser"
"""Key in the ASGI scope of a request without a token that a browser sent."""

LOCAL_USER = "unix:"
"""Begin of the names of local users at the Unix socket in the history. No token can have
such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixPeer:
    """A local process, as the kernel identifies it."""

    name: str
    """The name of the process's user in the history: `LOCAL_USER` and the user."""
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
    """The tenant of the caller's token; empty for an operator or a relay."""
    host: str = ""
    """The host of a relay's token; empty for others. A relay has no roles."""
    roles: tuple[Role, ...] = ALL_ROLES
    """The roles of the caller's token. Callers without a token of the store have all."""
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
        if self.host:
            relay = service_part(f"relay {self.host}")
            return replace(relay, token=self.token_id, peer=self.peer)
        return Actor(
            kind=ActorKind.TENANT if self.tenant else ActorKind.OPERATOR,
            name=self.name.removeprefix(f"{self.tenant}/"),
            tenant=self.tenant,
            token=self.token_id,
            peer=self.peer,
        )

    @property
    def is_operator(self) -> bool:
        """Return whether the caller may see everything."""
        return self.name != "" and not self.tenant and not self.host

    @classmethod
    def of_token(cls, token: Token) -> "Caller":
        """Return the holder of a token of the store."""
        name = f"{token.tenant}/{token.name}" if token.tenant else token.name
        return cls(
            name=name,
            tenant=token.tenant,
            host=token.host,
            roles=token.roles,
            token_id=token.token_id,
            # Any local user can have created the token.
            is_authenticated=not token.is_unauthenticated,
        )


NOBODY = Caller(name="", roles=READ_ONLY)
"""A caller without a token, on a route that needs none."""


class Demand(enum.Enum):
    """The right that a route needs: whether tenants have it, and the caller's roles."""

    OPERATOR_READS = (False, {Role.VIEW})
    OPERATOR_PLANS = (False, {Role.PLAN})
    OPERATOR_RUNS = (False, {Role.RUN})
    OPERATOR_APPROVES = (False, {Role.APPROVE})
    OPERATOR_EMERGENCY = (False, {Role.EMERGENCY})
    OPERATOR_STOPS = (False, STOPPING_ROLES)
    """Any holder of a role that changes something may stop planned work."""
    OPERATOR_ADMINISTERS = (False, ALL_ROLES)
    """A caller without all roles could otherwise create a token that has them."""
    TENANT_READS = (True, {Role.VIEW})
    TENANT_RUNS = (True, {Role.RUN})
    TENANT_APPROVES = (True, {Role.APPROVE})
    RELAY = (False, frozenset[Role]())
    """Only the relay of a host has this right, and it has no other."""

    def __init__(
        self,
        for_tenants: bool,  # noqa: FBT001
        roles: Collection[Role],
    ) -> None:
        """Store the roles: one of a set is enough, of a tuple all are needed."""
        self.for_tenants = for_tenants
        self.roles = tuple(role for role in Role if role in roles)
        self.needs_all = isinstance(roles, tuple)
        self.writes = Role.VIEW not in roles or self.needs_all
        self.for_relays = not self.roles

    def is_met_by(self, roles: Collection[Role]) -> bool:
        """Return whether these roles of a caller are sufficient."""
        held = [role in roles for role in self.roles]
        return all(held) if self.needs_all else any(held)


DEMAND_OF_ROLE: Mapping[Role, Demand] = {
    Role.VIEW: Demand.OPERATOR_READS,
    Role.PLAN: Demand.OPERATOR_PLANS,
    Role.RUN: Demand.OPERATOR_RUNS,
    Role.APPROVE: Demand.OPERATOR_APPROVES,
    Role.EMERGENCY: Demand.OPERATOR_EMERGENCY,
}
"""The right of operators with a role."""

_OF_TENANTS: Mapping[Role, Demand] = {
    Role.RUN: Demand.TENANT_RUNS,
    Role.APPROVE: Demand.TENANT_APPROVES,
}
"""The right of tenants and operators with a role."""


def _demand_of_verb(entry: Entry) -> Demand:
    if entry.stops:
        return Demand.OPERATOR_STOPS
    return (_OF_TENANTS if entry.for_tenants else DEMAND_OF_ROLE)[entry.role]


DEMANDS: dict[str, Demand] = {
    "GET /metrics": Demand.OPERATOR_READS,
    "GET /v1/availability": Demand.TENANT_READS,
    "GET /v1/capacity": Demand.OPERATOR_READS,
    "GET /v1/checks": Demand.OPERATOR_READS,
    "GET /v1/cluster": Demand.OPERATOR_READS,
    "GET /v1/events": Demand.TENANT_READS,
    "GET /v1/explain/{name}": Demand.TENANT_READS,
    "GET /v1/fleet": Demand.TENANT_READS,
    "GET /v1/fleet/export": Demand.OPERATOR_READS,
    "GET /v1/fleet/overview": Demand.OPERATOR_READS,
    "GET /v1/history": Demand.TENANT_READS,
    "GET /v1/history/operations": Demand.TENANT_READS,
    "GET /v1/history/operations/{name}": Demand.TENANT_READS,
    "GET /v1/operations": Demand.TENANT_READS,
    "GET /v1/operations/{name}": Demand.TENANT_READS,
    "GET /v1/problems": Demand.TENANT_READS,
    "GET /v1/relay/stream": Demand.RELAY,
    "GET /v1/relays": Demand.OPERATOR_READS,
    "GET /v1/requests/{name}": Demand.TENANT_READS,
    "GET /v1/rollouts": Demand.OPERATOR_READS,
    "GET /v1/rollouts/{name}": Demand.OPERATOR_READS,
    "GET /v1/session": Demand.TENANT_READS,
    "POST /v1/session": Demand.TENANT_READS,
    "POST /v1/session/links": Demand.TENANT_READS,
    "DELETE /v1/session": Demand.TENANT_READS,
    "GET /v1/search": Demand.OPERATOR_READS,
    "GET /v1/tokens": Demand.OPERATOR_READS,
    "GET /v1/tenant/deferrals": Demand.TENANT_READS,
    "GET /v1/tenant/upcoming": Demand.TENANT_READS,
    "GET /v1/waits": Demand.TENANT_READS,
    "GET /v1/watch": Demand.TENANT_READS,
    "GET /v1/webhooks": Demand.OPERATOR_READS,
    "GET /v1/windows": Demand.TENANT_READS,
    "GET /v1/blackouts": Demand.OPERATOR_READS,
    "GET /v1/brake": Demand.OPERATOR_READS,
    "POST /v1/brake": Demand.OPERATOR_STOPS,
    "GET /v1/campaigns": Demand.OPERATOR_READS,
    "GET /v1/campaigns/progress/{key}": Demand.OPERATOR_PLANS,
    "GET /v1/campaigns/{name}": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/file": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/hosts": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/hosts/{host}": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/outlook": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/racks": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/report": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/skipped": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/sums": Demand.OPERATOR_READS,
    "GET /v1/campaigns/{name}/tree": Demand.OPERATOR_READS,
    "POST /v1/campaigns": Demand.OPERATOR_RUNS,
    "POST /v1/campaigns/plan": Demand.OPERATOR_PLANS,
    "POST /v1/campaigns/simulate": Demand.OPERATOR_PLANS,
    "POST /v1/checks/{name}/run": Demand.OPERATOR_PLANS,
    "POST /v1/fleet/apply": Demand.OPERATOR_RUNS,
    "POST /v1/fleet/plan": Demand.OPERATOR_READS,
    "POST /v1/fleet/validate": Demand.OPERATOR_READS,
    "POST /v1/hosts/{name}/cordon": Demand.OPERATOR_RUNS,
    "POST /v1/hosts/{name}/open": Demand.OPERATOR_RUNS,
    "POST /v1/relay/approve": Demand.RELAY,
    "POST /v1/relay/enable": Demand.RELAY,
    "POST /v1/relay/seen": Demand.RELAY,
    "POST /v1/relay/served": Demand.RELAY,
    "POST /v1/tenant/deferrals": Demand.TENANT_APPROVES,
    "POST /v1/tokens": Demand.OPERATOR_ADMINISTERS,
    "POST /v1/tokens/revoke": Demand.OPERATOR_ADMINISTERS,
    "POST /v1/webhooks/test": Demand.OPERATOR_RUNS,
    **{f"POST /v1/{verb.name}": _demand_of_verb(verb) for verb in VERBS.values()},
}
"""The right that each route needs, by method and path."""

_POST = "POST /v1/"


def orders_of(caller: Caller) -> list[str]:
    """Return the requests of this caller that its roles do not refuse, as `cancel`.

    They are those that change something, or that only some roles may ask for. An argument
    of a request can need a further role.
    """
    return [
        key.removeprefix(_POST)
        for key, demand in DEMANDS.items()
        if key.startswith(_POST)
        and "{" not in key
        and demand.writes
        and (demand.for_tenants or not caller.tenant)
        and demand.is_met_by(caller.roles)
    ]


PAGES = frozenset({"/", "/docs", "/docs/page.css", "/docs/page.js", "/openapi.json"})
"""Paths that need no token, with a limit for each source."""

CONSOLE = "/console"
"""The path of the pages of the console. It and all paths below need no token."""

OPEN_PATHS = PAGES | {"/healthz", "/readyz"}
"""Paths that need no token. Health has no limit: the probes of a load balancer come from
the address that its clients have."""

LOG_OUT = "DELETE /v1/session"

OPEN_REQUESTS = frozenset({"POST /v1/session", LOG_OUT})
"""Other requests that need no token: the one that begins a session has it in its body, and
the other one also removes the cookie of a session that is over."""

FOR_PROGRAMS = frozenset(
    {
        "GET /v1/tokens",
        "POST /v1/fleet/apply",
        "POST /v1/session/links",
        "POST /v1/tokens",
        "POST /v1/tokens/revoke",
    }
)
"""Requests that no browser may send without a bearer token: a stolen session must not
become a token or a longer session, and one mistake must not replace the fleet."""

TOPIC_DEMANDS: Mapping[str, Demand] = {
    "hosts": Demand.OPERATOR_READS,
    "operations": Demand.TENANT_READS,
    "events": Demand.TENANT_READS,
    "campaigns": Demand.OPERATOR_READS,
    "campaign-hosts": Demand.OPERATOR_READS,
    "problems": Demand.TENANT_READS,
    "upcoming": Demand.TENANT_READS,
    "history": Demand.TENANT_READS,
}
"""The right that each topic of the stream needs; a topic without an entry is closed."""


def is_of_console(path: str) -> bool:
    """Return whether a path is one of the console, which has only fixed files."""
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


_PATTERNS = {
    key: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(key)))
    for key in DEMANDS
    if "{" in key
}


def demand_of(method: str, path: str) -> Demand | None:
    """Return the right that a request needs, or None for an unknown route.

    Routes that another program adds (`admit_operators`) are not in the table. A tenant's
    token at a path that needs none counts as one that reads.
    """
    if method == "GET" and path in OPEN_PATHS:
        return Demand.TENANT_READS
    route = f"{method} {path}"
    demand = DEMANDS.get(route)
    if demand is not None or not path.startswith("/v1/"):
        return demand
    for key, pattern in _PATTERNS.items():
        if pattern.fullmatch(route):
            return DEMANDS[key]
    return None


def check(caller: Caller, demand: Demand) -> None:
    """Raise ForbiddenError if the caller does not have the right that a route needs."""
    if caller.host:
        _check_relay(caller, demand)
        return
    if demand.for_relays:
        raise ForbiddenError(
            "this request needs the token of a relay",
            hint="An operator creates one: `forewarn token create --relay HOST`.",
        )
    if caller.tenant and not demand.for_tenants:
        raise ForbiddenError(
            "this request needs an operator token; this token belongs to tenant "
            f"{caller.tenant}",
            hint="Ask the operator. The page 'Tenants and tokens' "
            "lists what a tenant can do.",
        )
    if not demand.is_met_by(caller.roles):
        raise _without_role(caller, demand)


def check_program(scope: Mapping[str, Any], request: str) -> None:
    """Raise ForbiddenError for a request of a browser that only programs may send."""
    if request in FOR_PROGRAMS and (scope.get(SESSION) or scope.get(IN_BROWSER)):
        raise ForbiddenError(
            f"{request} needs a bearer token; a session of the console is not sufficient",
            hint="Use the command line: `forewarn --help` lists its commands.",
        )


def _check_relay(caller: Caller, demand: Demand) -> None:
    """Raise ForbiddenError unless the route is for relays."""
    if not demand.for_relays:
        raise ForbiddenError(
            f"this token is for the relay of {caller.host} and for nothing else",
            hint="Use the token of an operator or a tenant.",
        )


def _without_role(caller: Caller, demand: Demand) -> ForbiddenError:
    """Return the error for a caller whose roles are not sufficient.

    It names the missing roles, and the command that creates a token with the roles of the
    caller and a missing one.
    """
    lacks = [role for role in demand.roles if role not in caller.roles]
    has = f"this token has only {role_names(caller.roles)}"
    if demand.needs_all:
        return ForbiddenError(
            f"this request needs all roles, also {role_names(lacks)}; {has}",
            hint="Use a token of [admin] token_file, or one that was created with "
            "`forewarn token create` without --role.",
        )
    several = "one of the roles" if len(lacks) > 1 else "the role"
    whose = f"--tenant {caller.tenant} " if caller.tenant else ""
    first = Role.RUN if Role.RUN in lacks else lacks[0]
    # Each role includes `view`.
    wanted = {*caller.roles, first} - {Role.VIEW}
    options = " ".join(f"--role {role.value}" for role in Role if role in wanted)
    return ForbiddenError(
        f"this request needs {several} {role_names(lacks)}; {has}",
        hint=f"Ask the operator for `forewarn token create {whose}{options}`.",
    )


def judge(reader: Reader, caller: Caller, demand: Demand, *, now: Micros) -> None:
    """Check the caller's token and rights again, in the transaction of the request.

    Raises UnauthorizedError for a token of the store that is no longer valid or is not
    this caller's, and ForbiddenError.
    """
    if caller.token_id:
        token = reader.get(Token, caller.token_id)
        if token is None or not tokens.is_good(reader, token, now=now):
            raise unauthorized()
        known = Caller.of_token(token)
        if (known.name, known.tenant, known.host, known.roles) != (
            caller.name,
            caller.tenant,
            caller.host,
            caller.roles,
        ):
            raise unauthorized()
    check(caller, demand)


def unauthorized() -> UnauthorizedError:
    """Return the error for a caller without a valid token."""
    return UnauthorizedError(
        "a valid bearer token is needed",
        hint="Check that the token is complete and was not revoked. The command line takes it "
        "from FOREWARN_TOKEN; programs send `Authorization: Bearer TOKEN`.",
    )


def session_over() -> UnauthorizedError:
    """Return the error for a pass that is no longer valid."""
    return UnauthorizedError(
        "the session is over",
        hint="Log in again with a token, or with a new link of `forewarn console`.",
    )
