"""Connections to the libvirts of hosts.

A connection that stands can hang as long as its host. Keepalive ends it after
KEEPALIVE_SECONDS * KEEPALIVE_COUNT seconds, so that its calls fail.
"""

from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .orders import Settings, UnreachableError, WorkError

T = TypeVar("T")

KEEPALIVE_SECONDS = 5
"""Seconds between two keepalive messages: a host that has died is noticed soon."""
KEEPALIVE_COUNT = 3
"""Number of unanswered messages after which a connection ends."""

NO_DOMAIN = 42
"""VIR_ERR_NO_DOMAIN."""
NO_VOLUME = 50
"""VIR_ERR_NO_STORAGE_VOL."""
NO_METADATA = 80
"""VIR_ERR_NO_DOMAIN_METADATA."""


def load_libvirt() -> Any:
    """Return the module; raises WorkError."""
    try:
        api = importlib.import_module("libvirt")
    except ImportError as error:
        raise WorkError(
            f"this Python has no module libvirt ({error}): install python3-libvirt, or "
            "name another Python in driver.libvirt.python"
        ) from None
    # Otherwise the library prints each error.
    api.registerErrorHandler(_ignore, None)
    return api


def _ignore(*_: object) -> None:
    """Print nothing."""


def run_events(api: Any) -> None:
    """Handle events and keepalive in a thread, for all connections opened later."""
    api.virEventRegisterDefaultImpl()

    def turn() -> None:
        while api.virEventRunDefaultImpl() == 0:
            pass

    threading.Thread(target=turn, name="events", daemon=True).start()


class Hosts:
    """The connections of one worker; a host that hangs is waited for in its thread."""

    def __init__(self, api: Any, settings: Settings) -> None:
        """Connect to nothing yet."""
        self.api = api
        self.settings = settings
        self._opened: dict[str, Any] = {}

    def get(self, host: str) -> Any:
        """Return the connection to a host; raises UnreachableError."""
        known = self._opened.get(host)
        if known is not None and self._is_alive(known):
            return known
        self._opened[host] = connection = self._open(host)
        return connection

    def drop(self, host: str) -> None:
        """Forget the connection to a host, so that the next use connects again."""
        self._opened.pop(host, None)

    def _open(self, host: str) -> Any:
        uri = self.settings.uri_of(host)
        try:
            conn = within(
                self.settings.connect, lambda: self.api.open(uri), name="connect"
            )
            conn.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        except TimeoutError:
            raise UnreachableError(
                f"{host} did not answer within {self.settings.connect:g} s ({uri})"
            ) from None
        except self.api.libvirtError as error:
            raise UnreachableError(f"{host} cannot be reached: {error}") from None
        return conn

    def _is_alive(self, conn: Any) -> bool:
        try:
            return bool(conn.isAlive())
        except self.api.libvirtError:
            return False

    def failure(self, host: str, error: Exception) -> WorkError:
        """Return libvirt's error as ours; forget a connection that was lost."""
        conn = self._opened.get(host)
        if conn is not None and not self._is_alive(conn):
            self.drop(host)
            return UnreachableError(f"the connection to {host} was lost: {error}")
        return WorkError(f"{host}: {error}")


def within(seconds: float, work: Callable[[], T], *, name: str) -> T:
    """Return the result of work in a thread; raises TimeoutError after `seconds`.

    A call to the library cannot be interrupted, so the thread is abandoned then.
    """
    box: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((True, work()))
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            box.put((False, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        is_good, result = box.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if not is_good:
        raise result
    return result
