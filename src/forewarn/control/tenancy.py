"""What a tenant's token may order: only about its own, only what a user may.

Each check is made in the order's own transaction, before the verb. What the tenant
cannot see is refused in the words that are used for what does not exist.
"""

from dataclasses import replace
from typing import Any, cast

from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.transactions.work import Work, need
from forewarn.fleet.model import Host, HostState, Vm
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request, Verb
from forewarn.verbs.model import Entry, Given, Kind


def admitted(work: Work, tenant: str, entry: Entry, given: Given) -> Given:
    """Return a tenant's order with the real IDs of its targets.

    VMs that are not the tenant's are left out as `work.parts` says. Raises
    NotFoundError for what the tenant cannot see, and RefusedError.
    """
    own = TenantReader(work.tx, tenant)
    as_vm = given.text("as_vm")
    if as_vm:
        need(own, Vm, as_vm)

    def admit(name: str) -> str:
        if entry.targets.kind is Kind.VM:
            return _own_vm(work, own, name, entry.name)
        if entry.targets.kind is Kind.WORK:
            return check_cancel(work, tenant, name)
        return need(own, Event, name.upper()).event_id

    return replace(given, targets=tuple(work.parts.each(given.targets, admit)))


def _own_vm(work: Work, own: TenantReader, name: str, verb: str) -> str:
    """Return the name of a tenant's VM.

    Raises NotFoundError; and RefusedError where a restart cannot be done since the
    host is down, in words that do not name it.
    """
    vm = need(own, Vm, name)
    if verb == Verb.REBOOT.value:
        host = work.tx.get(Host, need(work.tx, Vm, name).host)
        if host is not None and host.state is HostState.DOWN:
            raise RefusedError(
                f"vm {name} cannot be restarted: what it runs on is down",
                hint=f"`forewarn redeploy {name}` moves it elsewhere",
            )
    return vm.name


def check_cancel(work: Work, tenant: str, name: str) -> str:
    """Return the real id of what the tenant names; refuse what it did not order.

    Raises NotFoundError for what it cannot see.
    """
    own = TenantReader(work.tx, tenant)
    request_id = name
    if own.get(Request, name) is None:
        request_id = need(own, Operation, name).request
    request = need(work.tx, Request, own.real(request_id))
    if not request.actor.is_of(tenant):
        raise RefusedError(
            f"{name} was not ordered by tenant {tenant}",
            hint="only who ordered it can take it back: ask the operator",
        )
    return own.real(name)


def in_own_ids(work: Work, tenant: str, made: Any) -> Any:
    """Return what an order made, with ids as the tenant may know them."""
    aliases = aliases_of(work.tx, tenant)
    if isinstance(made, dict):
        said = cast("dict[str, Any]", made)
        return {**said, "made": in_own_ids(work, tenant, said["made"])}
    if isinstance(made, list):
        return [aliases.of(each) for each in cast("list[str]", made)]
    return aliases.of(made)
