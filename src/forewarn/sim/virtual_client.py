"""A client in a VM on a virtual clock, without a socket.

The journal has its requests like those of programs on sockets, so a scenario can judge
it like any other client.
"""

import json
from http import HTTPStatus

from forewarn.metadata.endpoint import Hold
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.sim.engine import EngineControlGateway, World
from forewarn.sim.journal import JournalEntry
from forewarn.sim.sim_server import SimServer

_PATH = "/metadata/scheduledevents"
_GET = Request(
    method="GET",
    path=_PATH,
    query="api-version=2020-07-01",
    headers={"metadata": ("true",)},
)


class VirtualClient:
    """The client in one VM."""

    def __init__(self, stage: SimServer, name: str) -> None:
        """Run in the VM `name` of a simulated server with a virtual clock."""
        assert isinstance(stage.engine, World), "the clock is not virtual"
        self.name = name
        self._stage = stage
        self._world = stage.engine
        self._gateway = EngineControlGateway(
            stage.engine, withheld=stage.withheld, wake=lambda: None
        )

    def get(self) -> Response:
        """Get the document; if the answer is delayed, advance the clock until it comes."""
        world, again = self._world, False
        while True:
            answer = world.endpoint.handle(
                _GET,
                Source(address="", vm=self.name),
                now=world.now,
                monotonic=world.clock.monotonic(),
                again=again,
            )
            if isinstance(answer, Response):
                self._note("GET", answer.status)
                return answer
            again = True
            if isinstance(answer, Hold):
                world.advance_to(answer.until)
            else:
                world.plane.enable(self.name, now=world.now)

    def approve(self, *event_ids: str) -> str:
        """Approve events; return the reason of a refusal, or an empty text."""
        approving = self._gateway.approve(self.name, list(event_ids))
        refusal = ""
        try:
            approving.send(None)
        except StopIteration as answered:
            refusal = answered.value or ""
        status = HTTPStatus.BAD_REQUEST if refusal else HTTPStatus.OK
        self._note("POST", int(status), event_ids)
        return refusal

    def _note(self, method: str, status: int, approved: tuple[str, ...] = ()) -> None:
        requests = [{"EventId": event_id} for event_id in approved]
        body = json.dumps({"StartRequests": requests}).encode() if approved else b""
        self._stage.journal.add(
            JournalEntry(
                number=self._stage.journal.last + 1,
                at=self._stage.engine.now,
                vm=self.name,
                address="127.0.0.1",
                request=Request(method=method, path=_PATH, body=body),
                status=status,
                genuine=status,
                fault="",
                deviations=(),
                approved=approved,
            )
        )
