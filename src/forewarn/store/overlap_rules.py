"""Rules about work at the same time, moves of VMs, and tokens."""

from collections.abc import Iterable, Iterator

from forewarn.fleet.model import VmState
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    Verb,
)
from forewarn.store.contents import Contents, first_of
from forewarn.store.records import Token
from forewarn.store.work_rules import is_digest, wrong_actor
from forewarn.verbs.roles import ALL_ROLES, TENANT_ROLES, complete, role_names


def calls(contents: Contents) -> Iterator[str]:
    """5.2: a VM is in one driver call at a time."""
    for vm, (one, other) in _shared(
        (operation, operation.vms)
        for operation in contents.open_operations
        if operation.state is OperationState.IMPACTING
        and operation.action is not Action.NONE
    ):
        yield f"operations {one} and {other} have driver calls for VM {vm} at once"


def migrations(contents: Contents) -> Iterator[str]:
    """6.3: of live migrations, one operation of a scope at a time."""
    vms = contents.vms
    for scope, (one, other) in _shared(
        (operation, {vms[name].scope for name in operation.vms if name in vms})
        for operation in contents.open_operations
        if operation.action is Action.LIVE_MIGRATE
        and operation.state is OperationState.IMPACTING
    ):
        yield f"operations {one} and {other} migrate VMs of scope {scope} at once"


def failures(contents: Contents) -> Iterator[str]:
    """5.5: a VM that is down has one failure: its own or that of its host."""
    for vm, (one, other) in _shared(
        (operation, operation.vms)
        for operation in contents.open_operations
        if operation.verb is Verb.FAIL
    ):
        yield f"VM {vm} has two failures, {one} and {other}"


def _shared(
    claims: Iterable[tuple[Operation, Iterable[str]]],
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each name that a second operation claims, with both operations."""
    first: dict[str, str] = {}
    for operation, names in claims:
        for name in sorted(names):
            other = first.setdefault(name, operation.operation_id)
            if other != operation.operation_id:
                yield name, (other, operation.operation_id)


def moved(contents: Contents) -> Iterator[str]:
    """5.2: a VM that a driver call has moved is recorded on its new host."""
    for operation in contents.open_operations:
        if operation.state is not OperationState.IMPACTING:
            continue
        for move in operation.moves:
            vm = contents.vms.get(move.vm)
            if vm is None or vm.state is VmState.DELETED:
                continue
            if move.done and move.to_host and vm.host != move.to_host:
                yield (
                    f"operation {operation.operation_id} has moved VM {move.vm} to host "
                    f"{move.to_host}, but it is recorded on host {vm.host}"
                )


def announced_domains(contents: Contents) -> Iterator[str]:
    """6.3: rollouts announce one fault domain of a scope at a time.

    Campaigns with `overlap_notice` announce so many more.

    Hosts outside a rollout do not count: a single host, and a host that was announced
    again after a hold.
    """
    for scope, events in contents.live_events_of_scope.items():
        first: tuple[int, str] | None = None
        announced: set[str] = set()
        domains: set[int] = set()
        most = 1
        for event in events:
            operation = contents.operations.get(event.operation)
            if operation is None or operation.position == 0:
                continue
            announced.add(operation.operation_id)
            most = max(most, 1 + _overlap_of(contents, operation))
            for domain in sorted(event.excluding_domains):
                first = first or (domain, operation.operation_id)
                domains.add(domain)
                if len(domains) > most and domain != first[0] and len(announced) > 1:
                    yield (
                        f"rollouts have announced two fault domains of scope {scope}: "
                        f"{first[0]} by {first[1]}, and {domain} by "
                        f"{operation.operation_id}"
                    )
                    break


def _overlap_of(contents: Contents, operation: Operation) -> int:
    request = contents.requests.get(operation.request)
    campaign = None if request is None else contents.campaigns.get(request.campaign)
    if campaign is None:
        return 0
    return max(campaign.budget.overlap_notice, campaign.overlap_before)


def wrong_token(token: Token, contents: Contents) -> str:
    """Return the problem of a token of the operator API, or nothing."""
    me = f"token {token.token_id}"
    wrong = wrong_actor(token.created_by)
    other = _namesake(token, contents)
    allowed = TENANT_ROLES if token.tenant else ALL_ROLES
    complete_roles = () if token.host else complete(token.roles)
    return first_of(
        (not token.name, f"{me} has no name"),
        (wrong, f"the creator of {me} {wrong}"),
        (not is_digest(token.digest), f"{me} has an invalid digest"),
        (
            token.roles != complete_roles or not {*token.roles} <= {*allowed},
            f"{me} has the invalid roles {role_names(token.roles)}",
        ),
        (
            token.tenant and token.tenant not in contents.tenants,
            f"{me} is of tenant {token.tenant}, which does not exist",
        ),
        (
            token.host and token.host not in contents.hosts,
            f"{me} is for the relay of {token.host}, which does not exist",
        ),
        (token.host and token.tenant, f"{me} is of a relay and of a tenant"),
        (other, f"{me} and token {other} have the same name {token.name}"),
    )


def _namesake(token: Token, contents: Contents) -> str:
    """Return the ID of another token with the same name at the same time, or nothing.

    Of two tokens with one name, the later must have been created after the end of the
    other, because the history identifies their owners by the name. A relay is identified
    by its host.
    """
    if token.host:
        return ""
    same = contents.tokens[token.tenant, token.name.casefold()]
    same.append(token)
    return next(
        (
            other.token_id
            for other in same[:-1]
            if not token.is_expired(now=other.created_at)
            and not other.is_expired(now=token.created_at)
        ),
        "",
    )
