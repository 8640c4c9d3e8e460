"""Each request of the operator API as a value: its name, its body and its caller.

A route passes a `Decision` to the gateway, and the plane calls it in a transaction. A
value can also be sent: if the API runs in its own process, that process sends
`message()`, and the service restores the decision with `read_message`. The table
`DECISIONS` is closed: there are no other requests.

The transaction itself checks the caller's token, so a token that was revoked or changed
before has no effect.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from forewarn.admin import bodies, dry_runs, relay_bodies, session_bodies
from forewarn.admin.access import DEMAND_OF_ROLE, DEMANDS, Caller, Demand, judge
from forewarn.admin.errors import refused_report
from forewarn.control import relays, sessions, tenancy, tokens
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.requests import brake, verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.dry_run import REASON, check_revision
from forewarn.control.requests.idempotency import Once, Result, carry_out
from forewarn.control.transactions.parts import Parts
from forewarn.control.transactions.work import Who, Work
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.protocol.errors import BadRequestError
from forewarn.store.records import Token
from forewarn.verbs.model import Entry, Kind
from forewarn.verbs.roles import Role
from forewarn.verbs.table import VERBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One request: its name, body, caller and perhaps its idempotency key."""

    name: str
    """A key of `DECISIONS`."""
    body: BaseModel
    caller: Caller
    once: Once | None = None
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values that the API adds to the body, such as the digest of a new secret."""

    @property
    def who(self) -> Who:
        """Return the actor and the reason of the request."""
        reason = getattr(self.body, "reason", "")
        is_dry_run = dry_runs.wants(self.body)
        if not reason and is_dry_run:
            reason = REASON
        return Who(actor=self.caller.actor, reason=reason, is_dry_run=is_dry_run)

    def __call__(self, work: Work) -> Result:
        """Execute the request in a transaction; raises the refusals of the verb."""
        rule = DECISIONS[self.name]
        for demand in (rule.demand, *rule.more(self.body)):
            judge(work.tx, self.caller, demand, now=work.now)
        tenant = self.caller.tenant
        if tenant:
            work.called = aliases_of(work.tx, tenant).of
        if dry_runs.wants(self.body):
            raise dry_runs.decide_dry(
                work,
                self.name,
                self.body,
                lambda: rule.decide(work, self),
                tenant=tenant,
            )
        result = carry_out(work, self.once, lambda work: rule.decide(work, self))
        if not tenant or self.name not in VERBS:
            return result
        # The idempotency key is stored with the real IDs; the tenant gets its aliases.
        return replace(result, value=tenancy.in_own_ids(work, tenant, result.value))

    def message(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return {
            "name": self.name,
            "body": self.body.model_dump(mode="json", by_alias=True),
            "caller": caller_message(self.caller),
            "once": None if self.once is None else asdict(self.once),
            "made": dict(self.made),
        }


def read_message(message: object) -> Decision:
    """Return the request in a message; raises BadRequestError for any other message.

    Nothing in the message is trusted: the name must be in the table, the body must fit
    its model, and every other member must have its type.
    """
    members = _object(message, {"name", "body", "caller", "once", "made"})
    rule = DECISIONS.get(str(members["name"]))
    if rule is None:
        raise BadRequestError(f"there is no request {members['name']!r}")
    made = _object(members["made"], set(rule.made))
    if not all(isinstance(addition, str) for addition in made.values()):
        raise BadRequestError("the additions of a request must be texts")
    try:
        body = rule.body.model_validate(members["body"])
    except ValidationError as error:
        raise BadRequestError(
            f"the body of {members['name']} is invalid: {error.error_count()} errors"
        ) from error
    return Decision(
        name=str(members["name"]),
        body=body,
        caller=caller_of_message(members["caller"]),
        once=None if members["once"] is None else _record(Once, members["once"]),
        made=made,
    )


def _object(value: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != names:
        raise BadRequestError(f"a request has the members {', '.join(sorted(names))}")
    return cast("dict[str, Any]", value)


def _record(
    kind: type[Any], value: object, without: Collection[str] = frozenset()
) -> Any:
    """Return a dataclass of texts and booleans; raises BadRequestError.

    The fields `without` keep their defaults.
    """
    known = {
        column.name: column.type
        for column in fields(kind)
        if column.name not in without
    }
    members = _object(value, set(known))
    for name, type_ in known.items():
        wanted = bool if type_ in (bool, "bool") else str
        if type(members[name]) is not wanted:
            raise BadRequestError(f"{name} has the wrong type")
    return kind(**members)


def caller_of_message(message: object) -> Caller:
    """Return the caller in a message; raises BadRequestError."""
    known = {column.name for column in fields(Caller)}
    members = _object(message, known)
    role_names = members["roles"]
    if not isinstance(role_names, list):
        raise BadRequestError("roles has the wrong type")
    try:
        roles = tuple(map(Role, cast("list[object]", role_names)))
    except ValueError as error:
        raise BadRequestError(f"roles: {error}") from error
    rest = {name: value for name, value in members.items() if name != "roles"}
    return replace(cast("Caller", _record(Caller, rest, {"roles"})), roles=roles)


def caller_message(caller: Caller) -> dict[str, Any]:
    """Return a caller as JSON values."""
    return {**asdict(caller), "roles": [role.value for role in caller.roles]}


def once_of_message(message: object) -> Once | None:
    """Return the idempotency key in a message; raises BadRequestError."""
    return None if message is None else cast("Once", _record(Once, message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of the table."""

    body: type[BaseModel]
    decide: Callable[[Work, Decision], Any]
    """Returns a JSON value."""
    path: str = ""
    """Path of its route below /v1/; empty if the API itself sends the request."""
    own_demand: Demand = Demand.TENANT_READS
    """The right that a caller needs for a request without a route."""
    made: tuple[str, ...] = ()
    more: Callable[[BaseModel], Iterable[Demand]] = lambda _body: ()
    """The rights that a body needs in addition to those of the route."""

    @property
    def demand(self) -> Demand:
        """Return the right that a caller needs."""
        # A request without an own route is about a token or a session.
        return DEMANDS[f"POST /v1/{self.path}"] if self.path else self.own_demand


