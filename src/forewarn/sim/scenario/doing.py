"""Run the actions of steps on a simulated server.

Nothing is decided here. Requests use the verbs of the service, the simulated server injects
and moves events, and the control plane approves and disables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from forewarn.control.requests import approvals, enabling, verbs
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Sighting
from forewarn.fleet.model import Host, Vm
from forewarn.instants import Micros
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Operation, Request, Verb
from forewarn.protocol.views import View
from forewarn.sim import staged
from forewarn.sim.scenario.demands import Named
from forewarn.sim.scenario.model import (
    Act,
    Approve,
    Cancel,
    Expect,
    ForVms,
    Jump,
    MoveOn,
    Order,
    Publish,
    Say,
    See,
    SetFaults,
)
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.verbs.model import Form, VerbRequest
from forewarn.verbs.table import VERBS

BY_HAND = Said(text="cancelled by the scenario")
ACTOR = "scenario"


class StepExecutor:
    """Runs actions on one simulated server, and keeps the names of requests."""

    def __init__(self, stage: SimServer, *, reason: str) -> None:
        """Act on `stage`; `reason` is stored in the history."""
        self._stage = stage
        self._engine = stage.engine
        self._reason = reason
        self._requests: dict[str, str] = {}
        self._seen: dict[str, dict[str, set[str]]] = {}
        """The VMs that each named sighting fails, with their failures before it."""
        self._named: list[Named] = []
        self._read_at = (-1, -1)

    @property
    def now(self) -> Micros:
        """Return the current instant."""
        return self._engine.now

    def scaled(self, duration: Micros) -> Micros:
        """Return a duration of the file at the current speed."""
        return self._engine.policy.sped_up(duration)

    def notice(self, duration: Micros) -> Micros:
        """Return a notice of the file at the current speed."""
        return self._engine.policy.notice_of(duration)

    def do(self, act: Act, *, name: str) -> None:
        """Run an action; its request gets the name `name`. Raises ForewarnError."""
        match act:
            case Order():
                self._requests[name] = self._order(act)
            case Publish(wanted=wanted):
                self._requests[name] = self._stage.inject(
                    replace(wanted, notice=self.notice(wanted.notice))
                ).request_id
            case MoveOn():
                self._move(act)
            case Cancel(event=event):
                request = self._request(event)
                self._decide(lambda work: verbs.cancel(work, request, note=BY_HAND))
            case Approve(event=event, by=by):
                self._approve(event, by)
            case See():
                self._see(act, name)
            case ForVms():
                self._for_vms(act)
            case Jump(by=by):
                self._stage.advance(self.scaled(by))
            case SetFaults(playbook=playbook):
                self._stage.faults.play(playbook)
            case Say() | Expect():
                pass
            case _:
                assert_never(act)

    # Created operations and events

    def operations(self, name: str) -> list[Operation]:
        """Return the operations of a step, in order."""
        if name in self._seen:
            return self._engine.read(
                lambda reader: [
                    failure
                    for vm, earlier in self._seen[name].items()
                    for failure in _failures_by_driver(reader, vm)
                    if failure.operation_id not in earlier
                ]
            )
        request = self._requests.get(name, "")
        return self._engine.read(
            lambda reader: list(every(reader, kinds.OPERATIONS_OF_REQUEST, request))
        )

    def all_operations(self) -> list[Operation]:
        """Return the operations of all steps."""
        return [
            operation for name in self._names() for operation in self.operations(name)
        ]

    def events(self, name: str) -> list[Event]:
        """Return the events of a step, in order."""

        def ask(reader: Reader) -> list[Event]:
            return [
                event
                for operation in self.operations(name)
                for event in every(
                    reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
                )
            ]

        return self._engine.read(ask)

    def awaits_events(self, name: str) -> bool:
        """Return whether a step can create its events later: the driver reported that VMs
        stopped, and control waits for the confirmation."""
        return name in self._seen

    def named_events(self) -> list[Named]:
        """Return the events of all steps, with the names of the steps.

        They have the state of the last publication: an approval without other changes may
        be missing.
        """
        published = self._stage.publications, len(self._names())
        if published != self._read_at:
            # This is called fifty times a second, and there may be a thousand events.
            self._read_at = published
            self._named = [
                Named(name=name, event=event)
                for name in self._names()
                for event in self.events(name)
            ]
        return self._named

    def _names(self) -> list[str]:
        """Return the names of the steps so far that create events."""
        return [*self._requests, *self._seen]

    # The steps

    def _request(self, name: str) -> str:
        request_id = self._requests.get(name)
        if request_id is None:
            raise RefusedError(f"{name} was not created")
        return request_id

    def _decide(self, decide: Callable[[Work], object]) -> object:
        outcome = self._engine.order(decide, actor=ACTOR, reason=self._reason)
        self._stage.wake()
        return outcome

    def _order(self, order: Order) -> str:
        """Make a request; return its ID, or "" if there is none."""
        outcome = self._decide(deciding(order, self.notice))
        return outcome if isinstance(outcome, str) else ""

    def _move(self, act: MoveOn) -> None:
        for operation in self.operations(act.event):
            if not staged.is_at(operation, act.stop):
                self._stage.move(operation.operation_id, act.stop)

    def _see(self, act: See, name: str) -> None:
        """Let the driver report a change; control acts when it is confirmed."""

        def earlier(reader: Reader) -> dict[str, set[str]]:
            if act.host:
                need(reader, Host, act.host)
            return {
                need(reader, Vm, vm).name: {
                    failure.operation_id for failure in _failures_by_driver(reader, vm)
                }
                for vm in act.vms
            }

        before = self._engine.read(earlier)
        if act.fails:
            self._seen[name] = before
        for vm in act.vms:
            self._stage.driver.see(
                Sighting(
                    vm=vm,
                    running=act.is_running,
                    at=self.now,
                    host=act.host,
                    cause=act.cause,
                    text=act.text,
                )
            )
        self._stage.wake()

    def _for_vms(self, act: ForVms) -> None:
        stage = self._stage
        if act.what == "disable":
            self._disable(act.vms)
            return
        does: Mapping[str, Callable[[str], object]] = {
            "withhold": stage.withheld.withhold,
            "release": stage.release,
            "clear-faults": stage.faults.clear,
        }
        for vm in act.vms or ("",):
            does[act.what](vm)

    def _approve(self, name: str, by: str) -> None:
        waiting = [
            event
            for event in self.events(name)
            if event.status is EventStatus.SCHEDULED and not event.is_approved
        ]
        if not waiting:
            raise RefusedError(f"{name} has no event that waits for an approval")

        def decide(work: Work) -> None:
            for event in waiting:
                approvals.approve_for(work, event.event_id, as_vm=by)

        self._decide(decide)

    def _disable(self, vms: Sequence[str]) -> None:
        # Process requests of this instant before disabling.
        self._engine.settle()

        def decide(work: Work) -> None:
            for vm in vms:
                view = need(work.tx, View, work.vm(vm).view)
                if view.is_enabled:
                    enabling.disable_if_silent(
                        work, view.enabling, silent_since=work.now
                    )

        self._decide(decide)


def _failures_by_driver(reader: Reader, vm: str) -> list[Operation]:
    """Return the failures of a VM that the driver saw or caused, also the ended ones."""
    return [
        operation
        for operation in every(reader, kinds.OPERATIONS_OF_VM, vm)
        if operation.verb is Verb.FAIL
        and need(reader, Request, operation.request).actor.kind is ActorKind.DRIVER
    ]


def deciding(
    order: Order, notice_of: Callable[[Micros], Micros]
) -> Callable[[Work], object]:
    """Return the decision of a request; `notice_of` converts its notices."""
    entry = VERBS[order.verb]

    def decide(work: Work) -> object:
        values = dict(order.values)
        for argument in entry.arguments:
            ahead = values.get(argument.key)
            if isinstance(ahead, int) and argument.form in {Form.DURATION, Form.MOMENT}:
                start = work.now if argument.form is Form.MOMENT else 0
                values[argument.key] = start + notice_of(ahead)
        return verbs.DECISIONS[entry.name](
            work, VerbRequest(targets=order.targets, values=values)
        )

    return decide
