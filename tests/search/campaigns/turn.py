"""One transaction of the model: the twin of what changes a campaign.

The names are those of the code: `go_on` and `call_up` are those of `requests.rollouts`,
`withdraw` is `campaign_turns._withdraw`, `stage_ended` is `campaign_ends.stage_ended`. The
walks of `tests/search/campaigns/test_conformance.py` compare the two after each step.
"""

from forewarn.campaigns.lifecycle import CampaignInput
from forewarn.campaigns.record import HaltCause
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import HOSTS, RACKS
from tests.search.campaigns.state import (
    ANNOUNCED,
    DONE,
    FAILED,
    GROUP,
    HOST,
    READY,
    RECOVERING,
    SKIPPED,
    TAKE_TURN,
    TURN,
    WAITING,
    WORKING,
    Item,
    State,
    call,
    look,
    need,
)


class Turn:
    """The decisions and effects of one transaction."""

    def __init__(self, model: Model, state: State) -> None:
        self.model = model
        self.decisions = model.decisions
        self.course = state.course
        self.items = list(state.items)
        self.queue = list(state.queue)
        self.down = state.down
        self.cordons = state.cordons
        self.met = state.met
        self.blamed = state.blamed
        self.brake = state.brake
        self.hour = state.hour
        self.pending = state.pending

    def now(self) -> State:
        """Return the state as the transaction sees it."""
        return State(
            self.course,
            tuple(self.items),
            tuple(self.queue),
            self.down,
            self.cordons,
            self.met,
            self.blamed,
            self.brake,
            self.hour,
            self.pending,
        )

    def end(self) -> State:
        """Return the state after it; steps that would find nothing are none."""
        if self.pending <= TAKE_TURN:
            return self.now()
        for host, item in enumerate(self.items):
            if item.how != WAITING or (item.waits == TURN and not item.is_braked):
                self.pending &= ~call(host)
            is_due = item.is_in_flight and item.left == 0 and item.how != WORKING
            if item.how != READY and not is_due:
                self.pending &= ~look(host)
        return self.now()

    # Rollouts

    def take_turn(self) -> None:
        """Let the campaign continue after the commit."""
        self.pending |= TAKE_TURN

    def go_on(self) -> None:
        """Announce the next host, if it is its turn."""
        if self.course.has_ended or not self.prepare():
            return
        hosts = self.model.in_turn(self.now(), self.course)
        if not hosts:
            return
        if self.brake:
            self.items[hosts[0]] = self.items[hosts[0]]._replace(is_braked=True)
            return
        for host in hosts:
            waits = self.obstacle(host)
            if waits == TURN:
                self.announce(host)
                break
            self.items[host] = Item(WAITING, waits=waits)
        self.take_turn()

    def prepare(self) -> bool:
        """Take the turn of the campaign; return whether a host may be announced."""
        model, hour = self.model, self.hour
        if self.course.halt:
            self.course = self.course._replace(due=-1)
            self.withdraw()
            return False
        if model.may_advance(self.course, hour):
            self.course = self.decisions.next_stage(self.course, hour)
            self.stage_ended()
        elif self.decisions.needs_approval(self.course, hour):
            self.course = self.course._replace(is_asked=True)
        gate = model.gate(self.now(), self.course)
        due = -1
        if gate.look_at:
            due = (gate.look_at - self.decisions.now(hour)) // model.setting.tick
        self.course = self.course._replace(due=due)
        return gate.blocker is None

    def obstacle(self, host: int) -> int:
        """Return what a host must wait for."""
        if self.down >> host & 1:
            return HOST
        return GROUP if self.model.is_over_group(self.now(), host) else TURN

    def announce(self, host: int) -> None:
        """Announce a host, with a full notice."""
        self.items[host] = Item(ANNOUNCED, left=self.model.first_start(self.hour))
        self.course = self.course._replace(due=-1)

    def withdraw(self) -> None:
        """Withdraw the announcements of a halted campaign, and plan the hosts again."""
        for host in list(self.queue):
            if self.items[host].how in {ANNOUNCED, READY} and self.model.withdraws:
                self.withdrawn(host)

    def withdrawn(self, host: int) -> None:
        """Withdraw the announcement of a host, and plan it again."""
        self.queue.remove(host)
        self.plan_again(host)
        self.take_turn()
        self.freed(host)

    def plan_again(self, host: int) -> None:
        """Plan a host again, after the others of its stage."""
        self.items[host] = Item(WAITING)
        self.queue.append(host)

    def call_up(self, host: int) -> None:
        """Try to announce a skipped host again."""
        if self.items[host].how == WAITING:
            self.items[host] = Item(WAITING)
            self.go_on()

    # Starts

    def release(self, host: int) -> None:
        """Let an announced host start, unless something holds it."""
        is_held = self.model.is_held(self.now())
        self.items[host] = Item(READY if is_held else WORKING)
        if not is_held:
            self.met |= 1 << host

    def checked(self, host: int) -> None:
        """Check a host whose timer is due, or that is held."""
        item = self.items[host]
        if item.how == READY or (item.how == ANNOUNCED and item.left == 0):
            self.release(host)
        elif item.how == RECOVERING and item.left == 0:
            self.finished(host)

    # Ends

    def freed(self, host: int) -> None:
        """Check those that wait for a host, or for the budget of its rack."""
        for other in range(HOSTS):
            waits = self.items[other].waits
            is_free = waits == GROUP and RACKS[other] == RACKS[host]
            if self.model.wakes and (is_free or (waits == HOST and other == host)):
                self.pending |= call(other)

    def finished(self, host: int) -> None:
        """End the operation of a host as done."""
        self._ends(host, DONE)
        self.cordons &= ~(1 << host)
        self.course = self.decisions.done(self.course, self.hour)
        self._counted()

    def cancelled(self, host: int) -> None:
        """End an operation that has not started: its host is skipped."""
        self._ends(host, SKIPPED)
        stage = max(self.model.stage_of(host), self.course.stage)
        self.course = self.model.skipped(self.course, self.hour, host, stage)
        self._counted()

    def broken(self, host: int) -> None:
        """End a started operation as failed: its host takes no new VM."""
        self._ends(host, FAILED)
        if self.model.cordons:
            self.cordons |= 1 << host
        was_halted = self.course.halt
        self.course = self.model.failed(self.course, self.hour, host)
        if self.course.halt and not was_halted:
            self.take_turn()
        self._counted()

    def given_up(self, host: int) -> None:
        """Skip a host that had failed."""
        self.items[host] = Item(SKIPPED)
        stage = self.course.stage
        self.course = self.model.skipped(self.course, self.hour, host, stage)
        self.freed(host)
        self._counted()

    def _ends(self, host: int, how: int) -> None:
        was_planned = self.items[host].how == WAITING
        if self.items[host].is_braked:
            self.take_turn()
        self.items[host] = Item(how)
        self.queue.remove(host)
        if not was_planned:
            self.take_turn()
            self.freed(host)

    def _counted(self) -> None:
        self.stage_ended()
        self.close()

    def stage_ended(self) -> None:
        """Begin the soak if the current stage is over."""
        course = self.course
        is_over = self.decisions.is_stage_over(course, self.hour)
        if is_over and course.soak < 0 and not course.has_ended:
            soak = self.model.setting.stages[course.stage - 1].soak
            self.course = course._replace(soak=soak, due=soak)
            self.take_turn()

    def close(self) -> None:
        """End the campaign if nothing is left to do."""
        is_left = self.queue or (self.course.failed and not self.course.has_ended)
        if not is_left and not self.course.has_ended:
            done = self.decisions.step(self.course, CampaignInput.FINISH)
            self.course = done._replace(due=-1, pauses=0)
            self.take_turn()

    # Halts

    def free_held(self) -> None:
        """Check the approved hosts that something has held."""
        for host, item in enumerate(self.items):
            if item.how == READY and self.model.wakes:
                self.pending |= look(host)

    def halt(self, cause: HaltCause) -> None:
        """Halt the campaign."""
        need(so=not self.course.halt and not self.course.has_ended)
        halted = self.decisions.step(self.course, CampaignInput.HALT)
        is_kept = halted.is_approved and self.model.keeps_approval
        self.course = halted._replace(
            halt=cause.value,
            due=-1,
            is_approved=is_kept,
            is_asked=halted.is_asked and not halted.is_approved,
        )
        self.take_turn()

    def lost(self, host: int) -> None:
        """Count the VM of a host that went down, and halt above the limit."""
        if self.course.has_ended or not self.met >> host & 1:
            return
        self.blamed |= 1 << host
        most = self.decisions.vms_down_max(self.course, self.hour)
        if most is not None and not self.course.halt and self.blamed.bit_count() > most:
            self.halt(HaltCause.VMS_DOWN)
