"""The world's side of a walk: the real service, and what it has stored in the model's words."""

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.text import CampaignText
from forewarn.control.execution import ending, release
from forewarn.control.requests import (
    brake,
    campaign_starts,
    campaigns,
    cordons,
    failures,
    rollouts,
)
from forewarn.control.rules import campaign_hosts, waits
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Verdict
from forewarn.fleet.model import Host, HostState, Vm
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Verb,
)
from forewarn.settings.amounts import Amount
from forewarn.store.records import BRAKE_KEY, Brake
from tests.search.campaigns.decisions import STATES
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import HOSTS, OPERATORS, RACKS, Setting
from tests.search.campaigns.state import (
    DONE,
    FAILED,
    GROUP,
    HOST,
    READY,
    SKIPPED,
    TURN,
    WORKING,
    Course,
    Item,
    Label,
    State,
)
from tests.search.campaigns.transactions import ALL_OPERATORS
from tests.search.hand import HandDriver
from tests.search.side import NEVER, KeptStore
from tests.support.campaign_watcher import CampaignWatcher
from tests.support.moments import Moment
from tests.support.watched import Change, Mirror, WatchedStore
from tests.support.worlds import World

HOW = {state: how for how, state in STATES.items()}
NAME = "bios"


def policy_of(setting: Setting) -> Policy:
    """Return the policy of a small world."""
    return Policy(
        reboot_notice=setting.notice * setting.tick,
        recovery=setting.recovery * setting.tick,
        hold_max=NEVER,
        disable_after=NEVER,
        driver_timeout=NEVER,
        driver_attempts=1,
        retry_delay=MINUTE,
        retention=NEVER,
        brake=BrakeLimits(hosts=Amount(value=0)),
    )


def file_of(setting: Setting, hosts: list[str]) -> str:
    """Return the campaign's file, with the hosts in their order."""
    lines = [
        f'[campaign]\nname = "{NAME}"\nreason = "CVE"\nimpact = "reboot"',
        'order = "listed"\n[campaign.select]',
        f"host = {hosts}\n[campaign.budget]\nin_flight = {setting.in_flight}",
    ]
    if setting.unavailable:
        lines.append(f"unavailable = {setting.unavailable}")
    if setting.rack_most:
        lines.append(
            f'[[campaign.budget.by]]\nlabel = "rack"\nmax = {setting.rack_most}'
        )
    lines.append(
        f"[campaign.tolerance]\nfailures = {setting.failures}\n"
        f"of_last = {setting.of_last}\nin_a_row = {setting.in_a_row}"
    )
    minutes = setting.tick // MINUTE
    for stage, end in zip(setting.stages, setting.ends, strict=True):
        lines.append(
            f'[[campaign.stage]]\nhosts = {end}\nsoak = "{stage.soak * minutes}m"\n'
            f"approval = {str(stage.approval).lower()}"
        )
    if setting.length:
        hours = setting.tick // HOUR
        lines.append(
            f'[campaign.expect]\ntypical = "{setting.slow * hours}h"\n'
            f'slow = "{setting.slow * hours}h"\n[[campaign.window]]\n'
            f'start = "{setting.opens * hours:02}:00"\n'
            f'length = "{setting.length * hours}h"\ntimezone = "UTC"'
        )
    return "\n".join(lines) + "\n"


