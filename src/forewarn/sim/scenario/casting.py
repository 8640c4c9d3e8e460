"""Assign the roles of a scenario to VMs of another fleet, or rename its VMs. Pure.

The VMs and hosts that a scenario names are roles. The needs of a role follow from the
scenario's own fleet and from its steps. A VM that is evicted must be a Spot VM. VMs that
share a host in the scenario must share a host in the other fleet. A named host stands for
the host of its VMs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarn.fleet.file import WantedFleet, read_fleet
from forewarn.fleet.model import Scope, Vm
from forewarn.problems import did_you_mean, listed
from forewarn.protocol.errors import RefusedError
from forewarn.sim import fleets
from forewarn.sim.scenario import file
from forewarn.sim.scenario.model import (
    OTHERS,
    Act,
    Approve,
    Expect,
    Fleet,
    ForVms,
    Order,
    Publish,
    Scenario,
    See,
    SetFaults,
)
from forewarn.verbs.model import Kind
from forewarn.verbs.table import VERBS

TRIED_MAX = 200_000
"""Maximum number of VMs that are tried for one scenario, a microsecond each. So a search
in an unsuitable fleet ends quickly."""


# Names


def renamed(scenario: Scenario, names: Mapping[str, str]) -> Scenario:
    """Return the scenario with new names of VMs and hosts."""

    def of(name: str) -> str:
        return names.get(name, name)

    def all_of(names_given: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(of, names_given))

    def act_of(act: Act) -> Act:
        match act:
            case Order():
                return replace(act, targets=all_of(act.targets))
            case Publish(wanted=wanted):
                return Publish(wanted=replace(wanted, vms=all_of(wanted.vms)))
            case Approve():
                return replace(act, by=of(act.by))
            case See():
                return replace(act, vms=all_of(act.vms), host=of(act.host))
            case ForVms():
                return replace(act, vms=all_of(act.vms))
            case SetFaults(playbook=playbook):
                return replace(
                    act, playbook=replace(playbook, vms=all_of(playbook.vms))
                )
            case Expect(expectation=expectation):
                return Expect(
                    expectation=replace(expectation, vms=all_of(expectation.vms))
                )
            case _:
                return act

    return replace(
        scenario,
        clients=tuple(replace(client, vm=of(client.vm)) for client in scenario.clients),
        steps=tuple(replace(step, act=act_of(step.act)) for step in scenario.steps),
    )


def _names_in(act: Act) -> tuple[str, ...]:
    match act:
        case Order(verb=verb, targets=names):
            is_of_scopes = VERBS[verb].targets.kind in {Kind.SCOPE, Kind.VM_OR_SCOPE}
            return () if is_of_scopes else names
        case Publish(wanted=wanted):
            return wanted.vms
        case Approve(by=name):
            return (name,) if name else ()
        case See(vms=names, host=host):
            return (*names, host) if host else names
        case ForVms(vms=names):
            return names
        case SetFaults(playbook=playbook):
            return playbook.vms
        case Expect(expectation=expectation):
            return expectation.vms
        case _:
            return ()


def names_in(scenario: Scenario) -> set[str]:
    """Return the names of VMs and hosts in a scenario."""
    return {client.vm for client in scenario.clients}.union(
        *(_names_in(step.act) for step in scenario.steps)
    )


def check_names(names: Sequence[str]) -> None:
    """Refuse duplicate names."""
    for name in names:
        if names.count(name) > 1:
            raise RefusedError(f"the name {name!r} is given twice")


def named_text(
    text: str, names: Sequence[str], *, first: Sequence[str] = ()
) -> tuple[str, dict[str, str]]:
    """Give new names to the first VMs of a fleet file; return it with a map of all names.

    The VMs in `first` come first, then the others in natural order. Other VMs keep their
    names. If a new name is already in use, its VM takes a name that has become free.
    Surplus names are ignored.
    """
    tables = fleets.read(text)
    others = [name for name in tables["vm"] if name not in first]
    before = [*first, *sorted(others, key=fleets.counted)]
    names_given = names[: len(before)]
    free = (name for name in before[: len(names_given)] if name not in names_given)
    names_kept = before[len(names_given) :]
    after = (
        *names_given,
        *(next(free) if name in names_given else name for name in names_kept),
    )
    new = dict(zip(before, after, strict=True))
    entries = tables["vm"].values()
    tables["vm"] = {
        new[entry["name"]]: {**entry, "name": new[entry["name"]]} for entry in entries
    }
    return fleets.write(tables), new


def with_names(
    scenario: Scenario, names: Sequence[str], *, vms: int | None = None
) -> Scenario:
    """Return the scenario on its own fleet, with new names of the VMs it is about.

    Further names are for other VMs. `vms` is the number of VMs in the default fleet.
    """
    text = file.usual_text(scenario.fleet, vms=vms)
    text, new = named_text(
        text, names, first=[role.vm.name for role in roles_of(scenario)]
    )
    return replace(renamed(scenario, new), fleet=Fleet(text=text))


# Roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A VM of a scenario, and its needs."""

    vm: Vm
    """The VM in the scenario's own fleet."""
    needs: tuple[str, ...] = ()
    """Keys of `_NEEDS`."""


