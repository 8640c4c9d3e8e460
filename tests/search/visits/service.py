"""The service with a campaign that visits hosts: what can happen now, and what is stored.

The real service runs, so the search needs no model of visits. A process is forked for
each step, which is the cheapest copy of a whole service.
"""

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import brake, campaigns
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.drivers.port import Call, Report, Verdict
from forewarn.instants import DAY, MINUTE
from forewarn.protocol.host_steps import StepKind, StepRules
from forewarn.protocol.operations import ENDED_STATES, Operation
from forewarn.protocol.visits import Visit
from forewarn.settings.amounts import Amount
from forewarn.store.records import BRAKE_KEY, Brake
from tests.search.hand import HandDriver
from tests.search.side import NEVER, KeptStore
from tests.search.visits.settings import Setting
from tests.search.visits.watch import VisitWatch
from tests.support.campaign_watcher import CampaignWatcher
from tests.support.campaigns import start
from tests.support.moments import Moment
from tests.support.watched import Change, Mirror, WatchedStore
from tests.support.worlds import World

NAME = "bios"
WAIT_MAX = DAY
"""Maximum time until something comes by itself; later, only rows are deleted."""
FAIR = ("done", "approve", "brake off", "resume", "skip", "wait")
"""Steps that come by themselves, or that are pending; the first comes first (K7)."""


class Label(NamedTuple):
    """A step, for a trace: what happens, and to which host."""

    what: str
    host: int = -1

    def __str__(self) -> str:
        """Return what it says to a person."""
        return self.what if self.host < 0 else f"{self.what} h{self.host}"


class StepDriver(HandDriver):
    """A hypervisor that runs host steps too."""

    def host_steps(self) -> StepRules:
        return StepRules(takes_any=True)

    def calls(self) -> list[Call]:
        """Return the calls that have not ended, by host."""
        calls = [self._calls[key].call for key in self.under_way()]
        return sorted(calls, key=lambda call: (call.host, call.operation_id))

    def end_as(self, call: Call, verdict: Verdict) -> None:
        """Have a call end."""
        if verdict is not Verdict.NOT_NEEDED:
            self.end(call.operation_id, verdict, [])
            return
        report = Report(
            operation_id=call.operation_id,
            generation=call.generation,
            verdict=verdict,
            reason="it is new",
        )
        self._calls[call.operation_id].report = report
        self._queue.append(report)


