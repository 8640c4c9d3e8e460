"""Write the current fleet as a fleet file that gives the same values when read.

The file omits defaults, implied scopes and tenants, and deleted VMs.
"""

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter

from forewarn import toml
from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import Record, said, toml_value
from forewarn.fleet.file import DEFAULT_TENANT
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState

_BY_NAME = attrgetter("name")


def export_fleet(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
) -> str:
    """Return a fleet file with these objects, sorted by kind and name."""
    return "".join(export_tables(tenants, scopes, hosts, sorted(vms, key=_BY_NAME)))


def export_tables(
    tenants: Iterable[Tenant],
    scopes: Iterable[Scope],
    hosts: Iterable[Host],
    vms: Iterable[Vm],
) -> Iterator[str]:
    """Yield the text in parts, one per object.

    VMs keep the given order, because there can be too many to hold in memory. The other
    objects are sorted by kind and name.
    """
    by_name = {scope.name: scope for scope in scopes}
    every = sorted(tenants, key=_BY_NAME)
    unsaid = _follow_by_themselves(every, by_name.values())
    blank = ""
    for tenant in () if unsaid else every:
        yield blank + _table(Kind.TENANT, tenant, ())
        blank = "\n"
    for scope in sorted(by_name.values(), key=_BY_NAME):
        if not scope.implied:
            yield blank + _table(Kind.SCOPE, scope, {"tenant"} if unsaid else ())
            blank = "\n"
    for host in sorted(hosts, key=_BY_NAME):
        yield blank + _table(Kind.HOST, host, ())
        blank = "\n"
    for vm in vms:
        if vm.state is VmState.DELETED:
            continue
        scope = by_name[vm.scope]
        text = _table(Kind.VM, vm, {"scope"} if scope.implied else ())
        if scope.implied and not unsaid:
            text += f"tenant = {toml.text(scope.tenant)}\n"
        yield blank + text
        blank = "\n"


def _follow_by_themselves(tenants: list[Tenant], scopes: Collection[Scope]) -> bool:
    """Return whether a file without tenants would give these tenants."""
    return [each.name for each in tenants] == [DEFAULT_TENANT] and bool(scopes)


def _table(kind: Kind, record: Record, unsaid: Collection[str]) -> str:
    """Return the entry of one object, without the keys in `unsaid`."""
    lines = [f"[[{kind.value}]]", f"name = {toml.text(record.name)}"]
    for field, value in said(kind, record):
        if field.written and field.key not in unsaid:
            lines.append(f"{field.key} = {toml_value(field.option, value)}")
    return "\n".join(lines) + "\n"
