"""Random walks that the model and a world take together.

A step is asked of both. What one refuses the other must refuse; what follows
must be the same in every picture, down to the incarnation that each VM is
served. Some steps end in a crash at a checkpoint of the plane; the model then
takes as many transactions as were committed, and loses what was owed.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.search.labels import due, labels
from tests.search.model import Model
from tests.search.orders import RefusedError
from tests.search.pictures import Picture, of_model
from tests.search.settings import Setting
from tests.search.side import Side
from tests.search.sights import of_world, open_operations
from tests.search.state import MADE, STATES, Label, bits
from tests.search.steps import TICK, Part, settle, settled_tick
from tests.search.transactions import transact
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
        self.overdue: list[int] = []
        self.refusals = 0
        self.trace: list[str] = []
        for scope in bits(setting.listening):
            self.take(Label("enable", scope), crash=False)

    def walk(self, length: int) -> None:
        """Take so many steps at random."""
        for _ in range(length):
            self.world.advance(0)
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
        # Sightings of the last comparison are no part of the step.
        self.world.settle()
        before = self.world.passed["committed"]
        crashed = self.in_world(label, crash=crash and label.what != "lose sight")
        commits = self.world.passed["committed"] - before if crashed else -1
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
            parts = []
        else:
            assert not refused, f"only the world refuses: {self.trace}"
        self.follow(parts, commits, label)
        self.compare()

    def order(self) -> list[int]:
        """Return the slots as the ids of their operations are sorted."""
        new = open_operations(self.model, self.world)
        ids = {
            name: each.operation_id for name, each in (new | self.operations).items()
        }
        self.operations = new
        names = [slot.name for slot in self.model.slots]
        return sorted(range(len(names)), key=lambda slot: ids.get(names[slot], "~"))

    def in_model(self, label: Label, order: Sequence[int]) -> list[Part]:
        """Take a step in the model; raises the model's RefusedError."""
        if label == TICK:
            return settled_tick(self.model, self.state, order)
        after, log = transact(self.model, self.state, label, order)
        first = Part(label, self.state, after, log)
        return [first, *settle(self.model, after, [log], order)]

    def follow(self, parts: Sequence[Part], commits: int, label: Label) -> None:
        """Take over the parts that were committed; -1 is all of them."""
        if commits >= 0:
            parts = parts[: commits + (label == TICK)]
        ended: list[tuple[str, str]] = []
        for part in parts:
            self.state = part.after
            for scope in bits(part.after.listening):
                raised = part.log.raised >> scope & 1
                known = self.incarnations.get(scope, 0)
                if not part.before.listening >> scope & 1:
                    known = 1
                self.incarnations[scope] = known + raised
            ended += [
                (self.model.slots[slot].name, STATES[last].value)
                for slot, last, _ in part.log.ended
            ]
        self.overdue = self.missed(parts) if commits >= 0 and label == TICK else []

    def missed(self, parts: Sequence[Part]) -> list[int]:
        """Return what was due in a tick that ended in a crash, and not done."""
        seen = {part.label.first for part in parts}
        for part in parts:
            for _, companions, _ in part.log.released:
                seen.update(companions)
        renoticed = {part.label.first for part in parts if part.label.what == "anew"}
        ticked = parts[0].after
        labels_due = [due(self.model, ticked, slot) for slot in range(len(ticked.ops))]
        # A look does not put off the end of a hold.
        return [
            slot
            for slot, label in enumerate(labels_due)
            if label is not None
            and slot not in (renoticed if label.what == "anew" else seen)
        ]

    def catch_up(self) -> None:
        """Do in the model what a crash left overdue, as the next look does."""
        if not self.overdue:
            return
        missed, self.overdue = self.overdue, []
        order = self.order()
        self.trace.append("what the crash has left is done")
        for slot in order:
            label = due(self.model, self.state, slot) if slot in missed else None
            if label is not None:
                self.follow(self.in_model(label, order), -1, label)
        self.compare()

    def compare(self) -> None:
        """Compare every picture; a difference fails with both in full."""
        self.order()
        expected = of_model(self.model, self.state, self.incarnations)
        seen = of_world(self.model, self.world)
        if seen != expected:
            raise AssertionError("\n".join([*self.trace, *differences(seen, expected)]))
        again = [key for key, count in self.driver.begun.items() if count > 1]
        assert not again, f"the driver was called twice for {again}"
        made = {
            self.id_of(slot)
            for slot, op in enumerate(self.state.ops)
            if op is not None and op.call == MADE
        }
        assert made <= self.driver.under_way(), "a call is not under way"


def differences(seen: Picture, expected: Picture) -> list[str]:
    """Return what differs, a line each."""
    return [
        f"{part} {key}: the world has {real.get(key)}, the model {said.get(key)}"
        for part in ("ops", "vms", "documents")
        for real, said in [(getattr(seen, part), getattr(expected, part))]
        for key in sorted({*real, *said})
        if real.get(key) != said.get(key)
    ] + [f"down: {sorted(seen.down)}, {sorted(expected.down)}"]