class Service:
    """A world with the campaign of a setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.driver = StepDriver()
        self.mirror = Mirror()
        self._watcher: CampaignWatcher | None = None
        self.visits = VisitWatch(setting)
        store = WatchedStore(KeptStore(), self.mirror, self._committed, keep_open=True)
        self.world = World(
            store=lambda: store,
            driver=self.driver,
            fleet=_fleet(setting),
            policy=Policy(
                recovery=0,
                hold_max=NEVER,
                disable_after=NEVER,
                driver_timeout=NEVER,
                driver_attempts=1,
                retry_delay=MINUTE,
                retention=NEVER,
                verify_times=1,
                brake=BrakeLimits(hosts=Amount(value=0)),
            ),
        )
        self._watcher = CampaignWatcher(self.world.clock.monotonic)
        for number in range(setting.hosts):
            assert self.world.vm(f"v{number}").get().status == 200
        start(self.world, _file(setting), impact=setting.impact)

    def _committed(self, changes: list[Change]) -> None:
        if self._watcher is None:
            return
        moment = Moment(
            mirror=self.mirror,
            policy=self.world.policy,
            now=self.world.now,
            changes=changes,
        )
        self._watcher.committed(moment)
        self.visits.committed(moment)

    # Steps that are possible

    def labels(self) -> list[Label]:
        """Return what can happen now, what comes by itself first."""
        return [*self._of_calls(), *self._of_vms(), *self._of_operators()]

    def _of_calls(self) -> Iterator[Label]:
        setting = self.setting
        for call in self.driver.calls():
            host = int(call.host[1:])
            yield Label("done", host)
            is_step = call.step is not None
            if host in (setting.fails if is_step else setting.drains_fail):
                yield Label("fail", host)
            is_needed = call.step is not None and call.step.kind is StepKind.NEEDED
            if is_needed and host in setting.needless:
                yield Label("needless", host)

    def _of_vms(self) -> Iterator[Label]:
        for event in self.world.live_events():
            operation = self.mirror.operations[event.operation]
            if event.awaits_approval:
                yield Label("approve", int(operation.host[1:]))

    def _of_operators(self) -> Iterator[Label]:
        campaign, setting = self.campaign, self.setting
        if campaign.has_ended:
            return
        if setting.brakes:
            is_on = bool(self.mirror.table(Brake))
            yield Label("brake off" if is_on else "brake on")
        if campaign.state is CampaignState.HALTED:
            yield Label("resume")
        elif setting.halts:
            yield Label("halt")
        for name in sorted(campaign.failed_hosts):
            yield Label("retry", int(name[1:]))
            yield Label("skip", int(name[1:]))
        # Time passes only when nothing else comes by itself.
        is_busy = any(True for _ in (*self._of_calls(), *self._of_vms()))
        due = self.world.plane.next_due()
        if not is_busy and due is not None and due <= self.world.now + WAIT_MAX:
            yield Label("wait")

    def act(self, label: Label) -> None:
        """Do what a label says, and everything that follows at once."""
        what, host = label
        world, name = self.world, f"h{host}"
        if what in {"done", "fail", "needless"}:
            verdict = {
                "done": Verdict.DONE,
                "fail": Verdict.FAILED,
                "needless": Verdict.NOT_NEEDED,
            }[what]
            [call] = [call for call in self.driver.calls() if call.host == name]
            self.driver.end_as(call, verdict)
        elif what == "approve":
            for event in world.live_events():
                operation = self.mirror.operations[event.operation]
                if operation.host == name:
                    vm = event.resources[0].vm
                    assert world.vm(vm).approve(event.event_id).status == 200
        elif what == "wait":
            due = world.plane.next_due()
            assert due is not None
            world.advance(max(0, due - world.now))
        else:
            decisions: dict[str, Any] = {
                "brake on": partial(brake.put_on, withdraw=False),
                "brake off": brake.take_off,
                "halt": partial(campaigns.halt, name=NAME),
                "resume": partial(campaigns.resume, name=NAME, by_all=True),
                "retry": partial(campaigns.retry, name=NAME, hosts=[name]),
                "skip": partial(campaigns.skip, name=NAME, hosts=[name]),
            }
            world.order(decisions[what], actor="ann", reason="a reason")
        world.settle()
        self.visits.settled(self.mirror)

    @property
    def is_over(self) -> bool:
        """Return whether the campaign has ended, and all its work."""
        return self.campaign.has_ended and not self.driver.calls()

    def restart(self) -> None:
        """Crash, and start again."""
        self.world.restart()
        self.world.settle()

    # The stored state

    @property
    def campaign(self) -> CampaignRecord:
        """Return the record of the campaign."""
        [found] = self.mirror.table(CampaignRecord).values()
        return found

    def told(self) -> tuple[Any, ...]:
        """Return how far the campaign and each host are, as others see it."""
        operations = self.mirror.operations
        visits = self.mirror.table(Visit)
        return (
            self.campaign.state,
            [
                (key, operation.host, operation.state)
                for key, operation in sorted(operations.items())
            ],
            [(key, visit.host, visit.state) for key, visit in sorted(visits.items())],
            [(call.host, call.step) for call in self.driver.calls()],
        )

    def digest(self) -> bytes:
        """Return a digest of everything that decides about what follows."""
        return hashlib.blake2b(repr(self.content()).encode(), digest_size=12).digest()

    def content(self) -> tuple[Any, ...]:
        """Return everything that decides about what follows, without IDs and times."""
        campaign = self.campaign
        # A host that is planned first again has an ID before that of its earlier attempt.
        last: dict[str, Operation] = {}
        for operation in sorted(self.mirror.operations.values(), key=_recency):
            last[operation.host] = operation
        visits: dict[str, Visit] = {}
        for visit in sorted(self.mirror.table(Visit).values(), key=_recency):
            visits[visit.host] = visit
        order = [
            operation.host
            for _, operation in sorted(self.mirror.operations.items())
            if operation.state not in ENDED_STATES
        ]
        return (
            campaign.state,
            campaign.stage,
            campaign.stage_left,
            campaign.ramp,
            campaign.ramp_done,
            campaign.outcomes,
            campaign.done,
            campaign.skipped,
            campaign.deferred,
            sorted(campaign.failed_hosts),
            None if campaign.halt is None else campaign.halt.cause,
            [_operation(last[host]) for host in sorted(last)],
            [_visit(visits[host]) for host in sorted(visits)],
            order,
            [
                (name, len(host.cordons))
                for name, host in sorted(self.mirror.hosts.items())
            ],
            [
                (vm.name, vm.host, vm.moving_to, vm.state)
                for vm in sorted(self.mirror.live_vms, key=lambda vm: vm.name)
            ],
            [
                (event.resources[0].vm, event.status, event.is_approved)
                for event in self.world.live_events()
            ],
            [
                (call.host, None if call.step is None else call.step.kind)
                for call in self.driver.calls()
            ],
            BRAKE_KEY in self.mirror.table(Brake),
        )


def _recency(attempt: Operation | Visit) -> tuple[bool, int, str]:
    """Return what sorts the attempts of a host: the open one is the last."""
    return not attempt.ended_at, attempt.created, attempt.key


def _operation(found: Operation) -> tuple[Any, ...]:
    held = sorted(type(blocker).__name__ for blocker in found.held_by)
    drains = [getattr(blocker, "drains", 0) for blocker in found.held_by]
    return found.host, found.state, found.call_state, held, drains


def _visit(found: Visit) -> tuple[Any, ...]:
    results = [(result.kind, result.outcome) for result in found.results]
    return found.host, found.state, found.holds_slot, found.is_deferred, results


def _fleet(setting: Setting) -> str:
    lines = ['[[tenant]]\nname = "shop"']
    for number in range(setting.hosts):
        lines += [
            f'[[host]]\nname = "h{number}"\nrack = "r{number // 2}"',
            f"capacity = {setting.places}",
            f'[[scope]]\nname = "s{number}"\ntenant = "shop"',
            'kind = "availability-set"',
            f'[[vm]]\nname = "v{number}"\nhost = "h{number}"\nscope = "s{number}"',
        ]
    return "\n".join(lines)


def _file(setting: Setting) -> str:
    lines = ["[campaign.steps]"]
    lines += [f'{kind.value} = {{ step = "{kind.value}" }}' for kind in setting.steps]
    lines.append(f"[campaign.budget]\nin_flight = {setting.in_flight}")
    if setting.unavailable:
        lines.append(f"unavailable = {setting.unavailable}")
    if setting.rack_most:
        lines.append(
            f'[[campaign.budget.by]]\nlabel = "rack"\nmax = {setting.rack_most}'
        )
    lines.append("[campaign.tolerance]\nfailures = 1\nof_last = 3\nin_a_row = 1")
    if setting.canaries:
        lines.append(f"[[campaign.stage]]\nhosts = {setting.canaries}")
    lines.append('[[campaign.stage]]\nhosts = "100%"')
    return "\n".join(lines) + "\n"
