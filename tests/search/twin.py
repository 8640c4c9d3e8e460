"""Random walks that the model and a world take together.

Both take each step. If one refuses it, the other must too; the result
must be the same in every picture, down to the incarnation that each VM is
served. Some steps end in a crash at a checkpoint of the plane. The model takes the
transactions that followed in the world, and no others. After each turn that ended
without a crash, nobody may wait who could start, and no timer may be overdue.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from tests.search.clocks import CLOCK_LABELS
from tests.search.labels import due, labels
from tests.search.ledger import Log
from tests.search.model import Model
from tests.search.orders import RefusedError
from tests.search.pictures import Picture, of_model
from tests.search.settings import Setting
from tests.search.side import RESTARTED, Side
from tests.search.sights import name_of, of_world, open_operations
from tests.search.state import MADE, READY, Label, bits
from tests.search.steps import TICK, Part
from tests.search.transactions import ticked, transact
from tests.search.words import told

CRASH_SHARE = 0.15
REPEAT_SHARE = 0.05
WEIGHTS = {"tick": 6, "order": 4, "done": 3, "approve": 2}
"""How much likelier than others a step is."""


class Twin(Side):
    """The model and a world, side by side."""

    def __init__(self, setting: Setting, seed: int) -> None:
        super().__init__(Model(replace(setting, steady=True, crashes=False)), seed)
        self.incarnations: dict[int, int] = {}
        self.refusals = 0
        self.waits_for_look = False
        """The clock was set since the last tick: NotBefore may have come of what waits
        for it again, and is noticed at the next look, within a tick."""
        self.trace: list[str] = []
        for scope in bits(setting.listening):
            self.take(Label("enable", scope), crash=False)

    def walk(self, length: int) -> None:
        """Take so many steps at random."""
        for _ in range(length):
            self.catch_up()
            if self.driver.told and self.random.random() < REPEAT_SHARE:
                self.hear_again()
                continue
            choice = [TICK, *labels(self.model, self.state)]
            weights = [WEIGHTS.get(label.what, 1) for label in choice]
            label = self.random.choices(choice, weights)[0]
            self.take(label, crash=self.random.random() < CRASH_SHARE)

    def hear_again(self) -> None:
        """Hear an old report again: it is void."""
        self.trace.append("an old report comes again")
        self.driver.repeat(self.random.choice(self.driver.told))
        self.world.settle()
        self.compare()

    def take(self, label: Label, *, crash: bool) -> None:
        """Take a step in both, and compare."""
        self.trace.append(told(self.model, label))
        if label == TICK or label.what in CLOCK_LABELS:
            self.waits_for_look = label != TICK
        # Sightings of the last comparison are not a part of the step.
        self.world.settle()
        before = self.world.passed["committed"] - self.driver.probe_commits
        restarts = label.what == "lose sight" or label.what.startswith("restart")
        crashed = self.in_world(label, crash=crash and not restarts)
        after = self.world.passed["committed"] - self.driver.probe_commits
        commits = after - before if crashed else -1
        if crashed:
            self.trace[-1] += f" (crash after {commits} commits)"
        refused = crashed is None
        order = self.order()
        try:
            parts = self.in_model(label, order)
        except RefusedError:
            # A POST that is refused is a transaction too, one without effect.
            lost = crashed and label.what == "approve"
            assert refused or lost, f"only the model refuses: {self.trace}"
            self.refusals += 1
        else:
            assert not refused, f"only the world refuses: {self.trace}"
            self.follow(parts)
        self.follow_looks(order)
        self.compare()
        if not crashed:
            self.check_nobody_is_forgotten()

    def order(self) -> list[int]:
        """Return the slots as the ids of their operations are sorted."""
        new = open_operations(self.model, self.world)
        ids = {
            name: operation.operation_id
            for name, operation in (new | self.operations).items()
        }
        self.operations = new
        names = [slot.name for slot in self.model.slots]
        return sorted(range(len(names)), key=lambda slot: ids.get(names[slot], "~"))

    def in_model(self, label: Label, order: Sequence[int]) -> list[Part]:
        """Take a step in the model; raises the model's RefusedError."""
        if label == TICK:
            return [Part(TICK, self.state, ticked(self.model, self.state), Log())]
        after, log = transact(self.model, self.state, label, order)
        return [Part(label, self.state, after, log)]

    def follow_looks(self, order: Sequence[int]) -> None:
        """Take in the model what followed in the world, in the world's order.

        The order in which a service looks at those who wait is not a part of the model,
        in which looks come in any order.
        """
        first = self.state
        for operation_id, is_due in self.looks:
            if operation_id == RESTARTED:
                self.follow(self.in_model(Label("restart"), order))
                first = self.state
                continue
            slot = self.slot_of(operation_id)
            label = Label("look", slot)
            if is_due:
                fired = due(self.model, first, slot)
                if fired is None:
                    continue
                label = fired
            # Where what was due has happened meanwhile, nothing changes.
            with contextlib.suppress(RefusedError):
                if self.state.ops[slot] is not None:
                    self.follow(self.in_model(label, order))
        self.looks = []

    def slot_of(self, operation_id: str) -> int:
        """Return the slot of an operation, which may have ended."""
        name = name_of(self.model, self.world.operation(operation_id))
        return [slot.name for slot in self.model.slots].index(name)

    def follow(self, parts: Sequence[Part]) -> None:
        """Take over the parts of a step."""
        for part in parts:
            self.state = part.after
            for scope in bits(part.after.listening):
                raised = part.log.raised >> scope & 1
                known = self.incarnations.get(scope, 0)
                if not part.before.listening >> scope & 1:
                    known = 1
                self.incarnations[scope] = known + raised

    def catch_up(self) -> None:
        """Do what a crash has left, as the service does at its next turn."""
        with self.recorded():
            self.world.advance(max(0, self.until - self.world.now))
        if self.looks:
            self.trace.append("what was left is done")
            self.follow_looks(self.order())
            self.compare()
        self.check_nobody_is_forgotten()

    def check_nobody_is_forgotten(self) -> None:
        """Check that no timer is overdue, and that no waiting operation can start."""
        for slot, op in enumerate(self.state.ops):
            if op is None:
                continue
            name = f"{self.model.slots[slot].name}: {self.trace}"
            if op.state == READY:
                state = self.state
                if self.waits_for_look or self.model.is_early_again(state.ops, slot):
                    continue
                blockers = self.model.blocked(state.vms, state.ops, state.down, slot)
                assert blockers, f"nobody has looked at {name}"
            else:
                assert due(self.model, self.state, slot) is None, f"overdue: {name}"

    def compare(self) -> None:
        """Compare every picture; a difference fails with both in full."""
        self.order()
        expected = of_model(self.model, self.state, self.incarnations)
        actual = of_world(self.model, self.world)
        if actual != expected:
            raise AssertionError(
                "\n".join([*self.trace, *differences(actual, expected)])
            )
        again = [key for key, count in self.driver.begun.items() if count > 1]
        assert not again, f"the driver was called twice for {again}"
        calls = {
            self.id_of(slot)
            for slot, op in enumerate(self.state.ops)
            if op is not None and op.call == MADE
        }
        assert calls <= self.driver.under_way(), "a call is not under way"


def differences(seen: Picture, expected: Picture) -> list[str]:
    """Return what differs, a line each."""
    return [
        f"{part} {key}: the world has {real.get(key)}, the model {said.get(key)}"
        for part in ("ops", "vms", "documents")
        for real, said in [(getattr(seen, part), getattr(expected, part))]
        for key in sorted({*real, *said})
        if real.get(key) != said.get(key)
    ] + [f"down: {sorted(seen.down)}, {sorted(expected.down)}"]
