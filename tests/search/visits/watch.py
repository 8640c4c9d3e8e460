"""The rules of visits, checked at every commit, together with those of campaigns.

It is written from the rules, reads the stored rows, and shares no code with the service.
"""

from forewarn.campaigns.record import CampaignRecord
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import WAITING_STATES, OperationState
from forewarn.protocol.visits import StepOutcome, Visit, VisitState
from forewarn.store.records import Brake
from tests.search.visits.settings import Setting
from tests.support.moments import Moment
from tests.support.watched import Mirror

_ENDS = {VisitState.FAILED, VisitState.UNKNOWN, VisitState.SKIPPED}
_IN_WORK = (
    VisitState.ENTERING,
    VisitState.DRAINING,
    VisitState.WORKING,
    VisitState.ANSWERING,
    VisitState.RESTORING,
    VisitState.VERIFYING,
    VisitState.EXITING,
)
"""The phases of the work, in their order."""
_STEP_BEFORE = {
    VisitState.DRAINING: StepKind.ENTER,
    VisitState.VERIFYING: StepKind.WORK,
    VisitState.EXITING: StepKind.VERIFY,
    VisitState.DONE: StepKind.EXIT,
}
"""The step that must have been done before a phase."""


class VisitWatch:
    """Judges the visits of one campaign."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def committed(self, moment: Moment) -> None:
        """Judge a commit."""
        for change in moment.changes:
            if isinstance(change.after, Visit):
                before = change.before
                assert before is None or isinstance(before, Visit)
                if before is None or before.state is not change.after.state:
                    self._went(moment, before, change.after)
        for visit in moment.mirror.table(Visit).values():
            if visit.state in _IN_WORK or visit.state is VisitState.FAILED:
                cordons = moment.mirror.hosts[visit.host].cordons
                assert cordons, f"K4: {visit} is in work, and takes VMs"
        self._in_flight(moment)
        self._braked(moment)

    def settled(self, mirror: Mirror) -> None:
        """Judge a state in which the service has nothing left to do."""
        [campaign] = mirror.table(CampaignRecord).values()
        hosts = [
            x.host for x in mirror.operations.values() if x.state in WAITING_STATES
        ]
        if campaign.halt is not None:
            assert not hosts, f"K3: {hosts} are still announced: {campaign}"

    def _braked(self, moment: Moment) -> None:
        """K1, K3: under the brake, no host is announced or started."""
        if not moment.mirror.table(Brake):
            return
        for before, after in moment.changed():
            was_told = before is not None and before.state is not OperationState.PLANNED
            is_told = after.state in WAITING_STATES and not was_told
            assert not is_told, f"K1: {after} is announced under the brake"
        started = list(moment.started())
        assert not started, f"K3: {started} started under the brake"

    def _went(self, moment: Moment, before: Visit | None, after: Visit) -> None:
        """A visit goes through its phases in their order, and skips none of its steps."""
        was = None if before is None else before.state
        if was in _IN_WORK and after.state in _IN_WORK:
            is_back = after.is_deferred and after.state is VisitState.EXITING
            forward = _IN_WORK.index(after.state) > _IN_WORK.index(was)
            assert forward or is_back, f"phases: {before}, {after}"
        if after.is_deferred or after.state in {*_ENDS, VisitState.DEFERRED}:
            return
        kind = _STEP_BEFORE.get(after.state)
        if kind is not None and kind in self.setting.steps:
            result = after.result(kind)
            is_done = result is not None and result.outcome is StepOutcome.DONE
            assert is_done, f"phases: {after} comes without {kind}"
        if after.state is VisitState.WORKING and self.setting.impact == "live-migrate":
            there = [vm.name for vm in moment.mirror.live_vms if vm.host == after.host]
            assert not there, f"phases: {there} are on {after.host}, which is in work"

    def _in_flight(self, moment: Moment) -> None:
        """K2: a visit is in flight until it has ended, whatever its operation says."""
        hosts = {
            visit.host
            for visit in moment.mirror.table(Visit).values()
            if visit.state in _IN_WORK
        }
        most = self.setting.in_flight
        assert len(hosts) <= most, f"K2: {sorted(hosts)} are in work, and {most} may be"
        if self.setting.rack_most:
            racks = [moment.mirror.hosts[host].rack for host in hosts]
            used = max(map(racks.count, racks), default=0)
            assert used <= self.setting.rack_most, f"K1: {sorted(hosts)} of one rack"
