"""`kill -9` of a running campaign in each phase of a host: its work runs exactly once.

The program of a phase waits for a signal to continue, so each kill hits its phase. Like
a hypervisor, the programs are not killed.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.protocol.operations import OperationState
from forewarn.protocol.visits import ENTERED_VISITS, Visit, VisitState
from tests.support.processes import eventually
from tests.support.profiles import some
from tests.system.racks import NEW, STEPS, TIMES, Racks, twice

pytestmark = [pytest.mark.system, pytest.mark.slow]

CAMPAIGNS = range(5)
"""Campaigns to kill. The first has one host with a VM, and every other has five: 105
kills in all, 21 in each phase."""

LATE_SECONDS = 0.05
"""Maximum time from the end of a program to the kill that may come before its report."""

PHASES = {
    "enter": VisitState.ENTERING,
    "drain": VisitState.DRAINING,
    "work": VisitState.WORKING,
    "verify": VisitState.VERIFYING,
    "exit": VisitState.EXITING,
}

ONE_STAGE = '[[campaign.stage]]\nhosts = "100%"\n'


class Killing:
    """A campaign whose service dies in each phase of each host that has a VM."""

    def __init__(self, racks: Racks, seed: int) -> None:
        self.racks = racks
        self.rng = Random(seed)
        self.kills: Counter[str] = Counter()
        self.told: dict[str, set[str]] = {}
        """The EventIds that each VM has seen."""
        self.done = 0

    def run(self) -> None:
        racks = self.racks
        racks.begin()
        for host in racks.hosts[1:]:
            for step in STEPS:
                racks.hold(step, host)
        assert racks.start(stages=ONE_STAGE)["hosts"] == len(racks.hosts)
        for host in self._order():
            for step in STEPS:
                self.kill_in(step, host)
        assert racks.wait_for("Done")["done"] == len(racks.hosts)
        self.listen()
        racks.services[-1].kill()
        self.check_end()

    def _order(self) -> list[str]:
        """Return the hosts with a VM, in the order of the campaign."""
        operations = self.racks.services[-1].admin("/v1/operations")["operations"]
        return [
            operation["host"] for operation in operations if operation["host"] != "h0"
        ]

    def kill_in(self, step: str, host: str) -> None:
        """Kill the service while the program of a step waits, or just after its end."""
        racks = self.racks
        racks.wait_held(step, host)
        self.listen()
        is_late = self.rng.random() < 1 / 3
        if is_late:
            racks.release(step, host)
            threading.Event().wait(self.rng.uniform(0, LATE_SECONDS))
        racks.services[-1].kill()
        self.kills[step] += 1
        self.check_store(step, host, is_late=is_late)
        ends_meanwhile = not is_late and self.rng.random() < 1 / 2
        if ends_meanwhile:
            racks.release(step, host)
            eventually(lambda: self._has_ended(step, host), bool, what="the end")
        racks.begin()
        self.listen()
        if not is_late and not ends_meanwhile:
            racks.release(step, host)

    def _has_ended(self, step: str, host: str) -> bool:
        lines = self.racks.journal()
        return any((x.what, x.step, x.host) == ("done", step, host) for x in lines)

    def listen(self) -> None:
        """Let each VM read its document."""
        service = self.racks.services[-1]
        for number in range(1, len(self.racks.hosts)):
            events = service.document(f"vm_{number}")["Events"]
            known = self.told.setdefault(f"vm_{number}", set())
            known.update(event["EventId"] for event in events)

    def check_store(self, step: str, host: str, *, is_late: bool) -> None:
        """Check the store of the killed service."""
        rows = self.racks.stored()
        [campaign] = rows.table(CampaignRecord).values()
        # On a busy machine, the last host can be done before the service is killed.
        is_over = is_late and step == "exit" and campaign.state is CampaignState.DONE
        assert is_over or campaign.state is CampaignState.RUNNING
        assert campaign.done >= self.done, "a host that was done is lost"
        self.done = campaign.done
        visits = rows.table(Visit).values()
        [visit] = [visit for visit in visits if visit.host == host]
        assert is_late or visit.state is PHASES[step], (step, visit)
        inside = [visit.host for visit in visits if visit.state in ENTERED_VISITS]
        assert len(inside) <= 1, f"{inside} are in flight, and the budget is 1"
        calls = {visit.visit_id: visit.generation for visit in visits}
        calls |= {
            name: operation.generation
            for name, operation in rows.operations.items()
            if operation.started_at
        }
        lines = self.racks.journal()
        assert not twice(lines), "a program ran twice for one call"
        for line in lines:
            name, _, generation = line.call.partition("/")
            assert int(generation) <= calls[name], (
                f"{line} ran before its call was stored"
            )

    def check_end(self) -> None:
        """Check the journal and the store after the campaign."""
        racks, rows = self.racks, self.racks.stored()
        wanted = Counter(
            {
                (phase, step, host): TIMES if step == "verify" else 1
                for phase in ("begun", "done")
                for step in STEPS
                for host in racks.hosts
                if (step, host) != ("drain", "h0")
            }
        )
        ran = Counter((x.what, x.step, x.host) for x in racks.journal())
        assert ran == wanted, "the work of each host runs exactly once"
        assert set(racks.firmware().values()) == {NEW}
        # One announcement for each host, and one event for each VM.
        assert sorted(x.host for x in rows.operations.values()) == sorted(racks.hosts)
        states = {x.state for x in rows.operations.values() if x.host != "h0"}
        assert states == {OperationState.DONE}
        assert {visit.state for visit in rows.table(Visit).values()} == {
            VisitState.DONE
        }
        of_vms = {
            name: {
                event.key for event in rows.events.values() if event.scope == vm.scope
            }
            for name, vm in rows.vms.items()
        }
        assert {len(events) for events in of_vms.values()} == {1}
        assert self.told == of_vms, "a VM saw its event, and no other"
        assert not [name for name, host in rows.hosts.items() if host.cordons]
        assert set(self.kills.values()) == {len(racks.hosts) - 1}, self.kills


@pytest.fixture
def killing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Killing]:
    number = request.param
    hosts = 2 if number == CAMPAIGNS[0] else 6
    new_killing = Killing(Racks(tmp_path, hosts), seed=number)
    yield new_killing
    new_killing.racks.end()


@pytest.mark.parametrize(
    "killing", some(CAMPAIGNS, usual=[CAMPAIGNS[0]]), indirect=True
)
def test_a_campaign_survives_a_kill_in_each_phase(killing: Killing) -> None:
    killing.run()