class Side:
    """A world with the campaign of a setting, which takes steps."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model = model
        self.random = random.Random(seed)
        self.names = [f"h{number}" for number in range(HOSTS)]
        self.random.shuffle(self.names)
        """The hosts in the order of the campaign."""
        self.driver = HandDriver()
        self.mirror = Mirror()
        self.looks: list[Label | None] = []
        """The effects of the last step; None: the service started again."""
        self._is_inside = False
        store = WatchedStore(KeptStore(), self.mirror, self._committed, keep_open=True)
        self._watcher: CampaignWatcher | None = None
        self.world = World(
            store=lambda: store,
            driver=self.driver,
            fleet=self._fleet(),
            policy=policy_of(model.setting),
            seed=seed,
        )
        self._watcher = CampaignWatcher(self.world.clock.monotonic)
        for number in range(HOSTS):
            assert self.world.vm(f"v{number}").get().status == 200

    def _fleet(self) -> str:
        lines = ['[[tenant]]\nname = "shop"']
        for number, name in enumerate(self.names):
            lines += [
                f'[[host]]\nname = "{name}"\nrack = "r{RACKS[number]}"',
                f'[[scope]]\nname = "s{number}"\ntenant = "shop"',
                'kind = "availability-set"',
                f'[[vm]]\nname = "v{number}"\nhost = "{name}"\nscope = "s{number}"',
            ]
        return "\n".join(lines)

    def _committed(self, changes: list[Change]) -> None:
        """Judge a commit by the watcher of rows (K1 to K7, K9)."""
        if self._watcher is not None:
            self._watcher.committed(
                Moment(
                    mirror=self.mirror,
                    policy=self.world.policy,
                    now=self.world.now,
                    changes=changes,
                )
            )

    # Steps

    def start(self) -> None:
        """Plan the campaign, and start this plan."""
        world = self.world
        text = file_of(self.model.setting, self.names)
        file = CampaignText(name="campaign.toml", text=text)
        request = campaign_starts.plan_request(file, world.plane.policy, now=world.now)
        prepared = world.read(
            lambda reader: campaign_starts.prepared_of(
                reader, campaign_starts.plan_of(reader, request), file
            )
        )
        world.order(lambda work: campaigns.start(work, prepared), actor=OPERATORS[0])
        world.settle()

    def act(self, label: Label) -> None:
        """Have the world do what the label says; raises RefusedError, CrashError."""
        what, first = label
        if what == "approve":
            (event,) = [
                event
                for event in self.world.live_events()
                if event.operation == self.open_of(first).operation_id
            ]
            assert self.world.vm(f"v{first}").approve(event.event_id).status == 200
        elif what in {"done", "failed"}:
            verdict = Verdict.DONE if what == "done" else Verdict.FAILED
            self.driver.end(self.open_of(first).operation_id, verdict, [])
            self.world.settle()
        else:
            who = OPERATORS[first % 2 if what in {"pause", "resume"} else 0]
            self.world.order(self._decision(label), actor=who, reason="a reason")

    def _decision(self, label: Label) -> Callable[[Work], object]:
        what, first = label
        host = self.names[max(first, 0) % HOSTS]
        by_all = first == ALL_OPERATORS
        return {
            "pause": partial(campaigns.pause, name=NAME),
            "resume": partial(campaigns.resume, name=NAME, by_all=by_all),
            "halt": partial(campaigns.halt, name=NAME),
            "abort": partial(campaigns.abort, name=NAME),
            "approve stage": partial(campaigns.approve, name=NAME, stage=first),
            "retry": partial(campaigns.retry, name=NAME, hosts=[host]),
            "skip": partial(campaigns.skip, name=NAME, hosts=[host]),
            "brake on": partial(brake.put_on, withdraw=bool(first)),
            "brake off": brake.take_off,
            "fail host": partial(failures.fail_host, name=host),
            "restore host": partial(failures.restore_host, name=host),
            "open host": partial(cordons.open_host, name=host, by_all=True),
        }[what]

    @contextmanager
    def recorded(self) -> Generator[None]:
        """Record what the service does by itself, in its order."""
        self.looks = []
        places: list[tuple[Any, str, str]] = [
            (rollouts, "go_on", "turn"),
            (rollouts, "call_up", "call"),
            (release, "recheck", "look"),
            (ending, "recovered", "look"),
        ]
        originals = [getattr(home, name) for home, name, _ in places]
        for (home, name, what), inner in zip(places, originals, strict=True):
            setattr(home, name, self._noted(what, inner))
        try:
            yield
        finally:
            for (home, name, _), inner in zip(places, originals, strict=True):
                setattr(home, name, inner)

    def _noted(self, what: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def noted(work: Work, key: str) -> Any:
            if self._is_inside:
                return inner(work, key)
            self._is_inside = True
            try:
                if what == "turn":
                    self.looks.append(Label(what))
                else:
                    host = self.names.index(work.operation(key).host)
                    self.looks.append(Label(what, host))
                return inner(work, key)
            finally:
                self._is_inside = False

        return noted

    # The stored state

    def maintenance(self) -> list[Operation]:
        """Return the operations of the campaign, by ID."""
        return [
            operation
            for operation in self.world.operations()
            if operation.verb is Verb.MAINTAIN
        ]

    def open_of(self, host: int) -> Operation:
        """Return the open operation of a host."""
        (found,) = [
            operation
            for operation in self.maintenance()
            if operation.host == self.names[host]
            and operation.state not in ENDED_STATES
        ]
        return found

    def record(self) -> CampaignRecord:
        return self.world.read(lambda reader: campaigns.find(reader, NAME))

    def may_have(self, host: int) -> bool:
        """Return whether another campaign may start with a host."""
        wanted = {self.names[host]}
        try:
            self.world.read(lambda reader: campaign_hosts.check_free(reader, wanted))
        except RefusedError:
            return False
        return True

    def stored(self) -> State:
        """Return what is stored as a state of the model."""
        record, operations = self.record(), self.maintenance()
        course = self._course(record)
        hosts = [self._host(name) for name in self.names]
        is_on = self.world.read(lambda reader: reader.get(Brake, BRAKE_KEY))
        blamed = [bool(self._vm(number).down_for) for number in range(HOSTS)]
        started = {operation.host for operation in operations if operation.started_at}
        return State(
            course=course,
            items=tuple(self._items(course, operations)),
            queue=tuple(
                self.names.index(operation.host)
                for operation in operations
                if operation.state not in ENDED_STATES
            ),
            down=_bits(host.state is HostState.DOWN for host in hosts),
            cordons=_bits(bool(host.cordons) for host in hosts),
            blamed=_bits(iter(blamed)),
            met=_bits(name in started for name in self.names),
            brake=0 if is_on is None else 1 + is_on.withdraws,
        )

    def _course(self, record: CampaignRecord) -> Course:
        now, tick = self.world.now, self.model.setting.tick
        return Course(
            state=record.state.value,
            stage=record.stage,
            stage_left=record.stage_left,
            soak=max(0, record.soaks_until - now) // tick if record.soaks_until else -1,
            is_approved=record.is_approved,
            is_asked=record.is_asked,
            ramp=record.ramp,
            ramp_done=record.ramp_done,
            outcomes=record.outcomes,
            done=record.done,
            skipped=record.skipped,
            ahead=record.skipped_ahead,
            failed=_bits(name in record.failed_hosts for name in self.names),
            pauses=sum(1 << OPERATORS.index(pause.by.name) for pause in record.pauses),
            halt="" if record.halt is None else record.halt.cause.value,
            due=(record.due_at - now) // tick if record.due_at else -1,
        )

    def _items(self, course: Course, operations: list[Operation]) -> Iterator[Item]:
        last = {operation.host: operation for operation in operations}
        for number, name in enumerate(self.names):
            operation = last[name]
            if operation.state in ENDED_STATES:
                is_done = operation.state is OperationState.DONE
                has_failed = course.failed >> number & 1
                yield Item(DONE if is_done else FAILED if has_failed else SKIPPED)
                continue
            how = HOW[operation.state]
            names = operation.waits_for
            left = 0
            if how not in {READY, WORKING}:
                is_told = operation.state is OperationState.ANNOUNCED
                ends = operation.not_before if is_told else operation.due_at
                left = (ends - self.world.now) // self.model.setting.tick
            is_planned = operation.state is OperationState.PLANNED
            reason = TURN
            if is_planned:
                reason = HOST if waits.for_host(name) in names else TURN
                is_group = any(name.startswith("budget:") for name in names)
                reason = GROUP if is_group else reason
            yield Item(
                how,
                left=0 if is_planned else left,
                waits=reason,
                is_braked=waits.TURN_BRAKE in names,
            )

    def _host(self, name: str) -> Host:
        host = self.world.read(lambda reader: reader.get(Host, name))
        assert host is not None
        return host

    def _vm(self, number: int) -> Vm:
        return self.world.stored_vm(f"v{number}")


def _bits(flags: Iterator[bool]) -> int:
    return sum(1 << number for number, flag in enumerate(flags) if flag)
