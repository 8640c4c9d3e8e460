"""Explanations of the objects that select, hold or report work, by their names.

Hosts, VMs, campaigns and everything with an ID are explained in `explanations`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeAlias

from forewarn.control.redaction import tenant_reader
from forewarn.control.rules import obstacles
from forewarn.fleet.model import PLACES, Host, HostState, Scope, Tenant, place
from forewarn.instants import Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Operation
from forewarn.reporting import unknown_names
from forewarn.reporting.explanation import EXPLAINED_MAX, explanation, of_place
from forewarn.reporting.reports import brake_report
from forewarn.reporting.wide_blackouts import wide_blackout_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import BRAKE_KEY, Token
from forewarn.store.wide_blackouts import WideBlackout
from forewarn.wording import explained_names as wording

Json: TypeAlias = dict[str, Any]
_Rows: TypeAlias = Sequence[Mapping[str, Any]]

SCOPES_READ_MAX = 100
"""Maximum scopes of a tenant whose operations and views are read. The reasons of more
would fill many screens."""

HOSTS_READ_MAX = 2_000
"""Maximum hosts of a place that are counted, so that a place with a large part of the
fleet delays no other request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Objects that are not in the store, as their lists report them, and what the driver
    says about hosts. For operators."""

    checks: _Rows = ()
    webhooks: _Rows = ()
    replicas: _Rows = ()
    unreachable: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why the driver cannot reach hosts now, by host."""


NOTHING_OUTSIDE = Outside()

KINDS_OUTSIDE = frozenset({"check", "webhook", "replica", "host", "vm"})
"""The kinds of objects whose explanation needs these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question: a name, and all that can answer."""

    reader: Reader
    name: str
    outside: Outside
    now: Micros

    def row(self, rows: _Rows, key: str) -> Mapping[str, Any] | None:
        """Return the row with this name."""
        return next((row for row in rows if row[key] == self.name), None)


def _tenant(asked: _Asked) -> Json | None:
    if asked.reader.get(Tenant, asked.name) is None:
        return None
    reader = asked.reader
    of_tenant = every(reader, kinds.SCOPES_OF_TENANT, asked.name)
    scopes = list(islice(of_tenant, SCOPES_READ_MAX))
    enabled = [scope for scope in scopes if obstacles.is_enabled(reader, scope.name)]
    operations = chain.from_iterable(_operations_of(reader, scope) for scope in scopes)
    return of_place(
        reader,
        {operation.operation_id: operation for operation in operations}.values(),
        kind="tenant",
        name=asked.name,
        state=wording.enabled(bool(enabled)),
        status=wording.tenant(
            len(scopes), len(enabled), is_all=len(scopes) < SCOPES_READ_MAX
        ),
        now=asked.now,
    )


def _scope(asked: _Asked) -> Json | None:
    reader = asked.reader
    scope = reader.get(Scope, asked.name)
    if scope is None:
        return None
    views = list(every(reader, kinds.VIEWS_OF_SCOPE, scope.name))
    vms = sum(1 for _ in every(reader, kinds.VMS_OF_SCOPE, scope.name))
    is_enabled = any(view.is_enabled for view in views)
    last_poll = max((view.last_seen for view in views), default=0)
    return of_place(
        reader,
        _operations_of(reader, scope),
        kind="scope",
        name=scope.name,
        state=wording.enabled(is_enabled),
        status=wording.scope(scope, vms, last_poll, is_enabled=is_enabled),
        now=asked.now,
    )


def _operations_of(reader: Reader, scope: Scope) -> Iterator[Operation]:
    return every(reader, kinds.OPEN_OPERATIONS_OF_SCOPE, scope.name)


def _blackout(asked: _Asked) -> Json | None:
    blackout = asked.reader.get(WideBlackout, asked.name)
    if blackout is None:
        return None
    report = wide_blackout_report(blackout, now=asked.now)
    return explanation(
        "blackout",
        blackout.name,
        what=f"blackout {blackout.name}",
        state="in force" if report["in_force"] else "not in force",
        status=wording.blackout(report),
    )


def _brake(asked: _Asked) -> Json | None:
    if asked.name != BRAKE_KEY:
        return None
    report = brake_report(asked.reader)
    return explanation(
        "brake",
        BRAKE_KEY,
        what="brake",
        state="on" if report["on"] else "off",
        status=wording.brake(report),
    )