def _ordered(work: Work, order: Decision) -> Any:
    """Decide a verb of the table; refused targets are left out."""
    entry = VERBS[order.name]
    arguments = bodies.given_of(entry, order.body, now=work.now)
    if entry.targets.is_list:
        # Refuse too many names before any is looked up.
        verbs.check_count(arguments.targets, entry.targets.kind)
    if isinstance(order.body, bodies.Steering) and order.body.revision:
        check_revision(work.tx, arguments.targets[0], order.body.revision)
    work.parts = Parts(is_whole=not entry.is_in_parts)
    if order.caller.tenant:
        arguments = tenancy.admitted(work, order.caller.tenant, entry, arguments)
    elif entry.targets.kind is Kind.WORK:
        names = (tenant_reader.real_id(work.tx, target) for target in arguments.targets)
        arguments = replace(arguments, targets=tuple(names))
    effect = verbs.DECISIONS[entry.name](work, arguments)
    # A wrong decision must end before its commit: the answer is made after it.
    assert isinstance(effect, entry.answer.kind), (entry.name, effect)
    return {"made": effect, "refused": refused_report(work.parts.refused)}


def _more_of_verb(entry: Entry) -> Callable[[BaseModel], Iterable[Demand]]:
    """Return which rights the given arguments of a verb need."""

    def more(body: BaseModel) -> Iterable[Demand]:
        return [
            DEMAND_OF_ROLE[argument.role]
            for argument in entry.arguments
            if argument.role is not None and getattr(body, argument.key, None)
        ]

    return more


def _more_of_brake(body: BaseModel) -> Iterable[Demand]:
    # To stop is safe; to go on is a decision of its own.
    is_on = cast("bodies.BrakeOrder", body).on
    return () if is_on else (Demand.OPERATOR_EMERGENCY,)


def _create_token(work: Work, order: Decision) -> str:
    body = cast("bodies.NewToken", order.body)
    return tokens.create(
        work,
        name=body.name or "",
        tenant=body.tenant,
        relay=body.relay,
        roles=body.wanted_roles,
        lifetime=body.lifetime,
        secret_digest=order.made["secret_digest"],
        names_in_file=frozenset(order.made["names_in_file"].splitlines()),
        is_unauthenticated=not order.caller.is_authenticated,
    ).token_id


