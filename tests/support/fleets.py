"""Small random fleets, kept as values that can be changed and written as files."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

KINDS = ("availability-set", "scale-set", "cloud-service", "standalone")
TENANTS = ("ash", "bay", "cay")
DOMAINS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    name: str
    zone: str = ""
    capacity: int = 0
    """0: no limit."""
    pool: str = ""
    rack: str = ""
    vcpu: int = 0
    """0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlan:
    name: str
    tenant: str
    kind: str
    gpu: bool = False
    approve_reboot: bool = False
    approve_redeploy: bool = False
    terminate: str = ""
    os_image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPlan:
    name: str
    host: str
    scope: str
    domain: int = 0
    spot: bool = False
    keeps_memory: bool = True
    vcpu: int = 0
    """0: not counted."""
    movable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A fleet as its author would write it."""

    hosts: tuple[HostPlan, ...]
    scopes: tuple[ScopePlan, ...]
    vms: tuple[VmPlan, ...]
    made: int = 0
    """Names that were ever made, so that no name is made twice."""
    order: tuple[str, ...] = field(default=TENANTS)

    def text(self) -> str:
        """Return the fleet file."""
        lines = [f'[[tenant]]\nname = "{name}"' for name in self.order]
        lines += map(_host_text, self.hosts)
        lines += map(_scope_text, self.scopes)
        lines += map(_vm_text, self.vms)
        return "\n".join(lines) + "\n"


def _host_text(host: HostPlan) -> str:
    text = f'[[host]]\nname = "{host.name}"\nzone = "{host.zone}"\npool = "{host.pool}"'
    if host.rack:
        text += f'\nrack = "{host.rack}"'
    if host.vcpu:
        text += f"\nvcpu = {host.vcpu}"
    return f"{text}\ncapacity = {host.capacity}" if host.capacity else text


def _scope_text(scope: ScopePlan) -> str:
    lines = [
        "[[scope]]",
        f'name = "{scope.name}"',
        f'tenant = "{scope.tenant}"',
        f'kind = "{scope.kind}"',
        f"gpu = {_flag(scope.gpu)}",
        f"approve_user_reboot = {_flag(scope.approve_reboot)}",
        f"approve_user_redeploy = {_flag(scope.approve_redeploy)}",
    ]
    if scope.terminate:
        lines.append(f'terminate_notice = "{scope.terminate}"')
    if scope.os_image:
        lines.append(f'os_image_notice = "{scope.os_image}"')
    return "\n".join(lines)


def _vm_text(vm: VmPlan) -> str:
    text = (
        f'[[vm]]\nname = "{vm.name}"\nhost = "{vm.host}"\nscope = "{vm.scope}"\n'
        f"fault_domain = {vm.domain}\nspot = {_flag(vm.spot)}\n"
        f"memory_preserving = {_flag(vm.keeps_memory)}\nmovable = {_flag(vm.movable)}"
    )
    return f"{text}\nvcpu = {vm.vcpu}" if vm.vcpu else text


def _flag(value: bool) -> str:
    return "true" if value else "false"


@st.composite
def fleets(draw: st.DrawFn) -> FleetPlan:
    """Return a sound fleet of up to four hosts and four scopes."""
    hosts = [
        HostPlan(
            name=f"h{number}",
            zone=draw(st.sampled_from(("", "", "", "1", "2"))),
            pool=draw(st.sampled_from(("", "", "", "", "amd"))),
            rack=draw(st.sampled_from(("", "r1", "r1", "r2"))),
        )
        for number in range(draw(st.sampled_from((1, 2, 2, 3, 3, 4))))
    ]
    scopes = [draw(_scopes(f"s{number}")) for number in range(draw(st.integers(1, 4)))]
    vms: list[VmPlan] = []
    for scope in scopes:
        count = 1 if scope.kind == "standalone" else draw(st.integers(1, 3))
        vms += draw(_vms(scope, [host.name for host in hosts], count))
    guests = {host.name: sum(vm.host == host.name for vm in vms) for host in hosts}
    vcpus = {
        host.name: sum(vm.vcpu for vm in vms if vm.host == host.name) for host in hosts
    }
    hosts = [
        replace(
            host,
            capacity=guests[host.name] + room if room else 0,
            vcpu=vcpus[host.name] + spare if spare else 0,
        )
        for host in hosts
        for room in [draw(st.sampled_from((0, 0, 1, 2)))]
        for spare in [draw(st.sampled_from((0, 0, 1, 2)))]
    ]
    return FleetPlan(
        hosts=tuple(hosts), scopes=tuple(scopes), vms=tuple(vms), made=len(vms)
    )


@st.composite
def _scopes(draw: st.DrawFn, name: str) -> ScopePlan:
    kind = draw(st.sampled_from(KINDS))
    return ScopePlan(
        name=name,
        tenant=draw(st.sampled_from(TENANTS)),
        kind=kind,
        gpu=kind == "scale-set" and draw(st.booleans()),
        approve_reboot=draw(st.integers(0, 3)) == 3,
        approve_redeploy=draw(st.integers(0, 3)) == 3,
        terminate=draw(st.sampled_from(("", "5m", "15m"))),
        os_image=draw(st.sampled_from(("", "15m"))) if kind == "scale-set" else "",
    )


@st.composite
def _vms(
    draw: st.DrawFn, scope: ScopePlan, hosts: Sequence[str], count: int
) -> list[VmPlan]:
    # One host never holds two fault domains of a scope.
    domains: dict[str, int] = {}
    single = scope.gpu and draw(st.booleans())
    vms: list[VmPlan] = []
    for number in range(count):
        host = draw(st.sampled_from(hosts))
        if host not in domains:
            domains[host] = 0 if single else draw(st.integers(0, DOMAINS - 1))
        vms.append(
            VmPlan(
                name=f"{scope.name}v{number}",
                host=host,
                scope=scope.name,
                domain=domains[host],
                spot=draw(st.integers(0, 2)) == 2,
                keeps_memory=draw(st.integers(0, 3)) != 3,
                vcpu=draw(st.sampled_from((0, 0, 1, 2))),
                movable=draw(st.integers(0, 9)) != 9,
            )
        )
    return vms


CHANGES = (
    "add vm",
    "remove vm",
    "move vm",
    "move vms about",
    "relabel vm",
    "relabel scope",
    "change scope",
    "add host",
    "remove host",
    "zone",
    "capacity",
    "policy",
    "gpu",
    "kind",
)


def changed(plan: FleetPlan, what: str, one: int, two: int, three: int) -> FleetPlan:
    """Return another fleet, sound or not; the numbers choose what is changed."""
    vm = plan.vms[one % len(plan.vms)] if plan.vms else None
    scope = plan.scopes[one % len(plan.scopes)]
    host = plan.hosts[two % len(plan.hosts)]
    if what == "add vm":
        fresh = VmPlan(
            name=f"n{plan.made}",
            host=host.name,
            scope=scope.name,
            domain=three % DOMAINS,
            spot=three % 2 == 1,
        )
        return replace(plan, vms=(*plan.vms, fresh), made=plan.made + 1)
    if what in {"relabel scope", "policy", "gpu", "kind"}:
        return _with_scope(plan, scope, what, three)
    if what in {"add host", "remove host", "zone", "capacity"}:
        return _with_host(plan, host, what, three)
    if vm is None:
        return plan
    if what == "remove vm":
        return replace(
            plan, vms=tuple(vm_plan for vm_plan in plan.vms if vm_plan != vm)
        )
    if what == "move vms about":
        return _moved_about(plan, three)
    other = plan.scopes[two % len(plan.scopes)].name
    now = {
        "move vm": replace(vm, host=host.name),
        "relabel vm": replace(vm, domain=three % DOMAINS),
        "change scope": replace(vm, scope=other),
    }[what]
    return replace(
        plan, vms=tuple(now if vm_plan == vm else vm_plan for vm_plan in plan.vms)
    )


def _moved_about(plan: FleetPlan, by: int) -> FleetPlan:
    """Move all VMs some hosts on: in one file, each place is left and taken."""
    names = [host.name for host in plan.hosts]
    return replace(
        plan,
        vms=tuple(
            replace(vm, host=names[(names.index(vm.host) + by) % len(names)])
            for vm in plan.vms
        ),
    )


def _with_scope(plan: FleetPlan, scope: ScopePlan, what: str, how: int) -> FleetPlan:
    if what == "relabel scope":
        # Adding the same to all keeps them apart; 0 puts all into one.
        vms = tuple(
            replace(vm, domain=(vm.domain + how) % DOMAINS if how else 0)
            if vm.scope == scope.name
            else vm
            for vm in plan.vms
        )
        return replace(plan, vms=vms)
    if what == "gpu":
        fresh = replace(scope, gpu=not scope.gpu)
    elif what == "kind":
        fresh = replace(scope, kind=KINDS[how % len(KINDS)])
    else:
        fresh = replace(
            scope,
            approve_reboot=how & 1 == 1,
            approve_redeploy=how & 2 == 2,
            terminate=("", "5m", "10m", "15m")[how % 4],
        )
    scopes = tuple(
        fresh if scope_plan == scope else scope_plan for scope_plan in plan.scopes
    )
    return replace(plan, scopes=scopes)


def _with_host(plan: FleetPlan, host: HostPlan, what: str, how: int) -> FleetPlan:
    if what == "add host":
        fresh = HostPlan(name=f"n{plan.made}", zone=host.zone)
        return replace(plan, hosts=(*plan.hosts, fresh), made=plan.made + 1)
    if what == "remove host":
        if len(plan.hosts) == 1:
            return plan
        rest = tuple(host_plan for host_plan in plan.hosts if host_plan != host)
        vms = tuple(
            replace(vm, host=rest[how % len(rest)].name) if vm.host == host.name else vm
            for vm in plan.vms
        )
        return replace(plan, hosts=rest, vms=vms)
    if what == "zone":
        fresh = replace(host, zone=("", "1", "2")[how % 3])
    else:
        fresh = replace(host, capacity=how % 5)
    hosts = tuple(fresh if host_plan == host else host_plan for host_plan in plan.hosts)
    return replace(plan, hosts=hosts)
