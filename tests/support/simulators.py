"""A simulator in this process, for synchronous tests."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from forewarn.service.listening import url_of
from forewarn.sim.choices import choices_router
from forewarn.sim.loop import LoopThread
from forewarn.sim.news import News, Reporter
from forewarn.sim.playlist import PlayOptions
from forewarn.sim.positions import Addresses, parse_places
from forewarn.sim.simulator import Simulator, Terms

T = TypeVar("T")

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"

ANYWHERE = Addresses(vms=parse_places("127.0.0.1:0"), admin=("127.0.0.1", 0))

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SECONDS = 120


class Simulation:
    """A simulator with its news and clients."""

    def __init__(self, loop: LoopThread, terms: Terms, addresses: Addresses) -> None:
        self.loop = loop
        self.news: list[News] = []
        self.reporter = Reporter(self.news.append, tells_deviations=True)
        self.simulator = loop.call(lambda: Simulator(terms, addresses))
        self.simulator.on_stage.append(self.reporter.follow)
        self.simulator.on_served.append(self.reporter.serve)
        self.simulator.on_publish.append(self.reporter.publish)
        self.simulator.routers.append(
            choices_router(self.simulator, self.reporter, PlayOptions())
        )
        loop.wait(self.simulator.start())

    def url(self, vm: str = "web_0") -> str:
        """Return the address of a VM."""
        return url_of(self.loop.call(self.simulator.addresses)[vm])

    def ask(
        self,
        where: str,
        body: object = None,
        *,
        method: str | None = None,
        token: str = "",
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(
            where,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Metadata": "true",
                "Content-Type": "application/json",
                **bearer,
            },
            method=method,
        )
        try:
            with _DIRECT.open(request, timeout=SECONDS) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def document(self, vm: str = "web_0") -> dict[str, Any]:
        """Return a VM's document."""
        status, document = self.ask(self.url(vm) + EVENTS)
        assert status == 200, document
        return document

    def events(self, vm: str = "web_0") -> list[dict[str, Any]]:
        """Return the events of a VM's document."""
        return self.document(vm)["Events"]

    def approve(self, event_id: str, vm: str = "web_0") -> int:
        """Approve as a VM; return the status."""
        body = {"StartRequests": [{"EventId": event_id}]}
        return self.ask(self.url(vm) + EVENTS, body)[0]

    def sim(self, path: str, body: object = None, *, method: str | None = None) -> Any:
        """Return the answer of a route of the simulator; fail for an error."""
        status, answer = self.api(f"sim/{path}", body, method=method)
        assert status < 300, answer
        return answer

    def api(
        self,
        path: str,
        body: object = None,
        *,
        method: str | None = None,
        token: str = "",
    ) -> tuple[int, Any]:
        """Return the status and the answer of the operator API."""
        address = self.simulator.admin_address
        assert address is not None
        where = f"{url_of(address)}/v1/{path}"
        return self.ask(where, body, method=method, token=token)

    def call(self, act: Callable[[Simulator], T]) -> T:
        """Call a function with the simulator on its loop."""
        return self.loop.call(lambda: act(self.simulator))


@contextmanager
def simulation(
    loop: LoopThread, terms: Terms | None = None, addresses: Addresses = ANYWHERE
) -> Generator[Simulation]:
    """Provide a simulator during a block."""
    running = Simulation(loop, terms or Terms(), addresses)
    try:
        yield running
    finally:
        loop.wait(running.simulator.stop())