@dataclass(frozen=True, slots=True)
class _Need:
    """A need of a VM for a verb."""

    must: str
    key: str
    """The setting of a fleet file that meets the need."""
    has: Callable[[Scope, Vm], bool]


_NEEDS: Mapping[str, _Need] = {
    "evict": _Need("be a Spot VM", "`spot = true`", lambda _scope, vm: vm.spot),
    "terminate": _Need(
        "be notified of its deletion, and not be a Spot VM",
        "`terminate_notice` in its scope",
        lambda scope, vm: scope.terminate_notice is not None and not vm.spot,
    ),
    "upgrade-os": _Need(
        "be notified of OS upgrades",
        "`os_image_notice` in its scope, and a size that keeps memory",
        lambda scope, vm: scope.os_image_notice is not None and vm.memory_preserving,
    ),
    "reboot": _Need(
        "be asked before a restart",
        "no `approve_user_reboot` in its scope",
        lambda scope, _vm: not scope.approve_user_reboot,
    ),
    "redeploy": _Need(
        "be asked before it is redeployed",
        "no `approve_user_redeploy` in its scope",
        lambda scope, _vm: not scope.approve_user_redeploy,
    ),
}

_SAME_NEED = {"reimage": "upgrade-os"}


def _has(fleet: WantedFleet, vm: Vm, need: str) -> bool:
    return _NEEDS[need].has(fleet.scopes[vm.scope], vm)


def roles_of(scenario: Scenario) -> list[Role]:
    """Return the VMs that a scenario names, in order.

    The clients come first. A named host stands for the first VM on it.
    """
    own = file.wanted_fleet(scenario.fleet)
    named = [client.vm for client in scenario.clients if client.vm != OTHERS]
    needs: dict[str, list[str]] = {}
    for step in scenario.steps:
        names = _names_in(step.act)
        named += names
        if isinstance(step.act, Order):
            need = _SAME_NEED.get(step.act.verb, step.act.verb)
            for name in names:
                needs.setdefault(name, []).append(need)
    roles: dict[str, Role] = {}
    for name in named:
        if name in own.hosts and name not in own.vms:
            on_it = [vm for vm in own.vms.values() if vm.host == name]
            if not on_it or any(role.vm.host == name for role in roles.values()):
                continue
            name = min((vm.name for vm in on_it), key=fleets.counted)  # noqa: PLW2901
        vm = own.vms.get(name)
        if vm is None or name in roles:
            continue
        wanted = tuple(
            need
            for need in dict.fromkeys(needs.get(name, ()))
            if need in _NEEDS and _has(own, vm, need)
        )
        roles[name] = Role(vm=vm, needs=wanted)
    return list(roles.values())


