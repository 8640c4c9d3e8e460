"""The questions of the model to the product: the real code makes every decision.

A question is translated into the rows that the code reads, and its answer is
remembered under the few numbers that it depends on. The code that is run is
`lifecycle.look_up` on the real tables, `obstacles.why_not_start` (and through it
`guard.guard` and `destinations.find_at_start`), `destinations.unfit`,
`destinations.find_places` and `destinations.can_give_up_places`,
`obstacles.counting_events` with `consent.is_released`, and `admission.is_announced`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from forewarn.control.requests.admission import is_announced
from forewarn.control.rules import consent, destinations, obstacles
from forewarn.protocol.blockers import Blocker
from forewarn.protocol.operations import Operation
from tests.search.rows import Rows
from tests.search.settings import Setting, Slot
from tests.search.state import ANNOUNCED, READY, Op, Vm, bits, place_of, placed
from tests.search.translation import NOW, Translation

Blocked: TypeAlias = tuple[Blocker, ...]
"""The reason why an operation may not start."""


class Decisions:
    """The product's decisions in one world, remembered."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rows = Translation(setting)
        self._released: dict[object, bool] = {}
        self._blocked: dict[object, Blocked] = {}
        self._renewed: dict[object, tuple[int, bool]] = {}
        self._free: dict[object, bool] = {}

    def announced(self, slot: Slot) -> int:
        """Return the scopes whose VMs' part in the operation is an event."""
        vm = self.rows.vm(0, Vm(0, 0), (), -1)
        return sum(
            1 << number
            for number, scope in enumerate(self.rows.scopes)
            if is_announced(slot.verb, scope, vm)
        )

    # Consent

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        """Return whether a noticed operation is ready."""
        op = ops[slot]
        assert op is not None
        here = self.setting.slots[slot]
        parts: list[tuple[int, int, int]] = []
        for number, other in enumerate(ops):
            if other is not None and (
                number == slot
                or (here.together and self.setting.slots[number].group == here.group)
            ):
                parts += [(number, other.events, other.approved)]
        # Of those that go together, only the waiting ones count; one that does not
        # wait has no part in it any more.
        waiting = tuple(
            part
            for part in parts
            if (other := ops[part[0]]) is not None and other.state in {ANNOUNCED, READY}
        )
        key = (slot, waiting, op.left > 0)
        known = self._released.get(key)
        if known is None:
            known = self._released[key] = self._ask_consent(ops, slot)
        return known

    def _ask_consent(self, ops: Sequence[Op | None], slot: int) -> bool:
        rows = Rows(
            [*self.rows.operations(ops), *self.rows.requests(), *self.rows.events(ops)]
        )
        operation = rows.get(Operation, self.setting.slots[slot].name)
        assert operation is not None
        events = obstacles.counting_events(rows, operation)
        return consent.is_released(operation, events, now=NOW)

    # Reasons why an operation may not start

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Blocked:
        """Return what keeps a ready operation from starting."""
        key = self._fleet_key(vms, ops, down, slot)
        known = self._blocked.get(key)
        if known is None:
            known = self._blocked[key] = self._ask_obstacles(vms, ops, down, slot)
        return known

    def _ask_obstacles(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Blocked:
        rows, operation = self._fleet(vms, ops, down, slot)
        return obstacles.why_not_start(rows, operation, now=NOW)

    # Places

    def can_give_up_places(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, host: int
    ) -> bool:
        """Return whether others can take the VMs for which a host keeps places."""
        key = self._fleet_key(vms, ops, down, host)
        known = self._free.get(key)
        if known is None:
            rows = self._rows(vms, ops, down)
            known = destinations.can_give_up_places(rows, f"h{host}")
            self._free[key] = known
        return known

    def renewed(
        self,
        vms: Sequence[Vm],
        ops: Sequence[Op | None],
        down: int,
        slot: int,
        called: int,
    ) -> tuple[int, bool]:
        """Return the places of an operation when VMs of it are to be called for.

        Also whether each of these has one.
        """
        key = (*self._fleet_key(vms, ops, down, slot), called)
        known = self._renewed.get(key)
        if known is None:
            known = self._ask_places(vms, ops, down, slot, called)
            self._renewed[key] = known
        return known

    def _ask_places(
        self,
        vms: Sequence[Vm],
        ops: Sequence[Op | None],
        down: int,
        slot: int,
        called: int,
    ) -> tuple[int, bool]:
        op = ops[slot]
        assert op is not None
        names = [self.setting.vms[vm].name for vm in bits(called)]
        rows, operation = self._fleet(vms, ops, down, slot)
        places = op.places
        for name in destinations.unfit(rows, operation, names):
            places = placed(places, self._number(name), -1)
        if all(place_of(places, vm) >= 0 for vm in bits(called)):
            return places, True
        cleared = list(ops)
        cleared[slot] = op._replace(places=places)
        placement = destinations.find_places(*self._fleet(vms, cleared, down, slot))
        if placement.blockers:
            return places, False
        for vm, host in self._numbers(placement.hosts).items():
            places = placed(places, vm, host)
        return places, True

    # Rows

    def _fleet_key(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> tuple[object, ...]:
        return (
            slot,
            tuple(vms),
            down,
            tuple(
                None
                if op is None
                else (max(op.state, READY), op.todo, op.done, op.places, op.host)
                for op in ops
            ),
        )

    def _fleet(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> tuple[Rows, Operation]:
        rows = self._rows(vms, ops, down)
        operation = rows.get(Operation, self.setting.slots[slot].name)
        assert operation is not None
        return rows, operation

    def _rows(self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int) -> Rows:
        return Rows(
            [
                *self.rows.scopes,
                *self.rows.operations(ops),
                *self.rows.requests(),
                *self.rows.hosts(down),
                *self.rows.vm_rows(vms, ops),
            ]
        )

    def _number(self, name: str) -> int:
        return next(n for n, vm in enumerate(self.setting.vms) if vm.name == name)

    def _numbers(self, hosts: Mapping[str, str]) -> dict[int, int]:
        return {
            self._number(name): int(host.removeprefix("h"))
            for name, host in hosts.items()
        }
