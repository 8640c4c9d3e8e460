"""Invariants of a campaign in every state and of every step: K1 to K10.

It is written from the rules of campaigns, counts by itself, and shares no code with the
model's steps or with the product. `docs/explanation/verification.md` says it in words.
"""

from collections.abc import Iterator

from tests.search.campaigns.model import Model, names
from tests.search.campaigns.settings import HOSTS, RACKS
from tests.search.campaigns.state import (
    ANNOUNCED,
    DONE,
    FAILED,
    GROUP,
    HOST,
    HOW,
    READY,
    SKIPPED,
    WAITING,
    WORKING,
    Course,
    State,
)
from tests.search.campaigns.transactions import Step, settled
from tests.search.invariants import BrokenError


class Watch:
    """The rules of campaigns, in one world."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.setting = model.setting
        self.checked = 0

    # Steps

    def of_step(self, before: State, step: Step) -> None:
        """Judge a step; raises BrokenError."""
        self.checked += 1
        what, first = step.label
        after = step.after
        for host, (old, new) in enumerate(zip(before.items, after.items, strict=True)):
            if new.how == ANNOUNCED and old.how != ANNOUNCED:
                self._announced(before, after, host)
            if new.how == WORKING and old.how != WORKING:
                self._started(before, after, host)
        self._counts(before.course, after.course)
        self._k4_opened(before, after, what)
        self._k6_pauses(before.course, after.course, what, first)
        if what == "swap":
            self._k10(before, after)

    def _announced(self, before: State, after: State, host: int) -> None:
        """K1, K2, K3: it runs, its stage has begun, and every budget was free."""
        setting, course = self.setting, after.course
        if before.course.halt or course.halt or course.has_ended or course.pauses:
            raise BrokenError("K3", f"h{host} is announced: {course.state}")
        if before.brake:
            raise BrokenError("K1", f"h{host} is announced under the brake")
        if self.model.stage_of(host) > course.stage:
            raise BrokenError("K1", f"h{host} is of a later stage")
        if before.down >> host & 1:
            raise BrokenError("K1", f"h{host} is down")
        most = max(1, min(course.ramp, setting.in_flight) - course.failed.bit_count())
        if after.in_flight > most:
            raise BrokenError("K2", f"{after.in_flight} in flight, and {most} may be")
        used = _at_rack(after, RACKS[host])
        if setting.rack_most and len(used) > setting.rack_most:
            raise BrokenError("K1", f"{names(used)} of one rack")
        away = [host_ for host_ in _away(after) if host_ != host]
        if setting.unavailable and len(away) >= setting.unavailable:
            raise BrokenError("K1", f"{names(away)} are away")
        self._k1_window(after, host)

    def _k1_window(self, after: State, host: int) -> None:
        """The work begins in the window after a full notice, and ends before it closes."""
        setting = self.setting
        left = after.items[host].left
        if left < setting.notice:
            raise BrokenError("K1", f"h{host} has a notice of {left}")
        if setting.length:
            into = (after.hour + left - setting.opens) % setting.day
            if into + setting.slow > setting.length:
                raise BrokenError("K1", f"h{host} does not fit in the window")

    def _started(self, before: State, after: State, host: int) -> None:
        """K3, K9: no start of a halted campaign, nor of one that does not fit in a window."""
        if before.course.halt:
            raise BrokenError("K3", f"h{host} started, and the campaign is halted")
        if before.brake:
            raise BrokenError("K3", f"h{host} started under the brake")
        if before.items[host].how not in {ANNOUNCED, READY}:
            raise BrokenError("K1", f"h{host} started without a notice")
        setting = self.setting
        into = (after.hour - setting.opens) % setting.day
        if setting.length and into + setting.slow > setting.length:
            raise BrokenError("K9", f"h{host} started, and does not fit in the window")

    def _counts(self, before: Course, after: Course) -> None:
        """2.6: what halts, how the ramp grows, and when a stage is approved and begins."""
        if after.is_approved and ((after.halt and not before.halt) or after.stage_left):
            raise BrokenError("2.6", f"stage {after.stage + 1} is approved: {after}")
        if after.stage != before.stage:
            self._stage(before, after)
        elif after.ramp > before.ramp and before.ramp_done + 1 < before.ramp:
            raise BrokenError("K2", f"the ramp grows early, to {after.ramp}")
        is_resumed = before.state in {"Paused", "Halted"} and after.state == "Running"
        if is_resumed and after.ramp != 1:
            raise BrokenError("K2", f"it is resumed with {after.ramp} in flight")
        new = after.failed & ~before.failed
        if not new or before.halt or before.has_ended or after.has_ended:
            return
        last = (before.outcomes + "f")[-self.setting.of_last :]
        is_over = (
            before.stage < len(self.setting.stages)
            or last.count("f") > self.setting.failures
            or len(last) - len(last.rstrip("f")) > self.setting.in_a_row
        )
        if is_over and not after.halt:
            raise BrokenError("2.6", f"{names(new)} failed after {before.outcomes!r}")

    def _stage(self, before: Course, after: Course) -> None:
        """2.6: a stage begins when the one before it is done, soaked and approved."""
        term = self.setting.stages[before.stage - 1]
        if before.soak != 0 or before.stage_left:
            raise BrokenError("2.6", f"stage {after.stage} begins before the soak")
        if term.approval and not before.is_approved:
            raise BrokenError("2.6", f"stage {after.stage} was not approved")
        if before.state != "Running":
            raise BrokenError("K3", f"stage {after.stage} begins: {before.state}")
        if after.ramp != 1:
            raise BrokenError("K2", f"stage {after.stage} begins with {after.ramp}")

    def _k4_opened(self, before: State, after: State, what: str) -> None:
        """K4: only the end of the work, or a person, opens a host that has failed."""
        for host in range(HOSTS):
            was, is_ = before.cordons >> host & 1, after.cordons >> host & 1
            is_allowed = after.items[host].how == DONE or what == "open host"
            if was and not is_ and not is_allowed:
                raise BrokenError("K4", f"h{host} failed, and is opened")

    def _k6_pauses(self, before: Course, after: Course, what: str, who: int) -> None:
        """K6: no operator ends the pause of another, unless they say so."""
        ended = before.pauses & ~after.pauses
        if after.has_ended or not ended:
            return
        allowed = {3: ended}.get(who, 1 << who) if what == "resume" else 0
        if ended & ~allowed:
            raise BrokenError("K6", f"pauses {ended:b} ended by {what} {who}")

    # States

    def of_state(self, state: State) -> None:
        """Judge a state; raises BrokenError."""
        course = state.course
        if state.in_flight > self.setting.in_flight:
            raise BrokenError("K2", f"{state.in_flight} hosts are in flight")
        if course.failed & ~state.cordons:
            raise BrokenError("K4", f"{names(course.failed)} failed, and take VMs")
        self._k5(state)
        self._k6_state(course)
        self._k7_counts(state)
        if not state.pending:
            self._quiet(state)

    def _k5(self, state: State) -> None:
        """K5: another campaign may have a host only when it has ended here."""
        for host, item in enumerate(state.items):
            is_left = item.how not in {DONE, SKIPPED} and not (
                state.course.has_ended and item.how == FAILED
            )
            # Work that continues after an abort keeps its host by its operation.
            if state.course.has_ended and item.is_open:
                continue
            if is_left and self.model.may_have(state, host):
                raise BrokenError("K5", f"h{host} may be in two campaigns")

    def _k6_state(self, course: Course) -> None:
        is_stopped = bool(course.pauses or course.halt)
        if course.state == "Running" and is_stopped:
            raise BrokenError("K6", "it runs, and somebody stops it")
        if course.state == "Paused" and (course.halt or not course.pauses):
            raise BrokenError("K6", "it is paused, and nobody pauses it")
        if (course.state == "Halted") != bool(course.halt) and not course.has_ended:
            raise BrokenError("K6", f"it is {course.state}: {course.halt}")

    def _k7_counts(self, state: State) -> None:
        """K7: each host is in one place, and the counts say so."""
        course, how = state.course, [item.how for item in state.items]
        counted = course.done, course.skipped, course.failed.bit_count()
        ended = how.count(DONE), how.count(SKIPPED), how.count(FAILED)
        if counted != ended:
            raise BrokenError("K7", f"{counted} are counted, and {ended} have ended")
        if course.state == "Done" and how.count(DONE) + how.count(SKIPPED) != HOSTS:
            raise BrokenError(
                "K7", f"it is done with {[HOW[course] for course in how]}"
            )
        left = sum(
            each not in {DONE, SKIPPED}
            for host, each in enumerate(how)
            if self.model.stage_of(host) == course.stage
        )
        if not course.has_ended and course.stage_left != left:
            raise BrokenError(
                "K7", f"{course.stage_left} of the stage left, not {left}"
            )

    # States in which the service has nothing left to do

    def _quiet(self, state: State) -> None:
        course = state.course
        announced = [
            host
            for host, item in enumerate(state.items)
            if item.how in {ANNOUNCED, READY}
        ]
        if course.halt and announced:
            raise BrokenError("K3", f"{names(announced)} are still announced")
        for host, item in enumerate(state.items):
            if item.how == WAITING and not self._why_waits(state, host):
                raise BrokenError("K7", f"nothing keeps h{host}, and it waits")
        if not self.setting.unavailable:
            self._k8(state)

    def _why_waits(self, state: State, host: int) -> bool:
        """Return whether a waiting host has a reason, which `campaign show` lists."""
        item = state.items[host]
        if item.waits == HOST:
            return bool(state.down >> host & 1)
        gate = self.model.gate(state, state.course)
        if _is_stopped(state) or gate.blocker is not None:
            return True
        if self.setting.unavailable and state.course.due > 0:
            # Hosts come back for many reasons, and a timer asks for them.
            return True
        if item.waits == GROUP:
            return len(_at_rack(state, RACKS[host])) >= self.setting.rack_most
        return host not in self.model.in_turn(state, state.course)

    def _k8(self, state: State) -> None:
        """K8: what is announced follows from the store, not from the memory of a process.

        A service that restarts at this moment announces and starts the same.
        """
        again = settled(self.model, self.model.restarted(state))
        if _told(again) != _told(state):
            raise BrokenError("K8", f"a restart announces {names(_new(state, again))}")

    def _k10(self, before: State, after: State) -> None:
        """K10: as many hosts are announced, whichever of two equals is first."""
        counts = [
            settled(self.model, state).in_flight - state.in_flight
            for state in (before, after)
        ]
        if counts[0] != counts[1]:
            raise BrokenError("K10", f"{counts} hosts are announced, by the order")


def _is_stopped(state: State) -> bool:
    return bool(state.brake or state.course.halt or state.course.pauses)


def _at_rack(state: State, rack: int) -> list[int]:
    """Return the hosts of a rack that are in flight, failed or down."""
    return [
        host
        for host, item in enumerate(state.items)
        if RACKS[host] == rack
        and (item.is_in_flight or item.how == FAILED or state.down >> host & 1)
    ]


def _away(state: State) -> Iterator[int]:
    for host, item in enumerate(state.items):
        if item.is_in_flight or (state.down | state.cordons) >> host & 1:
            yield host


def _told(state: State) -> list[int]:
    """Return how far each host is, as far as its tenants see it."""
    return [item.how for item in state.items]


def _new(before: State, after: State) -> list[int]:
    pairs = zip(_told(before), _told(after), strict=True)
    return [host for host, (old, new) in enumerate(pairs) if old != new]
