"""Openings that a host keeps, however its tenants change their windows.

When a host first waits for windows, the next time at which it can be maintained is
promised: the opening that each of its scopes has then counts for the host, beside the
windows. So a tenant that moves its window before each opening does not keep the host
waiting. The promise is renewed when it can no longer be kept: the service did not start the
maintenance in it, a deferral or a blackout covers the rest of it, the operator gave a later
time, or a VM of another scope came to the host.

The promise has an opening for each scope, and not only their common time: so a tenant sees
nothing of the windows of others.
"""

from collections.abc import Iterable

from forewarn.control.rules import campaign_gate
from forewarn.control.rules.holds import HeldTimes
from forewarn.fleet.model import Scope, Vm
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation, Promise
from forewarn.store.port import Reader


def promises_of(
    reader: Reader,
    operation: Operation,
    vms: Iterable[Vm],
    times: HeldTimes,
    at: Micros,
) -> tuple[Promise, ...]:
    """Return the promises of a host that cannot start at an instant.

    They are those that it has, or new ones. `times` are those of its holds from the
    instant on. If its windows have no common opening, there is nothing to promise.
    """
    start = campaign_gate.common_start(reader, operation, times, at)
    opening = {} if start is None else times.openings_at(start)
    if start is None or not opening:
        return operation.promises
    always = {vm.scope for vm in vms if _is_always_open(reader, vm.scope)}
    scopes = {*opening, *always}
    if _is_kept(operation, scopes, start):
        return operation.promises
    closes = min(promise.closes for promise in opening.values())
    return tuple(
        Promise(
            scope=scope,
            opens=at if scope in always else opening[scope].opens,
            closes=closes if scope in always else opening[scope].closes,
        )
        for scope in sorted(scopes)
    )


def _is_always_open(reader: Reader, name: str) -> bool:
    """Return whether a scope has no window; one that it sets later moves no promise.

    A tenant that has expedited a VM does not wait for its windows, which count again if
    it defers it.
    """
    scope = reader.get(Scope, name)
    return scope is None or not scope.maintenance_window


def _is_kept(operation: Operation, scopes: set[str], start: Micros) -> bool:
    """Return whether a host that can start at an instant does so in its promise."""
    promised = operation.promised
    if promised is None or not scopes <= {
        promise.scope for promise in operation.promises
    }:
        return False
    _, closes = promised
    return start < closes
