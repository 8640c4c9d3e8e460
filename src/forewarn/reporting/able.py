"""Limits of what is possible on a host or for a VM, with their sources.

The fleet file, the inventory and the driver are asked, and the strictest decides. An
action without a limit, or about which the driver was never asked, is not reported.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from forewarn.fleet.model import Host, Vm
from forewarn.fleet.sources import Authority, fixing_source
from forewarn.instants import format_instant
from forewarn.protocol.abilities import Able, answer_about
from forewarn.protocol.operations import MOVING_ACTIONS, Action
from forewarn.store import kinds
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.port import Reader, every
from forewarn.wording import places

Json: TypeAlias = dict[str, Any]

ACTIONS = (
    Action.FREEZE,
    Action.LIVE_MIGRATE,
    Action.REBOOT,
    Action.REDEPLOY,
    Action.REIMAGE,
)
"""The actions of requests; those of their halves decide with them."""

ROWS_MAX = 20
"""Maximum rows about a host: a host can have a thousand VMs that cannot be moved."""


def of_host(reader: Reader, host: Host) -> list[Json]:
    """Return the limits of a host, and those of the VMs on it, in some rows."""
    record = reader.get(HostAbilities, host.name)
    own = [] if record is None else list(_of_driver(record, host.name, ""))
    rest = (
        row
        for vm in every(reader, kinds.VMS_ON_HOST, host.name)
        for row in _of_one(record, vm)
        # A missing answer about each VM would hide the others.
        if row["able"] == Able.NO.value or row["reason"]
    )
    return [*own, *islice(rest, ROWS_MAX)]


def of_vm(reader: Reader, vm: Vm) -> list[Json]:
    """Return the limits of a VM: for each action, of the source that decides.

    A tenant's reader shows no host, and so none of these.
    """
    if not vm.host:
        return []
    record = reader.get(HostAbilities, vm.host)
    rows = {row["action"]: row for row in _of_host_part(record, vm)}
    for row in _of_one(record, vm):
        known = rows.get(row["action"])
        if known is None or known["able"] == Able.UNKNOWN.value:
            rows[row["action"]] = row
    return [rows[action.value] for action in ACTIONS if action.value in rows]


def _of_host_part(found: HostAbilities | None, vm: Vm) -> Iterator[Json]:
    if found is not None:
        yield from _of_driver(found, vm.host, "")


def _of_one(found: HostAbilities | None, vm: Vm) -> Iterator[Json]:
    """Yield the limits of a VM itself; a person or an inventory comes before the driver."""
    if not vm.movable:
        for action in ACTIONS:
            if action in MOVING_ACTIONS:
                yield _row(action, Able.NO, fixing_source(vm), vm=vm.name)
    if found is not None:
        yield from (
            row
            for row in _of_driver(found, vm.host, vm.name)
            if vm.movable or Action(row["action"]) not in MOVING_ACTIONS
        )


def _of_driver(found: HostAbilities, host: str, vm: str) -> Iterator[Json]:
    """Yield what the driver told against a VM, or a host, or did not know."""
    for action in ACTIONS:
        answer = answer_about(found.told, action, vm)
        if answer.able is not Able.YES and (
            vm or answer.able is Able.NO or answer.reason
        ):
            yield _row(
                action,
                answer.able,
                Authority.DRIVER,
                host=host,
                vm=vm,
                reason=answer.reason,
                since=format_instant(found.since),
            )


def _row(
    action: Action,
    able: Able,
    source: Authority,
    *,
    host: str = "",
    vm: str = "",
    reason: str = "",
    since: str | None = None,
) -> Json:
    return {
        "action": action.value,
        "able": able.value,
        "source": source.value,
        "vm": vm or None,
        "reason": reason,
        "since": since,
        "text": places.ability(action, able, source, host=host, vm=vm, reason=reason),
    }
