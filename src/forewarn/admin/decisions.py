"""Every order of the operator API as a value: its name, its body and its caller.

A `Decision` is what a route gives to the gateway. The plane calls it with the work of a
transaction. Because it is a value, it can also be sent: where the API runs in a process
of its own, that process sends `message()`, and the service makes the same decision of
it with `read_message`. The table `DECISIONS` is closed: nothing else can be ordered.

A caller with a token of the store is judged in the transaction itself, so nothing is
ordered with a token that was revoked or changed before.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from forewarn.admin import bodies
from forewarn.admin.access import DEMANDS, Caller, Demand, check, unauthorized
from forewarn.control import tenancy, tokens
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.requests import approvals, failures, outcome, verbs
from forewarn.control.requests.idempotency import Once, Result, carry_out
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.instants import Micros, format_instant
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.notes import Cancelled
from forewarn.protocol.operations import Action, Request, Verb
from forewarn.store.token import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One order: which, what it says, who gives it, and its key if it has one."""

    name: str
    """In `DECISIONS`."""
    body: BaseModel
    caller: Caller
    once: Once | None = None
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the API adds to the body, such as the digest of a new secret."""

    @property
    def who(self) -> Who:
        """Return who gives the order, and why."""
        return Who(actor=self.caller.actor, reason=getattr(self.body, "reason", ""))

    def __call__(self, work: Work) -> Result:
        """Carry out the order in a transaction; raises what the verb refuses."""
        rule = DECISIONS[self.name]
        self._judge(work, rule)
        tenant = self.caller.tenant
        if tenant:
            work.called = aliases_of(work.tx, tenant).of
        result = carry_out(work, self.once, lambda work: rule.decide(work, self))
        if not (tenant and rule.makes_ids):
            return result
        # The real ids are stored with the key.
        return replace(result, value=tenancy.in_own_ids(work, tenant, result.value))

    def _judge(self, work: Work, rule: "Rule") -> None:
        """Raise UnauthorizedError or ForbiddenError for a caller without the right."""
        if self.caller.token_id:
            token = work.tx.get(Token, self.caller.token_id)
            if token is None or not tokens.is_good(work.tx, token, now=work.now):
                raise unauthorized()
            known = Caller.of_token(token)
            if (known.name, known.tenant, known.may_write) != (
                self.caller.name,
                self.caller.tenant,
                self.caller.may_write,
            ):
                raise unauthorized()
        check(self.caller, rule.demand)

    def message(self) -> dict[str, Any]:
        """Return the order as JSON values."""
        return {
            "name": self.name,
            "body": self.body.model_dump(mode="json", by_alias=True),
            "caller": asdict(self.caller),
            "once": None if self.once is None else asdict(self.once),
            "made": dict(self.made),
        }


def read_message(message: object) -> Decision:
    """Return the order that a message says; raises BadRequestError for any other.

    Nothing of the message is believed: the name must be in the table, the body must
    fit its model, and every other member must have its type.
    """
    members = _object(message, {"name", "body", "caller", "once", "made"})
    rule = DECISIONS.get(str(members["name"]))
    if rule is None:
        raise BadRequestError(f"there is no order {members['name']!r}")
    made = _object(members["made"], set(rule.made))
    if not all(isinstance(each, str) for each in made.values()):
        raise BadRequestError("an order's additions are texts")
    try:
        body = rule.body.model_validate(members["body"])
    except ValidationError as error:
        raise BadRequestError(
            f"the body of {members['name']} does not fit: {error.error_count()} errors"
        ) from error
    return Decision(
        name=str(members["name"]),
        body=body,
        caller=_record(Caller, members["caller"]),
        once=None if members["once"] is None else _record(Once, members["once"]),
        made=made,
    )


def _object(value: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != names:
        raise BadRequestError(f"an order has the members {', '.join(sorted(names))}")
    return cast("dict[str, Any]", value)


def _record(kind: type[Any], value: object) -> Any:
    """Return a dataclass of texts and booleans; raises BadRequestError."""
    known = {each.name: each.type for each in fields(kind)}
    members = _object(value, set(known))
    for name, type_ in known.items():
        wanted = bool if type_ in (bool, "bool") else str
        if type(members[name]) is not wanted:
            raise BadRequestError(f"{name} has the wrong type")
    return kind(**members)


def caller_of_message(message: object) -> Caller:
    """Return the caller that a message names; raises BadRequestError."""
    return cast("Caller", _record(Caller, message))


def once_of_message(message: object) -> Once | None:
    """Return the key that a message names; raises BadRequestError."""
    return None if message is None else cast("Once", _record(Once, message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of the table."""

    body: type[BaseModel]
    decide: Callable[[Work, Decision], Any]
    """Returns a JSON value."""
    path: str = ""
    """Of its route, below /v1/; empty: the API itself gives the order."""
    made: tuple[str, ...] = ()
    makes_ids: bool = False
    """It returns ids of requests or operations, and tenants may give it."""

    @property
    def demand(self) -> Demand:
        """Return what a caller must be allowed to do."""
        # Without a route it only stores that the caller's token was used.
        return DEMANDS[f"POST /v1/{self.path}"] if self.path else Demand.TENANT_READS


