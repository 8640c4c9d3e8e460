"""Services as real processes, and how to talk to them."""

import json
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from forewarn.clock import SystemClock
from tests.support.forked import PATIENCE_SECONDS, loaded, started

T = TypeVar("T")

POLL_SECONDS = 0.02

PAUSE_FACTOR = 3
"""Pause after a question, in multiples of the time that it took."""

_SERVING = re.compile(r"serving (.+) at (https?://\S+)")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def eventually(
    ask: Callable[[], T],
    is_right: Callable[[T], bool],
    *,
    what: str = "",
    seconds: float = PATIENCE_SECONDS,
) -> T:
    """Return the first answer that is right; fail with the last if none is."""
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + seconds
    while True:
        began = clock.monotonic()
        answer = ask()
        now = clock.monotonic()
        if is_right(answer):
            return answer
        assert now < deadline, f"{what or 'it'} did not come: {answer!r}"
        # A question that starts a program delays what it waits for.
        pause.wait(max(POLL_SECONDS, PAUSE_FACTOR * (now - began)))


def http(
    url: str, body: object = None, *, seconds: float = PATIENCE_SECONDS
) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; a POST where there is a body."""
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Metadata": "true", "Content-Type": "application/json"},
    )
    try:
        with _DIRECT.open(request, timeout=seconds) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text else None


class Serving:
    """A process of `forewarn serve`.

    Without a command that starts it, it is forked from a process with loaded modules.
    """

    is_forked = True

    def __init__(
        self,
        directory: Path,
        fleet: str | None,
        under: Sequence[str] = (),
        space: str = "",
        clock: str = "",
        **settings: str,
    ) -> None:
        """Start it in `directory`, by the command `under`, if there is one.

        A forked one can be in a network namespace, `space`, and on the wall clock that
        a file sets, `clock`.
        Settings are named `timing_speed`. Without a `fleet` its file is missing.
        """
        directory.mkdir(exist_ok=True)
        if fleet is None:
            (directory / "fleet.toml").unlink(missing_ok=True)
        else:
            (directory / "fleet.toml").write_text(fleet, encoding="utf-8")
        usual = {
            "metadata_listen": "",
            "admin_listen": "127.0.0.1:0",
            "log_format": "text",
        }
        flags = [
            f"--{name.replace('_', '-')}={text}"
            for name, text in {**usual, **settings}.items()
        ]
        self._log = directory / "log"
        self._offset = self._log.stat().st_size if self._log.exists() else 0
        arguments = ["serve", "--fleet=fleet.toml", *flags]
        if self.is_forked:
            self.process = started(
                arguments,
                cwd=directory,
                log=self._log,
                under=under,
                space=space,
                clock=clock,
            )
        else:
            self.process = loaded(arguments, cwd=directory, log=self._log, under=under)
        self.urls: dict[str, str] = {}

    def log(self) -> str:
        """Return what this process has logged."""
        return self._log.read_bytes()[self._offset :].decode("utf-8", "replace")

    def wait_ready(self, seconds: float = PATIENCE_SECONDS) -> "Serving":
        """Return when it is ready; fail with its log if it ends instead."""
        log = eventually(
            self.log,
            lambda log: "ready;" in log or self.process.poll() is not None,
            what="a ready service",
            seconds=seconds,
        )
        assert self.process.poll() is None, log
        self.urls = dict(_SERVING.findall(log))
        return self

    def ended(self) -> int:
        """Return its exit status when it has ended."""
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.ended()

    def terminate(self) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    # What VMs and operators ask

    def vm_url(self, vm: str) -> str:
        """Return where the VM finds its document, as soon as the log names it."""
        name = f"VM {vm}"
        if name not in self.urls:
            self.urls = eventually(
                lambda: dict(_SERVING.findall(self.log())),
                lambda urls: name in urls,
                what=f"the address of {name}",
            )
        base = self.urls[name]
        return f"{base}/metadata/scheduledevents?api-version=2020-07-01"

    def document(self, vm: str) -> dict[str, Any]:
        """Return the VM's document."""
        status, document = http(self.vm_url(vm))
        assert status == 200, document
        return document

    def approve(self, vm: str, event_id: str) -> int:
        """Approve as the VM; return the status."""
        return http(self.vm_url(vm), {"StartRequests": [{"EventId": event_id}]})[0]

    def admin(self, path: str, body: object = None) -> Any:
        """Return what the operator API answers; fail unless it is good."""
        status, answer = http(self.urls["operators"] + path, body)
        assert status < 300, answer
        return answer

    def role(self) -> str:
        """Return the role of this replica; empty if it does not say, as before it is up."""
        _, health = http(self.urls["operators"] + "/readyz")
        return health.get("role", "")


class FreshServing(Serving):
    """A process that loads its modules, for tests of starts and of the API's process."""

    is_forked = False
