"""An independent reader: it asks all replicas for the documents of all VMs, and judges.

    python replica_reader.py REPLICA=HOST:PORT … VM=ADDRESS …

A VM asks from its own address. This program knows nothing of forewarn but documents, and
loads nothing of it. When its standard input ends, it prints one line of JSON:

- `faults`: sentences, one for each broken promise
- `answers`: how many answers of each status there were; `none` is a failed connection
- `longest`: the longest time in seconds in which a VM got no document anywhere
- `scheduled`: for each event, when a document was last asked for that showed it Scheduled

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
"""How old a document may be: the read lease of a replica."""

SLACK_SECONDS = 0.5
"""For the time between a commit and its first answer."""

PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 60
"""Longer than a replica is paused."""

ORDER = ("Scheduled", "Started", "gone")


class Reader:
    """What all replicas have answered."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.faults: list[str] = []
        self.answers: dict[str, int] = {}
        self.scheduled: dict[str, float] = {}
        self.longest = 0.0
        self.served: dict[str, float] = {}
        self.seen: dict[tuple[str, str], int] = {}
        self.statuses: dict[tuple[str, str], dict[str, str]] = {}
        self.raised: dict[str, list[tuple[float, int]]] = {}
        """For each VM, when an answer with a higher incarnation came, from any replica."""

    def read(self, replica: str, address: str, vms: dict[str, str]) -> None:
        """Ask one replica, until the end."""
        host, _, port = address.rpartition(":")
        links: dict[str, http.client.HTTPConnection] = {}
        while not self.over.wait(PAUSE_SECONDS):
            for vm, source in vms.items():
                link = links.get(vm)
                if link is None:
                    link = links[vm] = http.client.HTTPConnection(
                        host,
                        int(port),
                        timeout=TIMEOUT_SECONDS,
                        source_address=(source, 0),
                    )
                asked = time.monotonic()
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
                        self.hear(replica, vm, json.loads(body), asked)

    def count(self, status: str) -> None:
        """Count an answer."""
        with self.lock:
            self.answers[status] = self.answers.get(status, 0) + 1

    def hear(
        self, replica: str, vm: str, document: dict[str, Any], asked: float
    ) -> None:
        """Judge a document that was asked for at `asked` and has come now."""
        now, number = time.monotonic(), document["DocumentIncarnation"]
        self.longest = max(self.longest, now - self.served.get(vm, now))
        self.served[vm] = now
        last = self.seen.get((replica, vm), 0)
        if number < last:
            self.faults.append(f"{replica}: {vm} went back from {last} to {number}")
        self.seen[replica, vm] = number
        raised = self.raised.setdefault(vm, [])
        before = asked - STALE_SECONDS - SLACK_SECONDS
        oldest = max((each for at, each in raised if at < before), default=0)
        if number < oldest:
            self.faults.append(
                f"{replica}: {vm} got {number}, and {oldest} was served long before"
            )
        if not raised or number > raised[-1][1]:
            raised.append((now, number))
        self.follow(replica, vm, document["Events"], asked)

    def follow(
        self, replica: str, vm: str, events: list[dict[str, str]], asked: float
    ) -> None:
        """Judge the statuses of events, which only go forward."""
        known = self.statuses.setdefault((replica, vm), {})
        shown = {each["EventId"]: each["EventStatus"] for each in events}
        for event, status in shown.items():
            before = known.get(event, status)
            if ORDER.index(status) < ORDER.index(before):
                self.faults.append(f"{replica}: {vm}: {event} was {before}: {status}")
            if status == "Scheduled":
                self.scheduled[event] = max(asked, self.scheduled.get(event, 0.0))
        known.update({event: "gone" for event in known if event not in shown})
        known.update(shown)

    def result(self) -> str:
        """Return what it has to say."""
        return json.dumps(
            {
                "faults": self.faults,
                "answers": self.answers,
                "longest": self.longest,
                "scheduled": self.scheduled,
            }
        )


def main(words: list[str]) -> None:
    """Read until the standard input ends."""
    pairs = [word.split("=") for word in words]
    vms = {name: at for name, at in pairs if ":" not in at}
    reader = Reader()
    threads = [
        threading.Thread(target=reader.read, args=(name, at, vms))
        for name, at in pairs
        if ":" in at
    ]
    for each in threads:
        each.start()
    sys.stdin.read()
    reader.over.set()
    for each in threads:
        each.join()
    print(reader.result())  # noqa: T201 - the program's answer


if __name__ == "__main__":
    main(sys.argv[1:])
