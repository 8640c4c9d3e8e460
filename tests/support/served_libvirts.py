"""A service for one VM on two real libvirts, and what an operator reads about it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.processes import Serving, eventually
from tests.support.real_libvirts import RealLibvirts

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[scope]]
name = "web"
kind = "scale-set"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
listen = "127.0.0.1:0"
"""

ENDED = frozenset({"Done", "Failed", "Cancelled"})


class World:
    """A service for the hosts."""

    def __init__(
        self, directory: Path, libvirts: RealLibvirts, **settings: str
    ) -> None:
        usual = {
            "driver_kind": "libvirt",
            "driver_libvirt_python": libvirts.python,
            "driver_libvirt_uri": libvirts.uri,
            "driver_libvirt_data_uri": libvirts.data_uri,
            "driver_libvirt_freeze": "1s",
            "driver_libvirt_shutdown_timeout": "1s",
            "driver_libvirt_reimage": "true",
            "driver_attempts": "1",
            "driver_retry_delay": "1s",
            "driver_sighting_confirm": "1s",
            "timing_recovery": "200ms",
        }
        self._directory, self._settings = directory, {**usual, **settings}
        self.begin()
        self.service.document("web_0")

    def begin(self) -> None:
        """Start the service, at first or again."""
        self.service = Serving(self._directory, FLEET, **self._settings).wait_ready()

    def order(self, verb: str, **body: Any) -> str:
        """Request work; return the name of its operation."""
        response = self.service.admin(f"/v1/{verb}", body)
        [operation] = response["operations"]
        return str(operation["operation"])

    def operation(self, name: str) -> dict[str, Any]:
        """Return an operation."""
        response: dict[str, Any] = self.service.admin(f"/v1/operations/{name}")
        return response

    def ended(self, name: str) -> dict[str, Any]:
        """Return an operation at its end."""
        return eventually(
            lambda: self.operation(name), lambda operation: operation["state"] in ENDED
        )

    def maintain(self, impact: str) -> dict[str, Any]:
        """Maintain h1 with the approval of the VM; return the operation at its end."""
        return self.ended(self.start(impact))

    def start(self, impact: str, **more: Any) -> str:
        """Start maintenance of h1 with the approval of the VM; return its name."""
        name = self.order("maintain", hosts=["h1"], impact=impact, **more)
        [event] = self.service.document("web_0")["Events"]
        assert self.service.approve("web_0", event["EventId"]) == 200
        return name

    def down_seconds(self) -> float:
        """Return how long the VM was down."""
        [vm] = self.service.admin("/v1/availability?vm=web_0")["vms"]
        # All of it was measured.
        assert vm["at_most_seconds"] == 0
        return float(vm["down_seconds"])

    def events(self) -> list[dict[str, Any]]:
        """Return the events that the VM sees."""
        events: list[dict[str, Any]] = self.service.document("web_0")["Events"]
        return events

    # Requests of an operator

    def problems(self) -> str:
        """Return what `forewarn problems` has."""
        return json.dumps(self.service.admin("/v1/problems"))

    def explained(self, name: str) -> str:
        """Return what `forewarn explain` has."""
        return json.dumps(self.service.admin(f"/v1/explain/{name}"))

    def history(self) -> str:
        """Return what `forewarn history` has."""
        return json.dumps(self.service.admin("/v1/history?vm=web_0"))

    def read(self, read: Callable[[], str], *parts: str) -> str:
        """Return a text when it has all of these parts."""
        return eventually(
            read, lambda text: all(part in text for part in parts), what=str(parts)
        )
