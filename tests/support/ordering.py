"""Random operator requests of a property test, chosen by numbers.

A refused request must change nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forewarn.control.execution import calls
from forewarn.control.requests import (
    blackouts,
    brake,
    choices,
    cordons,
    failures,
    fleet_changes,
    outcome,
    verbs,
    visiting,
    windows,
)
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import places_of
from forewarn.fleet.window_fields import ALL_DAYS
from forewarn.fleet.windows import Window
from forewarn.instants import HOUR, MINUTE, SECOND, format_instant
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    ENDED_STATES,
    Action,
    CallState,
    Verb,
)
from forewarn.store.records import Choice
from forewarn.store.wide_blackouts import WideBlackout
from forewarn.verbs.model import VerbRequest
from tests.support import blackout_watcher
from tests.support.fleets import changed
from tests.support.witnessed import Witnessed

T = TypeVar("T")

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
VISITED = (
    Action.LIVE_MIGRATE,
    Action.NONE,
    Action.REBOOT,
    Action.FREEZE,
    Action.REBOOT,
)
"""Impacts of visits; the first reboot has no step `work`."""
BLACKOUT_NAMES = ("freeze", "trading")
MAINTENANCE = (Action.FREEZE, Action.LIVE_MIGRATE, Action.REBOOT, Action.REDEPLOY)


@dataclass(frozen=True, slots=True)
class Step:
    """A step: a method of a life, and its numbers."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.args.items())
        return f"{self.name}({arguments})"


