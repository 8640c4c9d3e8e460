"""Small clients that act as VMs; they know only the metadata address."""

import http.client
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from demo_parts.timeline import Timeline

POLL_SECONDS = 0.2
"""Seconds between polls; one second is usual."""

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
HEADERS = {"Metadata": "true"}
TENANTS = {"web": "shop", "db": "bank"}


class NotSeenError(Exception):
    """A client did not see an expected event."""


class Vm:
    """A VM that polls its document and records the statuses of each event."""

    def __init__(self, name: str, port: int, timeline: Timeline) -> None:
        """Act as the VM with this name, whose metadata address has this port."""
        self.name = name
        self._port = port
        self._timeline = timeline
        self._tenant = TENANTS[name.split("_", maxsplit=1)[0]]
        self._now: dict[str, dict[str, Any]] = {}
        self._history: dict[str, list[str]] = {}
        self._named: set[tuple[str, str]] = set()
        """The pairs of event type and named VM seen so far."""
        self._incarnation = 0
        self._changed = threading.Condition()

    def poll(self) -> None:
        """Request the document once."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", PATH, headers=HEADERS)
            answer = connection.getresponse()
            body = answer.read()
        except OSError:
            return
        finally:
            connection.close()
        if answer.status == http.client.OK:
            self._take(json.loads(body))

    def _take(self, document: dict[str, Any]) -> None:
        events = {event["EventId"]: event for event in document["Events"]}
        with self._changed:
            for event_id, event in events.items():
                seen = self._history.setdefault(event_id, [])
                self._named.update(
                    (event["EventType"], name) for name in event["Resources"]
                )
                if not seen or seen[-1] != event["EventStatus"]:
                    seen.append(event["EventStatus"])
                    self._tell(event)
            for event_id in self._now.keys() - events.keys():
                self._say(f"{short(event_id)} is gone")
            self._now = events
            self._incarnation = document["DocumentIncarnation"]
            self._changed.notify_all()

    def _tell(self, event: dict[str, Any]) -> None:
        when = f", not before {event['NotBefore'][17:25]}" if event["NotBefore"] else ""
        names = ", ".join(event["Resources"])
        self._say(
            f"sees {short(event['EventId'])} {event['EventType']} of {names}: "
            f"{event['EventStatus']}{when}"
        )

    def _say(self, what: str) -> None:
        # The whole scope sees the same, so one VM per tenant reports it.
        if self.name.endswith("_0"):
            self._timeline.say(self.name, what, tenant=self._tenant)

    def approve(self, event_id: str) -> None:
        """Approve an event."""
        self._timeline.say(
            self.name, f"approves {short(event_id)}", tenant=self._tenant, bold=True
        )
        body = json.dumps({"StartRequests": [{"EventId": event_id}]})
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        connection.request("POST", PATH, body=body, headers=HEADERS)
        status = connection.getresponse().status
        connection.close()
        if status != http.client.OK:
            raise NotSeenError(f"{self.name} approved and got {status}")

    # Results

    def wait_enabled(self, *, within: float) -> bool:
        """Wait for a first document."""
        return self._wait(lambda: self._incarnation > 0, within)

    def wait_event(
        self, status: str, event_type: str, resource: str, *, within: float
    ) -> str:
        """Wait for an event of this type that names the VM; return its id."""

        def find() -> str:
            for event_id, event in self._now.items():
                if (event["EventStatus"], event["EventType"]) == (
                    status,
                    event_type,
                ) and resource in event["Resources"]:
                    return event_id
            return ""

        if not self._wait(lambda: find() != "", within):
            raise NotSeenError(
                f"{self.name} never saw a {event_type} of {resource} {status}"
            )
        return find()

    def wait_status(self, event_id: str, status: str, *, within: float) -> bool:
        """Wait until the event has been seen in this status."""
        return self._wait(lambda: status in self._history.get(event_id, ()), within)

    def wait_gone(self, event_id: str, *, within: float) -> bool:
        """Wait until the event is no longer listed."""
        return self._wait(lambda: event_id not in self._now, within)

    def status_of(self, event_id: str) -> str:
        """Return the last seen status of the event."""
        return self._now[event_id]["EventStatus"]

    def source_of(self, event_id: str) -> str:
        """Return the source of the event."""
        return self._now[event_id]["EventSource"]

    def history_of(self, event_id: str) -> list[str]:
        """Return all seen statuses of the event."""
        return self._history[event_id]

    def was_named(self, event_type: str, resource: str) -> bool:
        """Return whether an event of this type that names the VM was seen."""
        return (event_type, resource) in self._named

    def _wait(self, happened: Callable[[], bool], within: float) -> bool:
        with self._changed:
            return self._changed.wait_for(happened, timeout=within)


def short(event_id: str) -> str:
    """Return a part of an EventId that distinguishes it from others."""
    return event_id[:8]


@contextmanager
def watching(ports: dict[str, int], timeline: Timeline) -> Generator[dict[str, Vm]]:
    """Let every VM poll in a separate thread until the end."""
    vms = {name: Vm(name, port, timeline) for name, port in ports.items()}
    over = threading.Event()

    def poll(vm: Vm) -> None:
        while not over.wait(POLL_SECONDS):
            vm.poll()

    threads = [
        threading.Thread(target=poll, args=(vm,), daemon=True) for vm in vms.values()
    ]
    for thread in threads:
        thread.start()
    try:
        yield vms
    finally:
        over.set()
        for thread in threads:
            thread.join()
