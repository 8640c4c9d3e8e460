"""Invariants of every part of a step: starts, approvals, ends, crashes."""

from collections.abc import Sequence
from typing import TypeAlias

from forewarn.protocol.operations import Action
from tests.search.invariants import BrokenError, unsteady
from tests.search.model import Model
from tests.search.state import (
    ANNOUNCED,
    CANCELLED,
    DONE,
    FAILED,
    GONE,
    IMPACTING,
    MADE,
    READY,
    RECOVERING,
    RETRY,
    Op,
    State,
    Vm,
    bits,
    place_of,
)
from tests.search.steps import Part

Changes: TypeAlias = list[tuple[int, Op | None, Op | None]]
"""The slots that changed, with their operations before and after."""


class OfSteps:
    """The invariants of steps, in one world."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.slots = model.slots
        self.routine = [slot.routine for slot in model.slots]
        # Deletions do not recover, and failures have no call.
        self._recovers = [
            slot.action not in {Action.DELETE, Action.NONE} for slot in model.slots
        ]
        self.checked = 0

    def check(self, part: Part) -> None:
        """Raise BrokenError if an invariant of steps does not hold."""
        self.checked += 1
        old, new, log = part.before, part.after, part.log
        if log.started:
            for slot, moment in log.started:
                self._s2(slot, moment)
        if log.released:
            for slot, companions, moment in log.released:
                self._s3(slot, companions, moment)
        if log.begun:
            self._begun(part)
        changed: Changes = []
        if old.ops is not new.ops:
            changed = [
                (slot, before, after)
                for slot, (before, after) in enumerate(
                    zip(old.ops, new.ops, strict=True)
                )
                if before is not after
            ]
            self._forward(part, changed)
        for slot, moment in log.started:
            self._s3_start(slot, moment)
        step = part.label.what
        if step == "approve":
            self._s4(part, changed)
        elif step == "crash" or step.startswith("restart"):
            self._s11_durable(old, new)
        self._s8(part, changed)

    def _s2(self, slot: int, moment: State) -> None:
        """S2: nothing routine starts while another fault domain is down."""
        if not self.routine[slot]:
            return
        own = moment.ops[slot]
        assert own is not None
        for members in self.model.members:
            own_vms = own.vms & members
            if not own_vms:
                continue
            domains = {self.model.domain_of[vm] for vm in bits(own_vms)}
            for vm in unsteady(moment, slot, members):
                if domains != {self.model.domain_of[vm]}:
                    raise BrokenError(
                        "S2", f"{self.slots[slot].name} starts while v{vm} is down"
                    )

    def _s3(self, slot: int, companions: tuple[int, ...], moment: State) -> None:
        """S3: nothing goes before NotBefore that is not approved by everybody.

        Deletions of one order wait for each other (3.6).
        """
        must = {slot, *companions}
        if self.slots[slot].together:
            must |= {
                sibling
                for sibling in self.model.group[self.slots[slot].group]
                if (op := moment.ops[sibling]) is not None and op.state <= READY
            }
        for operation in must:
            op = moment.ops[operation]
            assert op is not None
            if op.left > 0 and op.events & ~op.approved:
                raise BrokenError("S3", f"{self.slots[operation].name} goes too early")
            if op.notice > 0 and op.events & ~op.approved:
                name = self.slots[operation].name
                raise BrokenError("S3", f"a step of the clock cuts short {name}")

    def _s3_start(self, slot: int, moment: State) -> None:
        """S3: nothing starts before its NotBefore that is not approved by everybody.

        The clock may have been set back after NotBefore let it go.
        """
        op = moment.ops[slot]
        assert op is not None
        if op.left > 0 and op.events & ~op.approved:
            raise BrokenError("S3", f"{self.slots[slot].name} starts too early")

    def _s4(self, part: Part, changed: Changes) -> None:
        """S4, S5: an approval is for one event, and late ones do nothing."""
        scope, slot = part.label.first, part.label.second
        for number, before, after in changed:
            if before is None:
                continue
            if number == slot:
                if before.state >= IMPACTING:
                    raise BrokenError("S5", "a late approval changes something")
                if not before.events >> scope & 1:
                    raise BrokenError("S4", "a foreign VM's approval counts")
                new = (after.approved & ~before.approved) if after else 0
                if new & ~(1 << scope):
                    raise BrokenError("S4", "an approval covers another scope's event")
            elif after is not None and after.approved & ~before.approved:
                raise BrokenError("S4", "an approval covers another operation's event")

    def _forward(self, part: Part, changed: Changes) -> None:
        """S6, S7, S11, S12: operations and events go forward, and none is lost."""
        log = part.log
        ended = {slot: last for slot, last, _ in log.ended}
        for slot, before, after in changed:
            name = self.slots[slot].name
            if slot in log.born:
                born = slot in ended or before is None
                if not born:
                    raise BrokenError("S7", f"{name} has two operations")
                if after is not None and after.state <= READY:
                    self._s6_notice(part, slot, after)
                continue
            if before is None:
                raise BrokenError("S7", f"{name} comes back from the dead")
            if after is None:
                self._ended(slot, before, ended.get(slot), part.after.vms)
                continue
            self._on(name, before, after)
            self._time(part, name, before, after)

    def _on(self, name: str, before: Op, after: Op) -> None:
        """S6, S7, S11: an open operation continues, and takes nothing back."""
        if after.state < before.state:
            raise BrokenError("S7", f"{name} goes backwards")
        if after.events & ~before.events:
            raise BrokenError("S7", f"{name} has an event again")
        if after.vms & ~before.vms:
            raise BrokenError("S7", f"{name} has more resources")
        if (
            after.state == before.state == ANNOUNCED
            and before.approved & ~after.approved & after.events
        ):
            raise BrokenError("S11", f"{name} forgets an approval")

    def _time(self, part: Part, name: str, before: Op, after: Op) -> None:
        """S6, S14: NotBefore stays where it is, and every duration what it was."""
        step = part.label.what
        ticks = step == "tick"
        wall = part.before.ahead - part.after.ahead
        by = wall * self.model.setting.clock_step
        if after.state == before.state == ANNOUNCED:
            least = -part.before.ahead * self.model.setting.clock_step
            if after.left != before.left + by - (ticks and before.left > least):
                raise BrokenError("S6", f"{name} moves its NotBefore")
            is_new = step.startswith("restart")
            left = before.notice - (ticks and before.notice > 0)
            if not is_new and after.notice != left:
                raise BrokenError("S14", f"{name} has another notice after {step}")
        lasts = (after.state, after.call) == (before.state, before.call)
        if lasts and wall and self._recovers_or_retries(after):
            if step.startswith("clock") and after.left != before.left:
                raise BrokenError("S14", f"{name} lasts otherwise after {step}")
            if after.left > self._longest(after):
                raise BrokenError("S14", f"{name} lasts longer than ever after {step}")

    def _recovers_or_retries(self, op: Op) -> bool:
        return op.state == RECOVERING or op.call == RETRY

    def _longest(self, op: Op) -> int:
        return self.model.setting.recovery if op.state == RECOVERING else 1

    def _s6_notice(self, part: Part, slot: int, op: Op) -> None:
        """S6: every VM that needs a notice gets it early enough."""
        least = self.model.setting.notice if op.events else 0
        if op.left < least and op.state == ANNOUNCED:
            raise BrokenError("S6", f"{self.slots[slot].name} has too little notice")
        if part.label.what == "look" and op.approved:
            raise BrokenError("S6", "an approval of an old event counts for a new one")

    def _ended(
        self, slot: int, before: Op, last: int | None, vms: Sequence[Vm]
    ) -> None:
        """S11, S12: an end is one of three, and comes when the impact is over."""
        name = self.slots[slot].name
        if last is None:
            raise BrokenError("S11", f"{name} is lost")
        if last not in {DONE, CANCELLED, FAILED}:
            raise BrokenError("S12", f"{name} ended as {last}")
        if last == CANCELLED and before.state >= IMPACTING:
            raise BrokenError("S12", f"{name} is cancelled after its start")
        over = last != DONE or before.state != IMPACTING or not self._recovers[slot]
        # Nothing is over in its impact, unless its VMs were deleted meanwhile.
        if not over and any(vms[vm].how != GONE for vm in bits(before.vms)):
            raise BrokenError("S12", f"{name} ends in its impact")

    def _begun(self, part: Part) -> None:
        """S10, S11: a call follows Started and its publication, and comes once."""
        for slot, moment in part.log.begun:
            op = moment.ops[slot]
            name = self.slots[slot].name
            if op is None or op.state != IMPACTING:
                raise BrokenError("S10", f"{name} is called before it has started")
            if op.call == MADE:
                raise BrokenError("S11", f"{name} is called twice")
            if moment.unpublished & op.events:
                raise BrokenError("S10", f"{name} is called before it is served")
            for vm in bits(self.model.current(slot, op)):
                host = place_of(op.places, vm)
                if host >= 0 and moment.down >> host & 1:
                    raise BrokenError("S10", f"{name} goes to h{host}, which is down")

    def _s8(self, part: Part, changed: Changes) -> None:
        """S8: the incarnation rises exactly when the document changes."""
        scopes = 0
        for slot, before, after in changed:
            scopes |= self._shows_otherwise(before, after, slot in part.log.born)
        scopes &= part.before.listening & part.after.listening
        raised = part.log.raised & part.before.listening
        if scopes != raised:
            raise BrokenError(
                "S8", f"scopes {bits(scopes)} change, numbers rise in {bits(raised)}"
            )

    def _shows_otherwise(self, before: Op | None, after: Op | None, born: bool) -> int:
        """Return the scopes in which an event comes, goes, starts or shrinks."""
        old, new = before.events if before else 0, after.events if after else 0
        if before is None or after is None or born:
            return old | new
        if (before.state >= IMPACTING) != (after.state >= IMPACTING):
            return old | new
        return (old ^ new) | (self.model.scopes(before.vms ^ after.vms) & old)

    def _s11_durable(self, old: State, new: State) -> None:
        """S11: a crash loses nothing that was committed."""
        same = old.vms == new.vms and old.down == new.down
        same = same and old.requests == new.requests
        for before, after in zip(old.ops, new.ops, strict=True):
            if before is None or after is None:
                same = same and before is after
            else:
                unchanged = after._replace(
                    call=before.call, left=before.left, notice=before.notice
                )
                same = same and before == unchanged
        if not same or old.listening != new.listening:
            raise BrokenError("S11", "a crash loses what was committed")
