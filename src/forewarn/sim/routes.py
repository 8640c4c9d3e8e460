"""Routes that the simulator adds to the operator API: clock, events, VMs, faults, journal.

The routes of the service are available too. Each request is one call of the simulated
server, on its event loop. Nothing is decided here.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.admin import shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Actor, RouteGateway
from forewarn.admin.once import Responses, once_route
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Who
from forewarn.fleet.model import Scope, Vm, VmState
from forewarn.instants import MINUTE, Micros, format_instant
from forewarn.metadata.server import Address
from forewarn.protocol.errors import BadRequestError, NotFoundError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import reports
from forewarn.service.listening import url_of
from forewarn.sim import bodies
from forewarn.sim.faults.fault import FaultError
from forewarn.sim.faults.syntax import parse_playbook
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import NewVm, in_order
from forewarn.store.port import Reader

TERMINATE_NOTICE = 5 * MINUTE
"""Notice of an injected Terminate if the scope has none: the minimum (5.7)."""


class Simulated(Protocol):
    """The interface of a simulator that the routes need."""

    @property
    def stage(self) -> SimServer:
        """Return the current simulated server."""
        ...

    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM."""
        ...

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return its address."""
        ...

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Remove a VM from the fleet."""
        ...

    async def reset(self) -> None:
        """Restart from the initial state."""
        ...


def router(simulator: Simulated) -> APIRouter:
    """Return the routes for `simulator`."""
    sim = APIRouter(
        prefix="/sim", tags=["simulator"], route_class=once_route(Responses())
    )
    _clock(sim, simulator)
    _events(sim, simulator)
    _vms(sim, simulator)
    _faults(sim, simulator)
    _journal(sim, simulator)

    @sim.post("/reset", responses=documented(bodies.VmsShape, 400))
    async def reset(body: bodies.Reset, gateway: RouteGateway) -> Response:
        """Restart with the initial fleet, addresses and faults. Nothing else is kept."""
        _ = body, gateway
        await simulator.reset()
        return answer(await _vm_list(simulator))

    return sim