def _revoke_token(work: Work, order: Decision) -> dict[str, Any]:
    token = tokens.revoke(work, cast("bodies.RevokeToken", order.body).id)
    return token_report(token, now=work.now)


def _brake(work: Work, order: Decision) -> bool:
    body = cast("bodies.BrakeOrder", order.body)
    if body.on:
        brake.put_on(work, withdraw=body.withdraw)
    elif body.withdraw:
        raise BadRequestError("`withdraw` is only for a brake that is put on")
    else:
        brake.take_off(work)
    return body.on


def _relay_approve(work: Work, order: Decision) -> list[str | None]:
    body = cast("relay_bodies.RelayApprovals", order.body)
    approvals = [
        Approval(
            vm=approval.vm, event_ids=tuple(id_.upper() for id_ in approval.event_ids)
        )
        for approval in body.approvals
    ]
    return list(relays.approve(work, order.caller.host, approvals))


def _relay_enable(work: Work, order: Decision) -> list[str]:
    body = cast("relay_bodies.RelayEnable", order.body)
    host = order.caller.host
    return [vm for vm in body.names if relays.enable(work, host, vm)]


def _relay_seen(work: Work, order: Decision) -> None:
    body = cast("relay_bodies.RelaySeen", order.body)
    ages = {vm: seconds * SECOND for vm, seconds in body.seconds_ago.items()}
    relays.note_last_seen(work, order.caller.host, ages)


def _console_link(work: Work, _order: Decision) -> None:
    sessions.note_link(work)


def _console_open(work: Work, order: Decision) -> None:
    body = cast("session_bodies.EndedPass", order.body)
    sessions.use_link(work, body.pass_id, ends_at=body.ends_at)


def _console_end(work: Work, order: Decision) -> None:
    body = cast("session_bodies.EndedPass", order.body)
    sessions.end(work, body.pass_id, ends_at=body.ends_at)


def _uses(work: Work, order: Decision) -> None:
    body = cast("session_bodies.TokenUses", order.body)
    tokens.note_uses(work, body.token_ids)


def token_report(token: Token, *, now: Micros) -> dict[str, Any]:
    """Return the report of a token for operators, without its secret."""
    return {
        "id": token.token_id,
        "name": token.name,
        "tenant": token.tenant or None,
        "relay": token.host or None,
        "read_only": token.read_only,
        "roles": [role.value for role in token.roles],
        "created": format_instant(token.created_at),
        "created_by": token.created_by.text,
        "expires": format_instant(token.expires_at) if token.expires_at else None,
        "expired": token.is_expired(now=now),
        "last_used": format_instant(token.last_used_at) if token.last_used_at else None,
        "unauthenticated": token.is_unauthenticated,
    }


DECISIONS: Mapping[str, Rule] = {
    **{
        name: Rule(
            body=body, decide=_ordered, path=name, more=_more_of_verb(VERBS[name])
        )
        for name, body in bodies.BODIES.items()
    },
    "brake": Rule(
        body=bodies.BrakeOrder, decide=_brake, path="brake", more=_more_of_brake
    ),
    "tokens": Rule(
        body=bodies.NewToken,
        decide=_create_token,
        path="tokens",
        made=("secret_digest", "names_in_file"),
    ),
    "tokens-revoke": Rule(
        body=bodies.RevokeToken, decide=_revoke_token, path="tokens/revoke"
    ),
    "console-link": Rule(body=session_bodies.EmptyBody, decide=_console_link),
    "console-open": Rule(body=session_bodies.EndedPass, decide=_console_open),
    "console-end": Rule(body=session_bodies.EndedPass, decide=_console_end),
    "uses": Rule(
        body=session_bodies.TokenUses, decide=_uses, own_demand=Demand.OPERATOR_READS
    ),
    "relay-approve": Rule(
        body=relay_bodies.RelayApprovals, decide=_relay_approve, path="relay/approve"
    ),
    "relay-enable": Rule(
        body=relay_bodies.RelayEnable, decide=_relay_enable, path="relay/enable"
    ),
    "relay-seen": Rule(
        body=relay_bodies.RelaySeen, decide=_relay_seen, path="relay/seen"
    ),
}
"""Each request by its name, which is its path with dashes."""
