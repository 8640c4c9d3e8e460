"""An independent reader: it requests the documents of all VMs from all replicas, and checks them.

    python replica_reader.py REPLICA=HOST:PORT … VM=ADDRESS …

Each VM has an address of its own. The program imports nothing of forewarn. When its standard input ends, it prints one line of JSON:

- `errors`: sentences, one for each violated guarantee
- `answers`: the number of responses by status; `none` is a failed connection
- `longest`: the longest time in seconds in which a VM got no document anywhere
- `scheduled`: for each event, the time of the last request whose document had it Scheduled

Times are seconds of the machine's monotonic clock.
"""

import http.client
import json
import sys
import threading
import time  # noqa: TID251 - it is independent of forewarn
from typing import Any

PATH = "/metadata/scheduledevents?api-version=2020-07-01"

STALE_SECONDS = 5.0
"""Maximum age of a document: the read lease of a replica."""

SLACK_SECONDS = 0.5
"""Time allowed between a commit and its first response."""

PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 60
"""Longer than a replica is paused."""

ORDER = ("Scheduled", "Started", "gone")


class Reader:
    """Polls all replicas, and checks their documents against each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stops = threading.Event()
        self.errors: list[str] = []
        self.answers: dict[str, int] = {}
        self.scheduled: dict[str, float] = {}
        self.longest = 0.0
        self.served: dict[str, float] = {}
        self.incarnations: dict[tuple[str, str], int] = {}
        self.statuses: dict[tuple[str, str], dict[str, str]] = {}
        self.raised: dict[str, list[tuple[float, int]]] = {}
        """For each VM, the times at which a replica first served a higher incarnation."""

    def read(self, replica: str, address: str, vms: dict[str, str]) -> None:
        """Poll one replica until `stops` is set."""
        host, _, port = address.rpartition(":")
        links: dict[str, http.client.HTTPConnection] = {}
        while not self.stops.wait(PAUSE_SECONDS):
            for vm, source in vms.items():
                link = links.get(vm)
                if link is None:
                    link = links[vm] = http.client.HTTPConnection(
                        host,
                        int(port),
                        timeout=TIMEOUT_SECONDS,
                        source_address=(source, 0),
                    )
                asked_at = time.monotonic()
                try:
                    link.request("GET", PATH, headers={"Metadata": "true"})
                    answer = link.getresponse()
                    body = answer.read()
                except (OSError, http.client.HTTPException):
                    link.close()
                    self.count("none")
                    continue
                self.count(str(answer.status))
                if answer.status == 200:
                    with self.lock:
                        self.check_document(replica, vm, json.loads(body), asked_at)

    def count(self, status: str) -> None:
        """Count a response."""
        with self.lock:
            self.answers[status] = self.answers.get(status, 0) + 1

    def check_document(
        self, replica: str, vm: str, document: dict[str, Any], asked_at: float
    ) -> None:
        """Check a document that was requested at `asked_at` and has just arrived."""
        now, number = time.monotonic(), document["DocumentIncarnation"]
        self.longest = max(self.longest, now - self.served.get(vm, now))
        self.served[vm] = now
        last = self.incarnations.get((replica, vm), 0)
        if number < last:
            self.errors.append(f"{replica}: {vm} went back from {last} to {number}")
        self.incarnations[replica, vm] = number
        raised = self.raised.setdefault(vm, [])
        before = asked_at - STALE_SECONDS - SLACK_SECONDS
        oldest = max((error for at, error in raised if at < before), default=0)
        if number < oldest:
            self.errors.append(
                f"{replica}: {vm} got {number}, and {oldest} was served long before"
            )
        if not raised or number > raised[-1][1]:
            raised.append((now, number))
        self.check_statuses(replica, vm, document["Events"], asked_at)

    def check_statuses(
        self, replica: str, vm: str, events: list[dict[str, str]], asked_at: float
    ) -> None:
        """Check that the statuses of events only go forward."""
        last = self.statuses.setdefault((replica, vm), {})
        statuses = {event["EventId"]: event["EventStatus"] for event in events}
        for event, status in statuses.items():
            before = last.get(event, status)
            if ORDER.index(status) < ORDER.index(before):
                self.errors.append(f"{replica}: {vm}: {event} was {before}: {status}")
            if status == "Scheduled":
                self.scheduled[event] = max(asked_at, self.scheduled.get(event, 0.0))
        last.update({event: "gone" for event in last if event not in statuses})
        last.update(statuses)

    def result(self) -> str:
        """Return the result as JSON."""
        return json.dumps(
            {
                "errors": self.errors,
                "answers": self.answers,
                "longest": self.longest,
                "scheduled": self.scheduled,
            }
        )


def main(arguments: list[str]) -> None:
    """Read until the standard input ends."""
    pairs = [word.split("=") for word in arguments]
    vms = {name: at for name, at in pairs if ":" not in at}
    reader = Reader()
    threads = [
        threading.Thread(target=reader.read, args=(name, at, vms))
        for name, at in pairs
        if ":" in at
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    reader.stops.set()
    for thread in threads:
        thread.join()
    print(reader.result())  # noqa: T201 - the program's result


if __name__ == "__main__":
    main(sys.argv[1:])
