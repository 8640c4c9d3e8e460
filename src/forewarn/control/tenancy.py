"""Check the requests of tenants: only for their own VMs, and only user verbs.

Each check runs in the transaction of the request, before the verb. An object that the
tenant may not see gets the same error as an object that does not exist.
"""

from dataclasses import replace
from typing import Any, cast

from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.transactions.named import kind_of_work, need
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, HostState, Scope, Vm
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request, Verb
from forewarn.verbs.model import Answer, Entry, Kind, VerbRequest


def admitted(work: Work, tenant: str, entry: Entry, given: VerbRequest) -> VerbRequest:
    """Return the request of a tenant with the real IDs of its targets.

    `work.parts` decides whether VMs of others are left out or refused. Raises
    NotFoundError for objects that the tenant cannot see, and RefusedError.
    """
    own = TenantReader(work.tx, tenant)
    as_vm = given.text("as_vm")
    if as_vm:
        need(own, Vm, as_vm)

    def admit(name: str) -> str:
        if entry.answer is Answer.CHOICES:
            # The verb finds only objects of the caller.
            return name
        if entry.targets.kind is Kind.VM:
            return _own_vm(work, own, name, entry.name)
        if entry.targets.kind is Kind.SCOPE:
            return need(own, Scope, name).name
        if entry.targets.kind is Kind.WORK:
            return check_cancel(work, tenant, name)
        return need(own, Event, name.upper(), said=name).event_id

    return replace(given, targets=tuple(work.parts.each(given.targets, admit)))


def _own_vm(work: Work, own: TenantReader, name: str, verb: str) -> str:
    """Return the name of a VM of the tenant.

    Raises NotFoundError. Raises RefusedError, without the name of the host, for a restart
    while the host is down.
    """
    vm = need(own, Vm, name)
    if verb == Verb.REBOOT.value:
        host = work.tx.get(Host, need(work.tx, Vm, name).host)
        if host is not None and host.state is HostState.DOWN:
            raise RefusedError(
                f"cannot restart VM {name}: its host is down",
                hint=f"Run `forewarn redeploy {name}` to move it to another host.",
            )
    return vm.name


def check_cancel(work: Work, tenant: str, name: str) -> str:
    """Return the real ID of a request or operation of the tenant.

    Raises RefusedError if the tenant did not request it, and NotFoundError if the tenant
    cannot see it.
    """
    own = TenantReader(work.tx, tenant)
    target = own.get(Request, name) or need(own, kind_of_work(name), name)
    request_id = target.request if isinstance(target, Operation) else name
    if not need(work.tx, Request, own.real(request_id)).actor.is_of(tenant):
        raise RefusedError(
            f"tenant {tenant} did not request {name}",
            hint="Tenants can cancel only their own requests. Ask the operator.",
        )
    return own.real(name)


def in_own_ids(work: Work, tenant: str, made: Any) -> Any:
    """Return the result of a request with the aliases of the tenant."""
    aliases = aliases_of(work.tx, tenant)
    if isinstance(made, dict):
        result = cast("dict[str, Any]", made)
        return {**result, "made": in_own_ids(work, tenant, result["made"])}
    if isinstance(made, list):
        return [aliases.of(alias) for alias in cast("list[str]", made)]
    return aliases.of(made)