@dataclass(slots=True)
class _Search:
    """A search for VMs of a fleet that can take all roles."""

    fleet: WantedFleet
    roles: Sequence[Role]
    names: Sequence[str]
    """The VMs that the caller chose for the first roles."""
    order: Mapping[str, int] = field(default_factory=dict[str, int])
    """Names of VMs to try first; the others follow in natural order."""
    deepest: int = 0
    """The last role that no VM could take."""
    tried: int = 0
    on_host: dict[str, list[Vm]] = field(default_factory=dict[str, list[Vm]])

    def __post_init__(self) -> None:
        last, order = len(self.order), self.order
        for vm in sorted(
            self.fleet.vms.values(),
            key=lambda vm: (order.get(vm.name, last), fleets.counted(vm.name)),
        ):
            self.on_host.setdefault(vm.host, []).append(vm)

    def casts(self, chosen: tuple[Vm, ...] = ()) -> Iterator[tuple[Vm, ...]]:
        """Yield the VMs for all roles, the best choice first."""
        place = len(chosen)
        if place == len(self.roles):
            yield chosen
            return
        self.deepest = max(self.deepest, place)
        for vm in self._candidates(chosen):
            self.tried += 1
            if self.tried > TRIED_MAX:
                return
            if self._fits(vm, chosen):
                yield from self.casts((*chosen, vm))

    def _candidates(self, chosen: tuple[Vm, ...]) -> Iterator[Vm]:
        place = len(chosen)
        role = self.roles[place]
        vms = self.fleet.vms
        if place < len(self.names):
            yield vms[self.names[place]]
            return
        same = vms.get(role.vm.name)
        if same is not None:
            yield same
        mates = zip(self.roles, chosen, strict=False)
        host = next((vm.host for r, vm in mates if r.vm.host == role.vm.host), None)
        vms_there = (
            (vm for on_it in self.on_host.values() for vm in on_it)
            if host is None
            else iter(self.on_host[host])
        )
        yield from (vm for vm in vms_there if vm is not same)

    def _fits(self, vm: Vm, chosen: tuple[Vm, ...]) -> bool:
        role = self.roles[len(chosen)]
        if vm in chosen or not all(_has(self.fleet, vm, need) for need in role.needs):
            return False
        return all(
            (vm.host == other.host) is (role.vm.host == mate.vm.host)
            and (vm.scope == other.scope) is (role.vm.scope == mate.vm.scope)
            and (vm.tenant != other.tenant or role.vm.tenant == mate.vm.tenant)
            for mate, other in zip(self.roles, chosen, strict=False)
        )


def casts(
    scenario: Scenario,
    text: str,
    *,
    names: Sequence[str] = (),
    order: Iterable[str] = (),
) -> Iterator[Scenario]:
    """Yield the scenario with VMs of another fleet, the best choice first.

    VMs with the names of roles take these roles if they meet the needs. `names` are the
    VMs of the first roles. `order` are the VMs to try first. Raises RefusedError if the
    fleet has no suitable VMs.
    """
    fleet = read_fleet(text, name="the fleet")
    for name in names:
        if name not in fleet.vms:
            raise RefusedError(
                f"VM {name!r} is not in the fleet{did_you_mean(name, fleet.vms)}",
                hint="With a fleet, use --name for a VM of this fleet.",
            )
    roles = roles_of(scenario)
    places = {name: place for place, name in enumerate(order)}
    search = _Search(fleet, roles, names[: len(roles)], places)
    is_found = False
    for chosen in search.casts():
        is_found = True
        new = {
            role.vm.name: vm.name for role, vm in zip(roles, chosen, strict=True)
        } | {role.vm.host: vm.host for role, vm in zip(roles, chosen, strict=True)}
        yield replace(renamed(scenario, new), fleet=Fleet(text=text))
    if not is_found:
        raise _nobody(scenario, search)


def _nobody(scenario: Scenario, search: _Search) -> RefusedError:
    """Return the error for a role that no VM can take."""
    place = search.deepest
    role = search.roles[place]
    where: dict[str, list[str]] = {}
    for mate in (role_.vm for role_ in search.roles[:place]):
        same_host, same_scope = mate.host == role.vm.host, mate.scope == role.vm.scope
        on = "be on the host of" if same_host else "be on another host than"
        where.setdefault(on, []).append(mate.name)
        within = "be in the scope of" if same_scope else "be in another scope than"
        where.setdefault(within, []).append(mate.name)
    needs = [_NEEDS[need].must for need in role.needs]
    needs += [f"{how} {listed(mates)}" for how, mates in where.items()]
    subject = "no VM can be"
    if place < len(search.names):
        subject = f"VM {search.names[place]} cannot be"
    must = f", which must {listed(needs)}" if needs else ""
    vms = search.fleet.vms.values()
    lacking = [
        _NEEDS[need].key
        for need in role.needs
        if not any(_has(search.fleet, vm, need) for vm in vms)
    ]
    ways = f"Give a VM {listed(lacking)}, or remove" if lacking else "Remove"
    return RefusedError(
        f"{scenario.name} cannot be played on this fleet: {subject} {role.vm.name}{must}",
        hint=f"{ways} the fleet. Run `forewarn simulate --show {scenario.name}` to see "
        "what the scenario needs.",
    )