def _token(asked: _Asked) -> Json | None:
    tokens = list(every(asked.reader, kinds.ALL_TOKENS))
    named = [token for token in tokens if asked.name in {token.token_id, token.name}]
    if not named:
        return None
    if len(named) > 1:
        ids = ", ".join(token.token_id for token in named[:EXPLAINED_MAX])
        raise RefusedError(
            f"{len(named)} tokens have the name {asked.name}: {ids}",
            hint=f"Run `forewarn explain {named[0].token_id}` for one of them.",
        )
    return _of_token(named[0], now=asked.now)


def _of_token(token: Token, *, now: Micros) -> Json:
    return explanation(
        "token",
        token.token_id,
        what=f"token {token.token_id} ({token.name})",
        state="expired" if token.is_expired(now=now) else "valid",
        status=wording.token(token),
    )


def _place(asked: _Asked) -> Json | None:
    """Explain a rack, cluster, zone or pool, by its kind and name or by its name."""
    kind, _, name = asked.name.partition("=")
    places = (
        [asked.name]
        if name and kind in PLACES
        else [place(kind, asked.name) for kind in PLACES]
    )
    for place_ in places:
        at_place = every(asked.reader, kinds.HOSTS_AT_PLACE, place_)
        if hosts := list(islice(at_place, HOSTS_READ_MAX)):
            return _of_hosts(asked, place_, hosts)
    return None


def _of_hosts(asked: _Asked, where: str, hosts: Sequence[Host]) -> Json:
    kind, _, name = where.partition("=")
    operations = (
        operation
        for host in hosts
        for operation in every(asked.reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name)
    )
    down = sum(host.state is HostState.DOWN for host in hosts)
    return of_place(
        asked.reader,
        islice(operations, HOSTS_READ_MAX),
        kind="place",
        name=where,
        what=f"{kind} {name}",
        state="up" if not down else "down" if down == len(hosts) else "partly down",
        status=wording.hosts(
            len(hosts),
            down,
            sum(bool(host.cordons) for host in hosts),
            is_all=len(hosts) < HOSTS_READ_MAX,
        ),
        now=asked.now,
    )


def _check(asked: _Asked) -> Json | None:
    row = asked.row(asked.outside.checks, "name")
    if row is None:
        return None
    campaigns = [
        campaign.name
        for campaign in every(asked.reader, kinds.CAMPAIGNS_OPEN)
        if asked.name in campaign.checks
    ]
    return explanation(
        "check",
        asked.name,
        what=f"check {asked.name}",
        state=row["outcome"],
        status=wording.check(row, campaigns),
    )


def _webhook(asked: _Asked) -> Json | None:
    row = asked.row(asked.outside.webhooks, "webhook")
    if row is None:
        return None
    return explanation(
        "webhook",
        asked.name,
        what=f"webhook {asked.name}",
        state=row["state"],
        status=wording.webhook(row),
        counts=Counter({"Pending": row["pending"], "Dropped": row["dropped"]}),
    )


def _replica(asked: _Asked) -> Json | None:
    row = asked.row(asked.outside.replicas, "name")
    if row is None:
        return None
    return explanation(
        "replica",
        asked.name,
        what=f"replica {asked.name}",
        state=row["role"],
        status=wording.replica(row),
    )


KINDS: Mapping[str, Callable[[_Asked], Json | None]] = {
    "scope": _scope,
    "tenant": _tenant,
    "blackout": _blackout,
    "brake": _brake,
    "check": _check,
    "webhook": _webhook,
    "token": _token,
    "replica": _replica,
    "place": _place,
}
"""How an object of each kind is explained; None: there is no such object."""

OF_TENANTS = frozenset({"scope", "tenant"})
"""The kinds that a tenant may see."""


def explain(
    reader: Reader, name: str, outside: Outside, *, now: Micros, kind: str = ""
) -> Json:
    """Return the state of an object of one of these kinds.

    Raises NotFoundError with the nearest names, and RefusedError for an ambiguous name.
    """
    question = _Asked(reader=reader, name=name, outside=outside, now=now)
    shown = OF_TENANTS if tenant_reader.is_tenant(reader) else KINDS.keys()
    wanted = {kind} if kind else KINDS.keys()
    answers = {noun: KINDS[noun](question) for noun in KINDS if noun in shown & wanted}
    objects = {noun: answer for noun, answer in answers.items() if answer is not None}
    if not objects:
        raise unknown_names.error_for(reader, name)
    if len(objects) > 1:
        nouns, options = list(objects), (f"`--kind {noun}`" for noun in objects)
        raise RefusedError(
            f"{name} is the name of a {' and of a '.join(nouns)}",
            hint=f"Run `forewarn explain {name}` with {' or '.join(options)}.",
        )
    (answer,) = objects.values()
    return answer
