"""The selected objects of the fleet to which a request applies.

A selector such as `--rack` matches many objects, and a request applies to some of them:
only cordoned hosts can be opened. The others are left out, and not refused one by one.
Objects whose refusal an operator must know, such as a host that is down when its rack is
to be maintained, stay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from forewarn.cli.client import PAGE, Client, Json
from forewarn.cli.command_table import Call

UNSTARTED = frozenset({"Planned", "Announced", "Ready"})
"""States of operations without impact yet."""

SCOPES_ASKED_MAX = 20
"""Scopes of a tenant whose coming work is asked for one by one; with more, it is asked
for all of the tenant."""

_PRESENT = frozenset({"up", "running", "down"})

_STATES: Mapping[str, frozenset[str]] = {
    "fail": _PRESENT - {"down"},
    "restore": frozenset({"down"}),
}
"""States of hosts and VMs to which a request applies."""

Objects = list[dict[str, Any]]

Find = Callable[[Call, Client, Mapping[str, str], Objects], Objects]


def hosts_and_vms(client: Client, selection: Mapping[str, str]) -> Json:
    """Return the selected hosts and VMs."""
    # They are the last sections of the fleet.
    first = {"limit": PAGE, "after": "hosts:"}
    return client.whole("fleet", {**first, **selection}, "hosts", "vms")


def suitable(
    call: Call, client: Client, verb: str, selection: Mapping[str, str], found: Objects
) -> Objects:
    """Return those of the selected hosts or VMs to which a request applies."""
    states = _STATES.get(verb, _PRESENT)
    present = [object_ for object_ in found if object_["state"] in states]
    find = _FINDS.get(verb)
    return find(call, client, selection, present) if find else present


def scopes(
    call: Call, client: Client, verb: str, selection: Mapping[str, str]
) -> list[str]:
    """Return the names of the selected scopes to which a request applies.

    Scopes without VMs are selected by name and tenant.
    """
    if verb == "defer":
        vms = hosts_and_vms(client, selection)["vms"]
        chosen = suitable(call, client, verb, selection, vms)
        return list(dict.fromkeys(vm["scope"] for vm in chosen))
    return [
        scope["name"]
        for scope in _all_scopes(client, selection)
        if verb != "window-clear" or scope["maintenance_window"]
    ]


def _all_scopes(client: Client, selection: Mapping[str, str]) -> Iterator[Json]:
    """Yield the selected scopes, without the hosts and VMs that follow them."""
    after: str | None = "scopes:"
    while after is not None and after.startswith("scopes:"):
        page = client.get("fleet", {"limit": PAGE, **selection, "after": after})
        yield from page["scopes"]
        after = page["next"]


def _cordoned(
    _call: Call, _client: Client, _selection: Mapping[str, str], hosts: Objects
) -> Objects:
    """Return the hosts that can be opened.

    A refusal says who cordoned a host, if the caller did not.
    """
    return [host for host in hosts if host["cordons"]]


def _not_cordoned(
    _call: Call, client: Client, _selection: Mapping[str, str], hosts: Objects
) -> Objects:
    """Return the hosts without a cordon of the caller."""
    own = client.get("session")["name"].casefold()
    return [
        host
        for host in hosts
        if own not in {cordon["by"].casefold() for cordon in host["cordons"]}
    ]


def _with_failed_visit(
    _call: Call, client: Client, _selection: Mapping[str, str], hosts: Objects
) -> Objects:
    """Return the hosts whose visit failed, or has an unknown outcome."""
    answer = client.whole("problems", {"kind": "visit-failed"}, "problems")
    failed = {problem["target"] for problem in answer["problems"]}
    return [host for host in hosts if host["name"] in failed]


def _with_maintenance(
    call: Call, client: Client, selection: Mapping[str, str], vms: Objects
) -> Objects:
    """Return the VMs whose maintenance can be deferred or expedited.

    With `--clear`, return those that are deferred.
    """
    if call.flag("clear"):
        return _deferred(client, vms)
    names = _announced(client, selection)
    for query in _queries(vms):
        coming = client.every("tenant/upcoming", "upcoming", query)
        names.update(work["vm"] for work in coming if work["state"] == "Planned")
    return [vm for vm in vms if vm["name"] in names]


def _announced(client: Client, selection: Mapping[str, str]) -> set[str]:
    """Return the VMs with announced maintenance; planned maintenance names none yet."""
    operations = client.every("operations", "operations", selection)
    return {
        move["vm"]
        for operation in operations
        if operation["kind"] == "maintain" and operation["state"] in UNSTARTED
        for move in operation["moves"]
    }


def _queries(vms: Iterable[Json]) -> Iterator[dict[str, str]]:
    """Yield the queries for the coming work on some VMs: by tenant, and by scope if they
    are of few."""
    by_tenant: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for vm in vms:
        by_tenant[vm["tenant"]][vm["scope"]] = None
    for tenant, names in by_tenant.items():
        if len(names) > SCOPES_ASKED_MAX:
            yield {"tenant": tenant}
        else:
            yield from ({"tenant": tenant, "scope": name} for name in names)


def _deferred(client: Client, vms: Objects) -> Objects:
    """Return the VMs whose maintenance is deferred, by themselves or with their scope."""
    deferrals = client.every("tenant/deferrals", "deferrals", {})
    chosen = {
        (deferral["scope"], deferral["vm"])
        for deferral in deferrals
        if deferral["until"] and not deferral["over"]
    }
    return [
        vm
        for vm in vms
        if not chosen.isdisjoint([(vm["scope"], vm["name"]), (vm["scope"], None)])
    ]


_FINDS: Mapping[str, Find] = {
    "host-open": _cordoned,
    "host-cordon": _not_cordoned,
    "visit-retry": _with_failed_visit,
    "visit-skip": _with_failed_visit,
    "defer": _with_maintenance,
    "expedite": _with_maintenance,
}
"""Further selections of the hosts or VMs of a request, by the name of the verb."""
