"""The worker that watches some hosts and answers questions: JSON Lines over its pipes.

Lines in:

    {"hosts": ["h1", "h2"]}                              # the hosts from now on
    {"id": 7, "of": ["h1", "h2"], "vms": ["web_0"], "marks": false}      # a question
    {"id": 8, "of": ["h1"], "vms": [], "marks": false, "places": {"h1": ["web_0"]}}

Lines out:

    {"id": 7, "host": "h1", "found": [{"vm": "web_0", "presence": "here"}]}
    {"id": 8, "host": "h1", "found": [{"vm": "web_0", …, "cannot": {"stop": "…"}}]}
    {"id": 7, "host": "h2", "error": "h2 cannot be reached: …"}
    {"seen": {"vm": "web_0", "running": false, "host": "h1", "cause": "failed", …}}
    {"connection": "h2", "trouble": "h2 cannot be reached: …"}   # empty: it stands
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

from .hosts import Hosts
from .watching import HostThread, Say


class Server:
    """The hosts of one worker."""

    def __init__(self, hosts: Hosts, say: Say) -> None:
        """Watch nothing yet; `say` gets each line, from any thread."""
        self._hosts = hosts
        self._say = say
        self._threads: dict[str, HostThread] = {}

    def run(self, lines: Iterable[str]) -> None:
        """Handle lines until they end, because the service has ended."""
        for line in lines:
            self.handle(json.loads(line))

    def handle(self, line: dict[str, Any]) -> None:
        """Handle one line."""
        if "hosts" in line:
            self._watch(line["hosts"])
            return
        for host in line["of"]:
            if host in self._threads:
                self._threads[host].ask(line)

    def _watch(self, hosts: list[str]) -> None:
        for host in set(self._threads) - set(hosts):
            self._threads.pop(host).end()
        for host in hosts:
            if host not in self._threads:
                thread = HostThread(host, self._hosts, self._say)
                self._threads[host] = thread
                thread.start()


def printer() -> Say:
    """Return a function that prints a line at once, from any thread."""
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        text = json.dumps(line)
        with lock:
            print(text, flush=True)

    return say
