"""Fake libvirts, and the worker's code in the process of a test."""

import dataclasses
import threading
from pathlib import Path
from typing import Any, ClassVar

from forewarn.drivers.libvirt.worker import actions, probing
from forewarn.drivers.libvirt.worker.domains import Domains
from forewarn.drivers.libvirt.worker.hosts import Hosts, run_events
from forewarn.drivers.libvirt.worker.orders import Mark, Order, settings_from
from tests.support.fake_libvirts import FakeLibvirts


class Living:
    """The hosts of one test, each with a fake libvirt."""

    made: ClassVar[list["Living"]] = []
    """Those of the present test, which its end ends."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.libvirts = FakeLibvirts(directory, "h1", "h2")
        self.stop = threading.Event()
        usual: dict[str, Any] = {"freeze": 0.01, "shutdown": 0.5, "connect": 60.0}
        connections = self.libvirts.connections(**{**usual, **settings})
        text = connections.text.replace("\\u007b", "{")
        self.hosts = Hosts(self.libvirts.api, settings_from(text))
        self.said: list[str] = []
        """The lines about work while it runs."""
        self.domains = Domains(self.hosts, self.stop, say=self.said.append)
        run_events(self.libvirts.api)
        Living.made.append(self)

    def end(self) -> None:
        """End the threads."""
        self.stop.set()
        self.libvirts.api.end()

    def do(
        self,
        action: str,
        *,
        operation: str = "op-1.1",
        host: str = "h1",
        to_host: str = "",
        seconds: float = -1,
    ) -> tuple[int, list[str]]:
        """Carry an action out on web_0."""
        order = order_of(action, operation, host, to_host, seconds)
        return actions.carry_out(self.domains, order)

    def probe(
        self, action: str, *, operation: str = "op-1.1", to_host: str = ""
    ) -> int:
        """Probe an action on web_0."""
        order = order_of(action, operation, "h1", to_host, -1)
        return probing.probe(self.domains, order)[0]

    def probed_text(self, action: str) -> list[str]:
        """Return the output of a probe."""
        order = order_of(action, "op-1.1", "h1", "", -1)
        return probing.probe(self.domains, order)[1]

    def leave(self, action: str, *, operation: str = "op-1.1", **mark: Any) -> None:
        """Leave the mark of a call whose program was lost then."""
        domain = self.domains.need("web_0", "h1")
        order = order_of(action, operation, "h1", "", -1)
        self.domains.write_mark(domain, dataclasses.replace(order.mark, **mark))

    def mark(self, host: str = "h1") -> tuple[str, str]:
        """Return the text and the state of the mark of web_0."""
        mark = self.domains.read_mark(self.domains.need("web_0", host))
        assert mark is not None
        return mark.text, mark.state

    def state(self, host: str = "h1") -> list[int]:
        """Return the state of web_0."""
        state: list[int] = self.libvirts.domain("web_0", host).state()
        return state

    def has(self, host: str) -> bool:
        """Return whether a host has a domain web_0."""
        return self.domains.find("web_0", host) is not None


def order_of(
    action: str, operation: str, host: str, to_host: str, seconds: float
) -> Order:
    """Return an order for web_0."""
    mark = Mark(f"{operation}.{action}")
    return Order(action, "web_0", host, to_host, seconds, mark)
