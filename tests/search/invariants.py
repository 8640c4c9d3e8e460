"""Invariants of every state: S1, S10 to S13.

They are written from the clauses and share no code with the model's steps. The
numbers are those of the service's design; `docs/explanation/verification.md` says them in words.
"""

from collections import Counter
from collections.abc import Iterator

from tests.search.model import Model
from tests.search.state import (
    DOWN,
    GONE,
    IMPACTING,
    NO_CALL,
    RUNS,
    Op,
    State,
    bits,
    place_of,
)


class BrokenError(Exception):
    """An invariant does not hold."""

    def __init__(self, name: str, why: str) -> None:
        """Name the invariant, and say what breaks it."""
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def unsteady(state: State, besides: int, members: int) -> Iterator[int]:
    """Yield the VMs that are down, or that another operation has started on."""
    touched = 0
    for slot, op in enumerate(state.ops):
        if op is not None and op.state >= IMPACTING and slot != besides:
            touched |= op.vms
    for vm in bits(members):
        how = state.vms[vm].how
        if how == DOWN or (how != GONE and touched >> vm & 1):
            yield vm


class OfStates:
    """The invariants of states, in one world."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.slots = model.slots
        self.routine = [slot.routine for slot in model.slots]
        plans = {(vm.host, vm.scope, vm.fault_domain) for vm in model.setting.vms}
        homes = Counter((host, scope) for host, scope, _ in plans)
        self.shared = {place for place, domains in homes.items() if domains > 1}
        """Hosts with several fault domains of a scope at the beginning, where a
        hypervisor put them."""

    # States

    def check(self, state: State) -> None:
        """Raise BrokenError if an invariant of states does not hold."""
        begun = [
            (slot, op)
            for slot, op in enumerate(state.ops)
            if op is not None and op.state >= IMPACTING
        ]
        if begun:
            self._s1(begun)
        self._announced(state)
        self._calls(begun)
        self._down(state, begun)
        self._places(state)

    def _s1(self, begun: list[tuple[int, Op]]) -> None:
        """S1: routine impacts touch one fault domain; S1b: one migration.

        The VMs of a migration move one after the other, so that it may have several.
        """
        for scope, members in enumerate(self.model.members):
            domains: set[int] = set()
            migrations = 0
            impacts = 0
            for slot, op in begun:
                vms = op.vms & members
                if vms and self.routine[slot]:
                    domains.update(self.model.domain_of[vm] for vm in bits(vms))
                    migrations += self.model.is_migration[slot]
                    impacts += 1
            in_turn = impacts == migrations == 1
            if len(domains) > 1 and not in_turn:
                raise BrokenError("S1", f"scope {scope} has domains {domains} down")
            if migrations > 1:
                raise BrokenError("S1b", f"scope {scope} has {migrations} migrations")

    def _announced(self, state: State) -> None:
        """S10: the scopes of an operation have its event (4.7), and no others have."""
        for slot, op in enumerate(state.ops):
            if op is None:
                continue
            announced = self.model.scopes(op.vms) & self.model.announced[slot]
            if op.events != announced:
                raise BrokenError("S10", f"{self.slots[slot].name} has other events")
            if op.approved & ~announced:
                raise BrokenError("S4", f"{self.slots[slot].name}: a foreign approval")

    def _calls(self, begun: list[tuple[int, Op]]) -> None:
        """S10: Started means a call or a failure; no VM is in two hands."""
        hands = 0
        for slot, op in begun:
            works = op.state == IMPACTING and not self.model.is_failure[slot]
            if works == (op.call == NO_CALL):
                raise BrokenError("S10", f"{self.slots[slot].name} has a wrong call")
            if works:
                if hands & op.vms:
                    raise BrokenError("S11", "two calls meet on one VM")
                hands |= op.vms

    def _down(self, state: State, begun: list[tuple[int, Op]]) -> None:
        """S12: whatever is down is in a Started failure, and nothing else is."""
        named = 0
        for slot, op in begun:
            if self.model.is_failure[slot]:
                named |= op.vms
        for number, vm in enumerate(state.vms):
            if (vm.how == DOWN) != bool(named >> number & 1):
                raise BrokenError("S12", f"v{number} is down and not told, or told")
            if vm.how == RUNS and state.down >> vm.host & 1:
                raise BrokenError("S12", f"v{number} runs on a host that is down")

    def _places(self, state: State) -> None:
        """S13: a host never holds two fault domains of a scope, unless it began so.

        A place that it keeps for a VM counts like the VM.
        """
        host_by_vm = _kept(state)
        held: dict[tuple[int, int], int] = {}
        for number, vm in enumerate(state.vms):
            if vm.how == GONE:
                continue
            domain = self.model.domain_of[number]
            for host in {vm.host, host_by_vm.get(number, vm.host)}:
                place = (host, self.model.scope_of[number])
                began = self.model.setting.vms[number].host == host
                if held.setdefault(place, domain) != domain and not (
                    began and place in self.shared
                ):
                    raise BrokenError("S13", f"h{host} holds two fault domains")


def _kept(state: State) -> dict[int, int]:
    """S13: return the hosts that keep a place for a VM; each VM has one at most."""
    host_by_vm: dict[int, int] = {}
    for op in state.ops:
        if op is None or not op.is_keeping or not op.places:
            continue
        for vm in bits(op.todo):
            host = place_of(op.places, vm)
            if host >= 0 and vm in host_by_vm:
                raise BrokenError("S13", f"two places are kept for v{vm}")
            if host >= 0:
                host_by_vm[vm] = host
    return host_by_vm
