"""The simulator's own routes on the operator API: the clock, events by hand, faults.

Everything else that can be ordered or seen is ordered and seen at the service's own
routes, beside these. Each order is one step of the stage, on its loop; nothing here
decides anything.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.admin import shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Actor, Desk
from forewarn.control.transactions.work import Who, need
from forewarn.fleet.model import Scope, Vm, VmState
from forewarn.instants import MINUTE, Micros, format_instant
from forewarn.metadata.server import Address
from forewarn.protocol.errors import BadRequestError, NotFoundError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import reports
from forewarn.service.listening import url_of
from forewarn.sim import bodies
from forewarn.sim.faults.errors import FaultError
from forewarn.sim.faults.syntax import parse_playbook
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import NewVm, in_order
from forewarn.store.port import Reader

TERMINATE_NOTICE = 5 * MINUTE
"""Of a Terminate by hand whose scope says none: the least that can be set (5.7)."""


class Simulated(Protocol):
    """What the routes need: a simulator."""

    @property
    def stage(self) -> SimServer:
        """Return the present stage."""
        ...

    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served."""
        ...

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return where it is served."""
        ...

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Take a VM out of the fleet."""
        ...

    async def reset(self) -> None:
        """Begin again as at the start."""
        ...


def router(simulator: Simulated) -> APIRouter:
    """Return the routes that ask and order `simulator`."""
    sim = APIRouter(prefix="/sim", tags=["simulator"])
    _clock(sim, simulator)
    _events(sim, simulator)
    _vms(sim, simulator)
    _faults(sim, simulator)
    _journal(sim, simulator)

    @sim.post("/reset", responses=documented(bodies.VmsShape, 400))
    async def reset(body: bodies.Reset, gateway: Desk) -> Response:
        """Begin again as at the start: fleet, addresses and faults; nothing is kept."""
        _ = body, gateway
        await simulator.reset()
        return answer(await _vm_list(simulator))

    return sim


