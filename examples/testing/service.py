"""A small service that runs in a VM: it works, and leaves in time when it must.

It watches the Scheduled Events of its VM. Before its VM goes (Preempt, Terminate,
Redeploy, Reboot) it finishes what it has in hand, and then approves, so that nobody
waits for longer than it needs. A Freeze of a few seconds does not matter to it.
"""

import json
import os
import queue
import threading
import urllib.request
from typing import Any, Self

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 10.0

# The metadata address is never reached through a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Service:
    """Takes jobs until it must go."""

    def __init__(self, name: str, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Be the service of the VM `name`."""
        self.name = name
        self.jobs: queue.Queue[str] = queue.Queue()
        self.done: list[str] = []
        self.is_leaving = False
        self._poll_seconds = poll_seconds
        self._approved: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        self._ends.set()
        self._thread.join()

    def look(self) -> None:
        """Ask once, and do what has to be done."""
        for event in self._ask()["Events"]:
            if (
                self.name not in event["Resources"]
                or event["EventId"] in self._approved
            ):
                continue
            if event["EventType"] != "Freeze":
                self._leave()
            if event["EventStatus"] == "Scheduled":
                self._ask({"StartRequests": [{"EventId": event["EventId"]}]})
                self._approved.add(event["EventId"])

    def _leave(self) -> None:
        self.is_leaving = True
        while not self.jobs.empty():
            self.done.append(self.jobs.get())

    def _ask(self, body: object = None) -> Any:
        request = urllib.request.Request(
            os.environ.get("FOREWARN_ENDPOINT", "http://169.254.169.254") + PATH,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Metadata": "true"},
        )
        with _OPENER.open(request, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read()
        # The answer to an approval is empty; a document never is.
        return json.loads(text) if body is None else None

    def _run(self) -> None:
        while not self._ends.wait(self._poll_seconds):
            try:
                self.look()
            except (OSError, ValueError, KeyError):
                # Whatever is wrong with an answer, the next one may be better.
                continue
