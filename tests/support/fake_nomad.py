"""A fake of Nomad's agent and servers: one client node, its allocations, its drains.

It answers as Nomad's HTTP API is documented to: a drain makes the node ineligible and
ends when its allocations have, its metadata stays as the last drain, a deadline below
zero stops what runs at once, and who may not do something gets 403. Time passes with
each look at the allocations.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.json_api import JsonApi, Request, Response

NODE_ID = "f7476465-4d6e-c0de-26d0-e383c49be941"


@dataclass(slots=True)
class Allocation:
    """Something that runs on the node."""

    name: str
    kind: str = "service"
    looks: int = 1
    """The number of polls before it ends in a drain; -1: it does not end."""
    status: str = "running"


@dataclass(slots=True)
class FakeNomad(JsonApi):
    """An agent that is client and server."""

    allocations: list[Allocation] = field(default_factory=list[Allocation])
    token: str = ""
    """The one that may do everything; empty: there are no ACLs."""
    is_client: bool = True
    is_old: bool = False
    """It keeps no last drain, as before 1.1."""
    drain: dict[str, Any] | None = field(default=None, init=False)
    eligibility: str = field(default="eligible", init=False)
    last: dict[str, Any] | None = field(default=None, init=False)
    deadlines: list[int] = field(default_factory=list[int], init=False)
    """Deadlines of all requested drains, in nanoseconds."""
    stops_system: bool = field(default=False, init=False)
    """The drain is done, and system jobs are next."""

    def begin_drain(
        self, spec: dict[str, Any], meta: dict[str, str] | None = None
    ) -> None:
        """Drain the node, or change the existing drain."""
        if self.drain is None:
            self.last = {"Status": "draining", "Meta": meta}
        assert self.last is not None
        if meta:
            self.last["Meta"] = meta
        self.drain = spec
        self.eligibility = "ineligible"
        self.deadlines.append(spec["Deadline"])
        self._settle()

    def end_drain(self, *, eligible: bool) -> None:
        """End a drain before it is done, or make a drained node eligible."""
        if self.drain is not None and self.last is not None:
            self.last["Status"] = "canceled"
        self.drain = None
        if eligible:
            self.eligibility = "eligible"

    def _settle(self) -> None:
        """Stop what is forced; end the drain when it is done."""
        if self.drain is None:
            return
        ignores = self.drain["IgnoreSystemJobs"]
        for allocation in self.allocations:
            if self.drain["Deadline"] < 0 and not (
                ignores and allocation.kind == "system"
            ):
                allocation.status = "complete"
        running = [a for a in self.allocations if a.status == "running"]
        if all(service.kind == "system" for service in running):
            assert self.last is not None
            self.last["Status"] = "complete"
            self.drain = None
            self.stops_system = not ignores

    def _pass(self) -> None:
        for allocation in self.allocations:
            is_moved = self.drain is not None and allocation.kind != "system"
            is_last = self.stops_system and allocation.kind == "system"
            if (
                allocation.status == "running"
                and (is_moved or is_last)
                and allocation.looks > 0
            ):
                allocation.looks -= 1
                allocation.status = "running" if allocation.looks else "complete"
        self._settle()

    def answer(self, request: Request) -> Response:
        if self.token and request.headers.get("x-nomad-token") != self.token:
            return Response(status=403, text="Permission denied")
        node = f"/v1/node/{NODE_ID}"
        match (request.method, request.path):
            case ("GET", "/v1/agent/self"):
                return self.answer_self()
            case ("GET", path) if path == node:
                return Response(self._node())
            case ("GET", path) if path == f"{node}/allocations":
                self._pass()
                return Response([_shown(allocation) for allocation in self.allocations])
            case ("POST" | "PUT", path) if path == f"{node}/drain":
                return self._change(request.body)
            case _:
                return Response(status=404, text="node not found")

    def answer_self(self) -> Response:
        client = {"client": {"node_id": NODE_ID}} if self.is_client else {}
        return Response({"config": {}, "member": {}, "stats": client})

    def _node(self) -> dict[str, Any]:
        node = {
            "ID": NODE_ID,
            "Name": "worker-1",
            "Status": "ready",
            "DrainStrategy": self.drain,
            "SchedulingEligibility": self.eligibility,
        }
        return node if self.is_old else {**node, "LastDrain": self.last}

    def _change(self, body: dict[str, Any]) -> Response:
        if body["DrainSpec"] is None:
            self.end_drain(eligible=bool(body.get("MarkEligible")))
        else:
            self.begin_drain(dict(body["DrainSpec"]), body.get("Meta"))
        return Response({"EvalIDs": None, "NodeModifyIndex": 3})


def _shown(allocation: Allocation) -> dict[str, Any]:
    return {
        "ID": f"id-of-{allocation.name}",
        "Name": allocation.name,
        "ClientStatus": allocation.status,
        "DesiredStatus": "run",
        "Job": {"Type": allocation.kind},
    }