def _clock(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/clock", responses=documented(bodies.ClockShape))
    async def clock() -> Response:
        """Tell the time, whether it stands, and when the next timer goes off."""
        return answer(_clock_report(simulator.stage))

    @sim.post("/clock", responses=documented(bodies.ClockShape, 400))
    async def turn(body: bodies.Clock) -> Response:
        """Stand still, go on, go to the next timer, or let time pass at once.

        The clock stays the machine's: a jump brings everything that is pending
        nearer, NotBefore too, so that it stays true to the clocks of its readers.
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
    async def stage_event(body: bodies.Event, gateway: Desk) -> Response:
        """Publish an event by hand, also one that the rules of notice forbid.

        It is approved, started and ended as any other. VMs on several hosts or of
        several scopes make an operation, and an event, for each.
        """
        stage = simulator.stage
        notice = await gateway.read(
            lambda reader: _terminate_notice(reader, body.vms[0])
        )
        wanted = body.wanted(stage.engine.policy, terminate_notice=notice)
        request = stage.stage(wanted)
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
    async def move(name: str, body: bodies.Move, gateway: Desk) -> Response:
        """Have an operation go on to a state now, or as far as the guard lets it.

        An event's id means the operation behind it.
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
        """Tell whose approvals are kept back."""
        return answer(_approvals(simulator.stage, ()))

    @sim.post("/approvals", responses=documented(bodies.ApprovalsShape, 400, 404))
    async def hold(body: bodies.Approvals, gateway: Desk) -> Response:
        """Keep back what VMs approve, or let it go.

        A VM is answered as ever and cannot tell; nothing follows before the release.
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
    found = reader.get(Vm, vm)
    scope = None if found is None else reader.get(Scope, found.scope)
    return (scope and scope.terminate_notice) or TERMINATE_NOTICE


def _operation_of(reader: Reader, name: str) -> str:
    event = reader.get(Event, name.upper())
    if event is not None:
        return event.operation
    if reader.get(Operation, name) is None:
        raise NotFoundError(
            f"there is no operation or event {name!r}",
            hint="`forewarn operations --all` lists them",
        )
    return name


def _there(reader: Reader, vm: str) -> None:
    found = reader.get(Vm, vm)
    if found is None or found.state is VmState.DELETED:
        raise NotFoundError(
            f"there is no vm {vm!r}",
            hint="names are case-sensitive; `forewarn sim vm list` lists them",
        )


def _vms(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/vms", responses=documented(bodies.VmsShape))
    async def vms() -> Response:
        """List the VMs with the address that each is served at."""
        return answer(await _vm_list(simulator))

    @sim.post(
        "/vms",
        status_code=201,
        responses=documented(bodies.VmShape, 400, 409, status=201),
    )
    async def add(body: bodies.Vm, actor: Actor) -> Response:
        """Add a VM to the fleet, at an address of its own."""
        await simulator.add_vm(body.new(), who=Who(actor=actor, reason=body.reason))
        listed = await _vm_list(simulator)
        [report] = [each for each in listed["vms"] if each["vm"] == body.name]
        return answer(report, status=201)

    @sim.delete("/vms/{name}", responses=documented(bodies.VmsShape, 404, 409))
    async def remove(name: str, actor: Actor) -> Response:
        """Take a VM out of the fleet; it leaves its events, and its address goes."""
        await simulator.remove_vm(name, who=Who(actor=actor))
        return answer(await _vm_list(simulator))


async def _vm_list(simulator: Simulated) -> dict[str, Any]:
    stage, addresses = simulator.stage, simulator.addresses()
    found = await stage.gateway.read(in_order)
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
            for vm in found
        ]
    }


def _faults(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/faults", responses=documented(bodies.FaultsShape))
    async def faults() -> Response:
        """List the faults that are set, in the order in which they are asked."""
        return answer(_fault_list(simulator.stage))

    @sim.post("/faults", responses=documented(bodies.FaultsShape, 400, 404, 409))
    async def set_faults(body: bodies.Faults, gateway: Desk) -> Response:
        """Have answers go wrong from now on, after what is set already."""
        await gateway.read(lambda reader: [_there(reader, vm) for vm in body.vms])
        stage = simulator.stage
        try:
            stage.faults.play(parse_playbook(body.faults, vms=body.vms))
        except FaultError as error:
            raise BadRequestError(error.message, hint=error.hint) from error
        return answer(_fault_list(stage))

    @sim.post("/faults/clear", responses=documented(bodies.FaultsShape, 400, 404))
    async def clear(body: bodies.ClearFaults) -> Response:
        """Have answers be good again."""
        stage = simulator.stage
        for vm in body.vms or [""]:
            stage.faults.clear(vm)
        return answer(_fault_list(stage))


def _fault_list(stage: SimServer) -> dict[str, Any]:
    return {
        "faults": [
            {
                "name": each.name,
                "vms": list(each.playbook.vms),
                "faults": each.steps,
                "loop": each.playbook.loops,
                "played": each.played,
            }
            for each in stage.faults.listing()
        ]
    }


def _journal(sim: APIRouter, simulator: Simulated) -> None:
    @sim.get("/journal", responses=documented(bodies.JournalShape, 400, 404))
    async def journal(
        query: Annotated[bodies.JournalQuery, Query()], gateway: Desk
    ) -> Response:
        """List the requests that were seen, the oldest first, with their answers."""
        kept = simulator.stage.journal
        found = kept.find(
            vm=query.vm or None,
            method=query.method.upper() or None,
            event_id=query.event or None,
            since=query.after,
            deviating=query.deviating,
        )
        if query.vm and not found and not query.after:
            # One that has left may have asked before.
            await gateway.read(lambda reader: _there(reader, query.vm))
        page = found[: query.limit]
        rest = page[-1].number if len(found) > query.limit else kept.last
        return answer({"requests": [each.members() for each in page], "next": rest})
