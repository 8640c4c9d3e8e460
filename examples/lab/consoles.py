"""The consoles of guests as lines of a timeline, with the logs of relays."""

import json
import threading
import time
from collections import defaultdict
from typing import Any

from examples.demo_parts.timeline import Timeline
from examples.lab.hosts import Ground
from examples.lab.relays import Relays

LOOK_SECONDS = 0.1


class Consoles:
    """Shows each new line of each guest's console and relay, until it is closed."""

    def __init__(
        self, ground: Ground, relays: Relays, timeline: Timeline, vms: list[str]
    ) -> None:
        """Show nothing yet."""
        self._ground, self._relays, self._timeline = ground, relays, timeline
        self._vms = vms
        self._shown: dict[tuple[str, str], int] = defaultdict(int)
        self._last: dict[str, dict[str, Any]] = {}
        """The last document of each guest that asks by itself."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.seen: dict[str, list[str]] = defaultdict(list)
        """The lines of each guest that were shown."""
        self.first_event: float | None = None
        """The monotonic time at which a guest was first shown to see an event."""

    def open(self) -> None:
        """Begin to show lines."""
        self._thread.start()

    def close(self) -> None:
        """Stop showing lines."""
        self._is_over.set()
        self._thread.join()

    def has_seen(self, vm: str, text: str, *, after: int = 0) -> bool:
        """Return whether a line of a guest has a text; `after`: not the first ones."""
        return any(text in line for line in self.seen[vm][after:])

    def count(self, vm: str) -> int:
        """Return how many lines of a guest were shown."""
        return len(self.seen[vm])

    def _follow(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self._relays.show_news()
            for vm in self._vms:
                for host in self._ground.hosts:
                    self._show_new(vm, host)

    def _show_new(self, vm: str, host: str) -> None:
        lines = self._ground.said(vm, host)
        for line in lines[self._shown[vm, host] :]:
            for text in self._meant(vm, line):
                is_event = text.startswith("sees ") or text == "agent: seen"
                if self.first_event is None and is_event:
                    self.first_event = time.monotonic()
                self.seen[vm].append(text)
                self._timeline.say(vm, f"{text}  ({host})", tenant="shop")
            self._shown[vm, host] += 1

    def _meant(self, vm: str, line: str) -> list[str]:
        word, _, rest = line.strip().partition(" ")
        if word == "NETWORK":
            return ["has its network"]
        if word == "BOOT":
            return ["boots"]
        if word == "APPROVED":
            return [f"approves: {' '.join(rest.split()[2:])}"]
        if "watching http" in line:
            return ["agent: watches its events"]
        if word == "DOCUMENT":
            return self._news(vm, rest.partition(" ")[2])
        if line.strip() in {"out of the pool", "back in the pool"}:
            return [f"agent: {line.strip()}"]
        if line.startswith("{") and '"kind"' in line:
            return self._told(line)
        return []

    def _told(self, line: str) -> list[str]:
        """Return the news in a notification of the agent."""
        try:
            kind = json.loads(line)["kind"]
        except (ValueError, KeyError):
            return []
        return [f"agent: {kind}"]

    def _news(self, vm: str, text: str) -> list[str]:
        """Return the news in a document."""
        try:
            events = {event["EventId"]: event for event in json.loads(text)["Events"]}
        except (ValueError, KeyError):
            return []
        before, self._last[vm] = self._last.get(vm), events
        if before is None:
            return ["has its first document"]
        news = [
            f"sees {event['EventType']} {event['EventStatus']}"
            for name, event in events.items()
            if before.get(name, {}).get("EventStatus") != event["EventStatus"]
        ]
        news += (
            f"sees the end of {event['EventType']}"
            for name, event in before.items()
            if name not in events
        )
        return news
