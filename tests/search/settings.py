"""A small world: the places of its VMs, the orders, and the possible failures.

A *slot* is one operation that may be open: its fixed fields are here,
so that a state holds only what changes. A slot is free or has one operation at a
time; a second order of it waits until it is free.
"""

from dataclasses import dataclass, replace

from forewarn.protocol.operations import MOVING_ACTIONS, Action, TargetKind, Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPlan:
    """A VM as a world begins; indexes name its host and scope."""

    name: str
    host: int
    scope: int
    fault_domain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlan:
    """A scope, an availability set of one tenant."""

    name: str
    tenant: str
    terminate: bool = False
    """Whether deletions of its VMs are events (clause 5.7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The fields of an operation that never change."""

    name: str
    verb: Verb
    action: Action
    kind: TargetKind
    target: int
    """The index of its host or VM."""
    group: int
    """The request it is ordered with."""
    routine: bool = False
    together: bool = False
    rollout: bool = False

    @property
    def is_failure(self) -> bool:
        """Return whether it lasts until something is restored."""
        return self.verb is Verb.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A world, and what may happen in it."""

    name: str
    scopes: tuple[ScopePlan, ...]
    vms: tuple[VmPlan, ...]
    slots: tuple[Slot, ...] = ()
    hosts: int = 3
    notice: int = 2
    """Ticks from an order until NotBefore."""
    recovery: int = 1
    """Ticks from the end of an impact until the event is removed."""
    hold: int = 0
    """Ticks after NotBefore until a held operation is announced again; 0: never."""
    attempts: int = 1
    """Driver calls that are made before an operation fails."""
    listening: int = 0
    """The scopes that listen at the beginning, as bits."""
    steady: bool = False
    """Whether each step continues until nothing more follows, as in a service that
    never crashes; otherwise every transaction is a step, and they come in any
    order."""
    crashes: bool = False
    """Whether publishing and calling are steps, with crashes between them."""
    forgets: bool = False
    """Whether a driver may forget a call, so that its outcome is unknown."""
    driver_fails: bool = False
    leaves_down: bool = False
    """Whether a failed call may leave VMs down."""
    cancels: bool = False
    listeners_change: bool = False
    clock_step: int = 0
    """Ticks by which the wall clock is set forward, and back again, while the service
    runs and while it is down; 0: never."""
    needs_operator: bool = False
    """Whether operations may wait until an operator acts, so that L1 does not hold."""
    hosts_fail: tuple[int, ...] = ()
    vms_fail: tuple[int, ...] = ()
    orders: tuple[int, ...] = ()
    """The groups that operators and users order."""


def freeze(*hosts: int, impact: Action = Action.FREEZE) -> list[Slot]:
    """Return the maintenance of hosts as one rollout; its group is set later."""
    return [
        Slot(
            name=f"{impact.value} h{host}",
            verb=Verb.MAINTAIN,
            action=impact,
            kind=TargetKind.HOST,
            target=host,
            group=-1,
            routine=True,
            rollout=True,
        )
        for host in hosts
    ]


def terminate(*vms: int) -> list[Slot]:
    """Return the deletion of VMs by one order."""
    return [
        Slot(
            name=f"terminate v{vm}",
            verb=Verb.TERMINATE,
            action=Action.DELETE,
            kind=TargetKind.VM,
            target=vm,
            group=-1,
            together=True,
        )
        for vm in vms
    ]


def reboot(vm: int, *, redeploy: bool = False) -> list[Slot]:
    """Return a user's reboot, or redeploy, of a VM."""
    verb = Verb.REDEPLOY if redeploy else Verb.REBOOT
    return [
        Slot(
            name=f"{verb.value} v{vm}",
            verb=verb,
            action=Action.REDEPLOY if redeploy else Action.REBOOT,
            kind=TargetKind.VM,
            target=vm,
            group=-1,
        )
    ]


def ordered(plain: Setting, *orders: list[Slot]) -> Setting:
    """Return a world with its orders; failures get slots behind those."""
    slots = [
        replace(slot, group=group)
        for group, members in enumerate(orders)
        for slot in members
    ]
    moves = any(slot.action in MOVING_ACTIONS for slot in slots)
    may_fall = plain.leaves_down or plain.vms_fail or moves
    targets = [(TargetKind.HOST, host) for host in plain.hosts_fail]
    targets += [(TargetKind.VM, vm) for vm in range(len(plain.vms)) if may_fall]
    slots += [
        Slot(
            name=f"failure of {kind.value[0]}{target}",
            verb=Verb.FAIL,
            action=Action.NONE,
            kind=kind,
            target=target,
            group=group,
        )
        for group, (kind, target) in enumerate(targets, start=len(orders))
    ]
    return replace(plain, slots=tuple(slots), orders=tuple(range(len(orders))))