class Use(BaseModel):
    """The use of the caller's token, which needs no further words."""

    model_config = ConfigDict(extra="forbid")


def _maintain(work: Work, order: Decision) -> str:
    body = cast("bodies.Maintain", order.body)
    wishes = body.wishes(now=work.now)
    return verbs.maintain(work, body.hosts, Action(body.impact), wishes).request_id


def _of_vms(
    verb: Verb, act: Callable[[Work, list[str], verbs.OrderOptions], Request]
) -> Callable[[Work, Decision], str]:
    def decide(work: Work, order: Decision) -> str:
        body = cast("bodies.OfVms", order.body)
        if order.caller.tenant:
            tenancy.check_vms(work, order.caller.tenant, body.vms, verb)
        return act(work, body.vms, body.wishes(now=work.now)).request_id

    return decide


def _predict_failure(work: Work, order: Decision) -> str:
    body = cast("bodies.PredictFailure", order.body)
    notice = body.ahead(now=work.now, usual=work.policy.failure_notice)
    wishes = body.wishes(now=work.now)
    return verbs.predict_failure(work, body.host, notice, wishes).request_id


def _fail(work: Work, order: Decision) -> str:
    body = cast("bodies.Target", order.body)
    if _kind_of(work, body) == "host":
        return failures.fail_host(work, body.name).request
    return failures.fail_vm(work, body.name).request


def _restore(work: Work, order: Decision) -> dict[str, str]:
    body = cast("bodies.Target", order.body)
    kind = _kind_of(work, body)
    restored = (
        failures.restore_host(work, body.name)
        if kind == "host"
        else failures.restore_vm(work, body.name)
    )
    return {"kind": kind, "name": restored.name, "state": restored.state.value}


def _kind_of(work: Work, body: bodies.Target) -> str:
    """Return what the name means; refuse what is neither, or both."""
    if body.kind is not None:
        return body.kind
    vm = work.tx.get(Vm, body.name)
    is_vm = vm is not None and vm.state is not VmState.DELETED
    is_host = work.tx.get(Host, body.name) is not None
    if is_vm and is_host:
        raise RefusedError(
            f"{body.name!r} is the name of a host and of a VM",
            hint="say which: --kind host or --kind vm",
        )
    if not is_vm and not is_host:
        raise NotFoundError(
            f"there is no host or vm {body.name!r}",
            hint="names are case-sensitive; `forewarn fleet show --all` lists them",
        )
    return "host" if is_host else "vm"


def _cancel(work: Work, order: Decision) -> list[str]:
    body, caller = cast("bodies.Cancel", order.body), order.caller
    if caller.tenant:
        name = tenancy.check_cancel(work, caller.tenant, body.name)
    else:
        name = tenant_reader.real_id(work.tx, body.name)
    note = Cancelled(by=work.who.actor, reason=body.reason)
    cancelled = verbs.cancel(work, name, note=note)
    return [operation.operation_id for operation in cancelled]


