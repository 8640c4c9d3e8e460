"""The selection of the fleet: hosts, scopes and tenants by their VMs and places."""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any

from forewarn.admin import limits, selection
from forewarn.admin.selection import About, Lookups, Wanted
from forewarn.fleet.model import Host, Vm, VmState, places_of
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.questions import Query as StoreQuery

_BY_ITSELF: dict[str, Callable[[Any], About]] = {
    "tenants": lambda one: About(tenants=(one.name,)),
    "scopes": lambda one: About(scopes=(one.name,), tenants=(one.tenant,)),
    "hosts": lambda one: About(hosts=(one.name,), places=places_of(one)),
}
"""The names that select an object even if it has no VMs."""


class FleetSelection:
    """The selection of a fleet: VMs, and the objects that have one of them."""

    def __init__(self, reader: Reader, wanted: Wanted) -> None:
        """Select `wanted` of the fleet."""
        self._reader = reader
        self._wanted = wanted
        self._lookups = Lookups(reader)

    def page(
        self, section: str, query: StoreQuery[Any], after: str, limit: int
    ) -> tuple[list[Any], str]:
        """Return a page of the selected objects of a section, and where the next one
        begins."""
        few = {"hosts": self._few_hosts, "vms": self._few_vms}.get(section)
        if few is None:
            is_by_tag = section == "vms" and self._wanted.tag
            return selection.scan(
                self._reader,
                kinds.VMS_WITH_TAG if is_by_tag else query,
                self._wanted.tag if is_by_tag else "",
                matches=partial(self.matches, section),
                after=after,
                limit=limit,
            )
        rows = [row for row in few if row.key > after and self.matches(section, row)]
        return rows[:limit], rows[limit - 1].key if len(rows) > limit else ""

    def matches(self, section: str, one: Any) -> bool:
        """Return whether an object of a section is selected."""
        if self._wanted == Wanted():
            return True
        if section == "vms":
            return self._has(one)
        by_itself = self._wanted.matches(_BY_ITSELF[section](one))
        return by_itself or one.name in self._homes[section]

    def host_names(self) -> frozenset[str] | None:
        """Return the names of the selected hosts; None: all."""
        wanted = self._wanted
        if wanted == Wanted():
            return None
        if wanted.vm or wanted.scope or wanted.tenant or wanted.tag:
            return frozenset(self._homes["hosts"])
        if wanted.host:
            host = self._reader.get(Host, wanted.host)
            hosts: Iterable[Host] = () if host is None else (host,)
        elif self._few_hosts is not None:
            hosts = self._few_hosts
        else:
            hosts = every(self._reader, kinds.HOSTS_AT_PLACE, wanted.places[0])
        return frozenset(each.name for each in hosts if self.matches("hosts", each))

    def _has(self, vm: Vm) -> bool:
        return self._wanted.matches(self._lookups.about_vm(vm, self._wanted))

    @cached_property
    def _homes(self) -> dict[str, set[str]]:
        """The names of the tenants, scopes and hosts of selected VMs, read once."""
        vms = [
            vm
            for vm in self._candidates()
            if vm.state is not VmState.DELETED and self._has(vm)
        ]
        return {
            "tenants": {vm.tenant for vm in vms},
            "scopes": {vm.scope for vm in vms},
            "hosts": {vm.host for vm in vms},
        }

    @cached_property
    def _few_hosts(self) -> list[Host] | None:
        """All hosts of a selected place, sorted; None: there is none, or it is large."""
        if not self._wanted.places:
            return None
        pages = (
            self._reader.select(
                kinds.HOSTS_AT_PLACE, place, limit=limits.PLACE_HOSTS_MAX + 1
            )
            for place in self._wanted.places
        )
        few = min(pages, key=len)
        return few if len(few) <= limits.PLACE_HOSTS_MAX else None

    @cached_property
    def _few_vms(self) -> list[Vm] | None:
        """All VMs on the hosts of a selected place, sorted; None as for the hosts."""
        if self._few_hosts is None:
            return None
        there = (
            every(self._reader, kinds.VMS_ON_HOST, host.name)
            for host in self._few_hosts
        )
        return sorted(chain.from_iterable(there), key=attrgetter("name"))

    def _candidates(self) -> Iterable[Vm]:
        wanted = self._wanted
        if self._few_vms is not None:
            return self._few_vms
        if wanted.vm:
            vm = self._reader.get(Vm, wanted.vm)
            return [] if vm is None else [vm]
        if wanted.host:
            return every(self._reader, kinds.VMS_ON_HOST, wanted.host)
        if wanted.scope:
            return every(self._reader, kinds.VMS_OF_SCOPE, wanted.scope)
        if wanted.tag:
            return every(self._reader, kinds.VMS_WITH_TAG, wanted.tag)
        return every(self._reader, kinds.ALL_VMS)