class Ordering(Witnessed):
    """A world with witnesses, whose operators give orders."""

    # The chosen objects

    def _vm(self, number: int) -> str:
        names = sorted(self.mirror.vms)
        return names[number % len(names)] if names else "nobody"

    def _vms(self, numbers: list[int]) -> list[str]:
        return list(dict.fromkeys(self._vm(number) for number in numbers))

    def _host(self, number: int) -> str:
        names = sorted(self.mirror.hosts)
        return names[number % len(names)]

    def _operation(self, number: int) -> str:
        operations = sorted(self.mirror.operations.values(), key=lambda op: op.created)
        live = [op for op in operations if op.state not in ENDED_STATES] or operations
        return live[number % len(live)].operation_id if live else "op-none"

    def _event(self, number: int) -> str:
        events = sorted(
            self.mirror.events.values(), key=lambda event: (event.created, event.key)
        )
        events = [event for event in events if event.is_live] or events
        return events[number % len(events)].event_id if events else UNKNOWN_ID

    # Orders

    def order(
        self,
        decide: Callable[[Work], T],
        *,
        actor: str = "operator",
        reason: str = "",
    ) -> T | None:
        """Make a request; a refused one must change nothing."""
        commits = self.mirror.commits
        approved = self._approved()
        try:
            result = self.world.order(decide, actor=actor, reason=reason)
        except (RefusedError, BadRequestError, FleetFileError) as refusal:
            assert self.mirror.commits == commits, f"refused, and changed: {refusal}"  # noqa: PT017
            self.refused += 1
            return None
        assert not self._newly_approved(approved), "S4: an order is no approval"
        return result

    def _approved(self) -> set[str]:
        return {key for key, event in self.mirror.events.items() if event.approved_by}

    def _newly_approved(self, before: set[str]) -> set[str]:
        """Return what a VM or operator has approved; policies have parentheses.

        Operations that a tenant has expedited are approved when they are announced.
        """
        return {
            key
            for key in self._approved() - before
            if self.mirror.events[key].approved_by
            not in {"(policy)", "(nobody listens)", "(down already)", "(failure)"}
            and not self._is_expedited(key)
        }

    def _is_expedited(self, event_id: str) -> bool:
        event = self.mirror.events[event_id]
        # A VM approves by itself, whatever its tenant wants of other VMs.
        if event.approver is not None and event.approver.kind is ActorKind.VM:
            return False
        request = self.mirror.operations[event.operation].request
        return any(
            (choice.request, choice.scope, choice.until) == (request, event.scope, 0)
            for choice in self.mirror.table(Choice).values()
        )

    def maintain(
        self, hosts: list[int], impact: int, wish: int = 0, emergency: bool = False
    ) -> None:
        names = list(dict.fromkeys(self._host(number) for number in hosts))
        not_before = self.world.now + wish * SECOND // 4 if wish else None
        # Some rollouts have one host at once, and some more.
        wishes = OrderOptions(
            not_before=not_before, emergency=emergency, at_once=1 + impact % 3
        )
        action = MAINTENANCE[impact % len(MAINTENANCE)]
        self.order(lambda work: verbs.maintain(work, names, action, wishes))

    def visit(self, hosts: list[int], impact: int, is_checked: bool) -> None:
        """Maintain hosts with all host steps; some reboots have no step `work`."""
        names = list(dict.fromkeys(self._host(number) for number in hosts))
        action = VISITED[impact % len(VISITED)]
        is_short = impact % len(VISITED) == VISITED.index(Action.REBOOT)
        # Only work that stops VMs is followed by a wait for the host.
        left_out = set[StepKind]() if action is Action.REBOOT else {StepKind.ANSWERS}
        left_out |= {StepKind.WORK, StepKind.ANSWERS} if is_short else set()
        left_out |= set() if is_checked else {StepKind.NEEDED}
        steps = tuple(
            HostStep(kind=kind, name=kind.value)
            for kind in StepKind
            if kind not in left_out
        )
        wishes = OrderOptions(at_once=1 + impact // len(VISITED), steps=steps)
        self.order(lambda work: verbs.maintain(work, names, action, wishes))

    def end_visit(
        self, host: int, is_repeated: bool, only_verify: bool = False
    ) -> None:
        """Retry or skip the visit of a host."""
        name = self._host(host)
        if is_repeated:
            self.order(lambda work: visiting.retry(work, name, only_verify=only_verify))
        else:
            self.order(lambda work: visiting.skip(work, name))

    def restart(self, vms: list[int], redeploy: bool) -> None:
        verb = Verb.REDEPLOY if redeploy else Verb.REBOOT
        names = self._vms(vms)
        self.order(lambda work: verbs.change_vms(work, names, verb, OrderOptions()))

    def evict(self, vms: list[int]) -> None:
        names = self._vms(vms)
        self.order(
            lambda work: verbs.change_vms(work, names, Verb.EVICT, OrderOptions())
        )

    def terminate(self, vms: list[int]) -> None:
        names = self._vms(vms)
        self.order(
            lambda work: verbs.change_vms(work, names, Verb.TERMINATE, OrderOptions())
        )

    def renew_image(self, vms: list[int], reimage: bool) -> None:
        verb = Verb.REIMAGE if reimage else Verb.UPGRADE_OS
        names = self._vms(vms)
        self.order(lambda work: verbs.change_vms(work, names, verb, OrderOptions()))

    def predict_failure(self, host: int, hours: int) -> None:
        name = self._host(host)
        notice = hours * HOUR
        self.order(
            lambda work: verbs.predict_failure(work, [name], notice, OrderOptions())
        )

    def fail_host(self, host: int) -> None:
        name = self._host(host)
        self.order(lambda work: failures.fail_host(work, name))

    def fail_vm(self, vm: int) -> None:
        name = self._vm(vm)
        self.order(lambda work: failures.fail_vm(work, name))

    def fail_host_of(self, vm: int) -> None:
        if (record := self.mirror.vms.get(self._vm(vm))) is not None:
            self.order(lambda work: failures.fail_host(work, record.host))

    def restore_host_of(self, vm: int) -> None:
        if (record := self.mirror.vms.get(self._vm(vm))) is not None:
            self.order(lambda work: failures.restore_host(work, record.host))

    def restore_host(self, host: int) -> None:
        name = self._host(host)
        self.order(lambda work: failures.restore_host(work, name))

    def restore_vm(self, vm: int) -> None:
        name = self._vm(vm)
        self.order(lambda work: failures.restore_vm(work, name))

    def cordon(self, host: int, owner: int) -> None:
        name = self._host(host)
        self.order(lambda work: cordons.cordon(work, name), actor=self._owner(owner))

    def open_host(self, host: int, owner: int, by_all: bool) -> None:
        name = self._host(host)
        self.order(
            lambda work: cordons.open_host(work, name, by_all=by_all),
            actor=self._owner(owner),
        )

    def drain(self, hosts: list[int], at_once: int) -> None:
        """Cordon hosts and move their VMs away."""
        names = [self._host(number) for number in dict.fromkeys(hosts)]
        request = VerbRequest(
            targets=tuple(dict.fromkeys(names)), values={"at_once": at_once}
        )
        self.order(lambda work: verbs.DECISIONS["host-drain"](work, request))

    def put_brake_on(self, withdraw: bool = False) -> None:
        self.order(
            lambda work: brake.put_on(work, withdraw=withdraw), reason="unstable"
        )

    def take_brake_off(self) -> None:
        self.order(brake.take_off)

    def set_window(self, scope: int, hours: int) -> None:
        """Set a window of a scope; 0 hours: remove its windows."""
        name = sorted(self.mirror.scopes)[scope % len(self.mirror.scopes)]
        if not hours:
            self.order(lambda work: windows.clear_windows(work, name))
            return
        # A different start for each scope, so that few are open together.
        start = scope * 5 % 24 * 60
        window = Window(days=ALL_DAYS, start=start, length=hours * HOUR)
        self.order(lambda work: windows.set_windows(work, name, (window,)))

    def defer(self, vm: int, hours: int, by_scope: bool) -> None:
        """Defer the maintenance of a VM, or of its whole scope."""
        name = self._vm(vm)
        record = self.mirror.vms.get(name)
        if by_scope and record is not None:
            name = record.scope
        kind = "scope" if by_scope else "vm"
        until = self.world.now + hours * HOUR
        self.order(
            lambda work: choices.defer(
                work, choices.target_of(work, name, kind), until
            ),
            reason="month end",
        )

    def expedite(self, vm: int) -> None:
        """Let the maintenance of a VM come next."""
        name = self._vm(vm)
        self.order(
            lambda work: choices.expedite(work, choices.target_of(work, name, "vm"))
        )

    def clear_windows(self) -> None:
        for number in range(len(self.mirror.scopes)):
            self.set_window(number, 0)

    def set_blackout(
        self, which: int, begins: int, hours: int, host: int, by_day: bool = False
    ) -> None:
        """Set a blackout of the service, from `begins` minutes after now.

        `which` chooses its name. It ends `hours` hours after now. `host` chooses the
        host whose place has the blackout; -1: the whole fleet. `by_day`: it recurs.
        """
        at = [self.world.now + begins * MINUTE, self.world.now + hours * HOUR]
        first, last = (
            format_instant(instant - instant % SECOND).removesuffix("Z")
            for instant in at
        )
        line = f"{first[11:16]} {hours % 23 + 1}h" if by_day else f"{first} {last}"
        record = self.mirror.hosts.get(self._host(host)) if host >= 0 else None
        places = places_of(record)[:1] if record is not None else ()
        order = self.order(
            lambda work: blackouts.set_blackout(
                work, BLACKOUT_NAMES[which % 2], line, places
            ),
            reason="quiet",
        )
        self.world.settle()
        if order is not None:
            blackout_watcher.announced_hosts_fit(self.moment())

    def clear_blackouts(self) -> None:
        for which in range(len(BLACKOUT_NAMES)):
            self.remove_blackout(which)

    def remove_blackout(self, which: int) -> None:
        """Remove a blackout of the service, if there is one."""
        name = BLACKOUT_NAMES[which % 2]
        if name in self.mirror.table(WideBlackout):
            self.order(lambda work: blackouts.remove(work, name), reason="over")

    def _owner(self, number: int) -> str:
        return ("operator", "alice")[number % 2]

    def cancel(self, number: int, whole: bool) -> None:
        name = self._operation(number)
        if whole and name in self.mirror.operations:
            name = self.mirror.operations[name].request
        self.order(
            lambda work: verbs.cancel(work, name, note=Said(text="changed my mind"))
        )

    def resolve(self, number: int, done: bool, down: list[int]) -> None:
        lost = sorted(
            operation.operation_id
            for operation in self.mirror.operations.values()
            if operation.call_state is CallState.UNKNOWN
        )
        name = lost[number % len(lost)] if lost else self._operation(number)
        vms = self.mirror.operations[name].vms if lost else ()
        fallen = tuple({vms[index % len(vms)] for index in down} if vms else ())
        moved = self._moved_to(name) if lost and done else ()
        self.order(
            lambda work: outcome.resolve(
                work, name, done=done, down=fallen, moved=moved
            )
        )

    def _moved_to(self, name: str) -> tuple[str, ...]:
        """Return a host for each VM of a call, if the driver chose their hosts."""
        operation = self.mirror.operations[name]
        if not operation.driver_chooses:
            return ()
        host = min(self.mirror.hosts.keys() - {operation.host}, default="")
        self._crowded.add(host)
        return tuple(
            f"{move.vm}={host}"
            for move in calls.current_moves(operation)
            if not move.has_failed
        )

    def change_fleet(self, what: str, one: int, two: int, three: int) -> None:
        plan = changed(self.plan, what, one, two, three)
        before = self.mirror.commits
        # Another replica can take over within the order.
        old, self.plan = self.plan, plan
        try:
            self.order(
                lambda work: fleet_changes.apply(
                    work, read_fleet(plan.text(), name="fleet.toml")
                )
            )
        finally:
            # Also after a crash: it is known by what is durable.
            if self.mirror.commits == before:
                self.plan = old