def _approve(work: Work, order: Decision) -> str:
    body, caller = cast("bodies.Approve", order.body), order.caller
    if caller.tenant:
        tenancy.check_approval(work, caller.tenant, body.event_id, body.as_vm)
    return approvals.approve_for(work, body.event_id, as_vm=body.as_vm).event_id


def _resolve(work: Work, order: Decision) -> str:
    body = cast("bodies.Resolve", order.body)
    name = tenant_reader.real_id(work.tx, body.operation)
    outcome.resolve(work, name, done=body.outcome == "done", down=tuple(body.down))
    return name


def _create_token(work: Work, order: Decision) -> str:
    body = cast("bodies.NewToken", order.body)
    return tokens.create(
        work,
        name=body.name or "",
        tenant=body.tenant,
        read_only=body.read_only,
        lifetime=body.lifetime,
        secret_digest=order.made["secret_digest"],
        names_in_file=frozenset(order.made["names_in_file"].splitlines()),
        is_unauthenticated=not order.caller.is_authenticated,
    ).token_id


def _use_token(work: Work, order: Decision) -> None:
    tokens.note_use(work, order.caller.token_id)


def _revoke_token(work: Work, order: Decision) -> dict[str, Any]:
    token = tokens.revoke(work, cast("bodies.RevokeToken", order.body).id)
    return token_report(token, now=work.now)


def token_report(token: Token, *, now: Micros) -> dict[str, Any]:
    """Return what operators are told of a token: never its secret."""
    return {
        "id": token.token_id,
        "name": token.name,
        "tenant": token.tenant or None,
        "read_only": token.read_only,
        "created": format_instant(token.created_at),
        "created_by": token.created_by.text,
        "expires": format_instant(token.expires_at) if token.expires_at else None,
        "expired": token.is_expired(now=now),
        "last_used": format_instant(token.last_used_at) if token.last_used_at else None,
        "unauthenticated": token.is_unauthenticated,
    }


def _rule(
    path: str,
    body: type[BaseModel],
    decide: Callable[[Work, Decision], Any],
    *made: str,
    makes_ids: bool = False,
) -> tuple[str, Rule]:
    name = path.replace("/", "-")
    rule = Rule(body=body, decide=decide, path=path, made=made, makes_ids=makes_ids)
    return name, rule


def _restart(verb: Verb) -> Callable[[Work, Decision], str]:
    return _of_vms(
        verb, lambda work, vms, wishes: verbs.restart(work, vms, verb, wishes)
    )


def _renew(verb: Verb) -> Callable[[Work, Decision], str]:
    return _of_vms(
        verb, lambda work, vms, wishes: verbs.renew_image(work, vms, verb, wishes)
    )


DECISIONS: Mapping[str, Rule] = dict(
    (
        _rule("maintain", bodies.Maintain, _maintain),
        _rule("reboot", bodies.OfVms, _restart(Verb.REBOOT), makes_ids=True),
        _rule("redeploy", bodies.OfVms, _restart(Verb.REDEPLOY), makes_ids=True),
        _rule("evict", bodies.OfVms, _of_vms(Verb.EVICT, verbs.evict)),
        _rule(
            "terminate",
            bodies.OfVms,
            _of_vms(Verb.TERMINATE, verbs.terminate),
            makes_ids=True,
        ),
        _rule("upgrade-os", bodies.OfVms, _renew(Verb.UPGRADE_OS)),
        _rule("reimage", bodies.OfVms, _renew(Verb.REIMAGE)),
        _rule("predict-failure", bodies.PredictFailure, _predict_failure),
        _rule("fail", bodies.Target, _fail),
        _rule("restore", bodies.Target, _restore),
        _rule("cancel", bodies.Cancel, _cancel, makes_ids=True),
        _rule("approve", bodies.Approve, _approve),
        _rule("resolve", bodies.Resolve, _resolve),
        _rule(
            "tokens", bodies.NewToken, _create_token, "secret_digest", "names_in_file"
        ),
        _rule("tokens/revoke", bodies.RevokeToken, _revoke_token),
        ("use", Rule(body=Use, decide=_use_token)),
    )
)
"""Every order, by its name: its path with dashes."""