def _clock(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/clock", responses=documented(bodies.ClockShape))
    async def clock() -> Response:
        """Return the time, whether the clock is paused, and the next timer."""
        return answer(_clock_report(simulator.stage))

    @sim.post("/clock", responses=documented(bodies.ClockShape, 400))
    async def turn(body: bodies.Clock) -> Response:
        """Pause, resume, go to the next timer, or let time pass at once.

        A jump does not change the machine's clock. It brings everything pending nearer,
        including NotBefore, which therefore agrees with the clocks of clients.
        """
        stage, by = simulator.stage, body.length()
        turns: Mapping[str, Callable[[], object]] = {
            "pause": stage.pause,
            "resume": stage.resume,
            "step": stage.step,
            "jump": lambda: stage.advance(by),
        }
        turns[body.do]()
        return answer(_clock_report(stage))


def _clock_report(stage: SimServer) -> dict[str, Any]:
    due = stage.engine.plane.next_due()
    return {
        "now": format_instant(stage.engine.now),
        "paused": stage.is_paused,
        "speed": stage.engine.policy.speed,
        "next": None if due is None else format_instant(due),
    }


def _events(sim: APIRouter, simulator: Simulated) -> None:
    @sim.post(
        "/events",
        status_code=201,
        responses=documented(shapes.RequestShape, 400, 404, 409, status=201),
    )
    async def stage_event(body: bodies.Event, gateway: RouteGateway) -> Response:
        """Publish an event, even if the rules of notice forbid it.

        It is approved, started and ended like any other event. VMs on several hosts or
        in several scopes get one operation and one event for each.
        """
        stage = simulator.stage
        notice = await gateway.read(
            lambda reader: _terminate_notice(reader, body.vms[0])
        )
        request = stage.inject(
            body.wanted(stage.engine.policy, terminate_notice=notice)
        )
        report = await gateway.read(
            lambda reader: reports.request_report(
                reader, need(reader, Request, request.request_id), now=gateway.now()
            )
        )
        return answer(report, status=201)

    @sim.post(
        "/operations/{name}/move",
        responses=documented(shapes.OperationShape, 400, 404, 409),
    )
    async def move(name: str, body: bodies.Move, gateway: RouteGateway) -> Response:
        """Advance an operation to a state now, or as far as the guard allows.

        The ID of an event selects the operation behind it.
        """
        operation = await gateway.read(lambda reader: _operation_of(reader, name))
        simulator.stage.move(operation, bodies.STOPS[body.to])
        return answer(
            await gateway.read(
                lambda reader: reports.operation_report(
                    reader, need(reader, Operation, operation), now=gateway.now()
                )
            )
        )

    @sim.get("/approvals", responses=documented(bodies.ApprovalsShape))
    async def approvals() -> Response:
        """List the VMs whose approvals are withheld."""
        return answer(_approvals(simulator.stage, ()))

    @sim.post("/approvals", responses=documented(bodies.ApprovalsShape, 400, 404))
    async def hold(body: bodies.Approvals, gateway: RouteGateway) -> Response:
        """Withhold the approvals of VMs, or release them.

        A VM gets the usual answer and cannot see the difference. Nothing starts before
        the release.
        """
        stage = simulator.stage
        await gateway.read(lambda reader: [_there(reader, vm) for vm in body.vms])
        refusals: list[str] = []
        for vm in body.vms:
            if body.do == "withhold":
                stage.withheld.withhold(vm)
            else:
                refusals += stage.release(vm)
        return answer(_approvals(stage, refusals))


def _approvals(stage: SimServer, refusals: list[str] | tuple[()]) -> dict[str, Any]:
    return {"withheld": sorted(stage.withheld.vms), "refusals": list(refusals)}


def _terminate_notice(reader: Reader, vm: str) -> Micros:
    vm_stored = reader.get(Vm, vm)
    scope = None if vm_stored is None else reader.get(Scope, vm_stored.scope)
    return (scope and scope.terminate_notice) or TERMINATE_NOTICE


def _operation_of(reader: Reader, name: str) -> str:
    event = reader.get(Event, name.upper())
    if event is not None:
        return event.operation
    if reader.get(Operation, name) is None:
        raise NotFoundError(
            f"operation or event {name!r} does not exist",
            hint="Run `forewarn operations --all` to list the operations.",
        )
    return name


def _there(reader: Reader, vm: str) -> None:
    vm_stored = reader.get(Vm, vm)
    if vm_stored is None or vm_stored.state is VmState.DELETED:
        raise NotFoundError(
            f"VM {vm!r} does not exist",
            hint="Run `forewarn sim vm list` to list the VMs; names are case-sensitive.",
        )


def _vms(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/vms", responses=documented(bodies.VmsShape))
    async def vms() -> Response:
        """List the VMs with their addresses."""
        return answer(await _vm_list(simulator))

    @sim.post(
        "/vms",
        status_code=201,
        responses=documented(bodies.VmShape, 400, 409, status=201),
    )
    async def add(body: bodies.Vm, actor: Actor) -> Response:
        """Add a VM to the fleet, with a new address."""
        await simulator.add_vm(body.new(), who=Who(actor=actor, reason=body.reason))
        listed = await _vm_list(simulator)
        [report] = [vm for vm in listed["vms"] if vm["vm"] == body.name]
        return answer(report, status=201)

    @sim.delete("/vms/{name}", responses=documented(bodies.VmsShape, 404, 409))
    async def remove(name: str, actor: Actor) -> Response:
        """Remove a VM, its events and its address."""
        await simulator.remove_vm(name, who=Who(actor=actor))
        return answer(await _vm_list(simulator))


async def _vm_list(simulator: Simulated) -> dict[str, Any]:
    stage, addresses = simulator.stage, simulator.addresses()
    vms = await stage.gateway.read(in_order)
    return {
        "vms": [
            {
                "vm": vm.name,
                "url": url_of(addresses[vm.name]) if vm.name in addresses else None,
                "state": vm.state.value,
                "host": vm.host,
                "scope": vm.scope,
                "withheld": vm.name in stage.withheld.vms,
            }
            for vm in vms
        ]
    }


def _faults(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/faults", responses=documented(bodies.FaultsShape))
    async def faults() -> Response:
        """List the faults, in the order in which they are applied."""
        return answer(_fault_list(simulator.stage))

    @sim.post("/faults", responses=documented(bodies.FaultsShape, 400, 404, 409))
    async def set_faults(body: bodies.Faults, gateway: RouteGateway) -> Response:
        """Add faults, after those that are set already."""
        await gateway.read(lambda reader: [_there(reader, vm) for vm in body.vms])
        stage = simulator.stage
        try:
            stage.faults.play(parse_playbook(body.faults, vms=body.vms))
        except FaultError as error:
            raise BadRequestError(error.message, hint=error.hint) from error
        return answer(_fault_list(stage))

    @sim.post("/faults/clear", responses=documented(bodies.FaultsShape, 400, 404))
    async def clear(body: bodies.ClearFaults) -> Response:
        """Clear faults."""
        stage = simulator.stage
        for vm in body.vms or [""]:
            stage.faults.clear(vm)
        return answer(_fault_list(stage))


def _fault_list(stage: SimServer) -> dict[str, Any]:
    return {
        "faults": [
            {
                "name": rule.name,
                "vms": list(rule.playbook.vms),
                "faults": rule.steps,
                "loop": rule.playbook.loops,
                "played": rule.played,
                "over": rule.has_ended,
            }
            for rule in stage.faults.listing()
        ]
    }


def _journal(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/journal", responses=documented(bodies.JournalShape, 400, 404))
    async def journal(
        query: Annotated[bodies.JournalQuery, Query()], gateway: RouteGateway
    ) -> Response:
        """List the requests in the journal, the oldest first, with their answers."""
        journal_ = simulator.stage.journal
        entries = journal_.find(
            vm=query.vm or None,
            method=query.method.upper() or None,
            event_id=query.event or None,
            since=query.after,
            deviating=query.deviating,
        )
        if query.vm and not entries and not query.after:
            # A VM that was removed may have sent requests before.
            await gateway.read(lambda reader: _there(reader, query.vm))
        page = entries[: query.limit]
        rest = page[-1].number if len(entries) > query.limit else journal_.last
        return answer({"requests": [entry.members() for entry in page], "next": rest})
