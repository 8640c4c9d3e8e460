"""Changes by commits of the control thread that may concern relays.

The operator API serves relays. It reads the store itself, so it needs only the names of
hosts and views that changed.
"""

import asyncio
import operator
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

from forewarn.admin.relay_hub import News
from forewarn.control.gateway import OperatorGateway
from forewarn.control.requests import relay_links
from forewarn.control.transactions.work import Who
from forewarn.fleet.model import Host, Scope, Vm, taken_by
from forewarn.instants import Micros
from forewarn.protocol.actors import service_part
from forewarn.protocol.views import View
from forewarn.service import limits
from forewarn.service.observed import Change, Changes, Listener
from forewarn.store.questions import Record
from forewarn.store.records import Token


class RelayNews(Listener):
    """Collects changes in the control thread, for one reader on the event loop."""

    def __init__(self) -> None:
        """Begin without changes and without a reader."""
        self._lock = threading.Lock()
        self._hosts: set[str] = set()
        self._views: set[str] = set()
        self._is_everything = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_come = asyncio.Event()
        self._gateway: OperatorGateway | None = None

    def committed(self, changes: Changes) -> None:
        """Remember the hosts and views of the changes, within a bound."""
        hosts: set[str] = set()
        views = {view.key for pair in changes.of(View) for view in pair if view}
        # Its name and kind are in the instance documents of its VMs anywhere.
        is_everything = any(
            None not in change and _concerns_relays(change)
            for change in changes.of(Scope)
        )
        for kind in (Vm, Host, Token):
            for change in filter(_concerns_relays, changes.of(kind)):
                hosts |= _hosts_of(change.before) | _hosts_of(change.after)
        if not hosts and not views and not is_everything:
            return
        with self._lock:
            self._is_everything |= is_everything
            self._hosts |= hosts
            self._views |= views
            if len(self._hosts) + len(self._views) > limits.RELAY_NEWS_KEPT:
                self._hosts.clear()
                self._views.clear()
                self._is_everything = True
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._has_come.set)

    def through(self, gateway: OperatorGateway) -> "RelayNews":
        """Store what `note_links` gets through a gateway; return these news."""
        self._gateway = gateway
        return self

    async def note_links(self, silent_since: Mapping[str, Micros]) -> None:
        """Store since when relays have been silent; 0: they are not."""
        assert self._gateway is not None, "the service has started"
        who = Who(actor=service_part("relays"))
        await self._gateway.order(
            who, lambda work: relay_links.take(work, silent_since)
        )

    async def relay_news(self) -> AsyncIterator[News]:
        """Yield changes in the order of the commits; for one reader at a time."""
        self._has_come = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
        while not self._is_closed:
            self._has_come.clear()
            news = self._take()
            if news is None:
                await self._has_come.wait()
            else:
                yield news
                # One message has all changes in between.
                await asyncio.sleep(limits.API_CHANGES_SECONDS)

    def close(self) -> None:
        """End the reader; called on the event loop."""
        self._is_closed = True
        self._has_come.set()

    def _take(self) -> News | None:
        with self._lock:
            hosts, self._hosts = self._hosts, set()
            views, self._views = self._views, set()
            is_everything, self._is_everything = self._is_everything, False
        if not hosts and not views and not is_everything:
            return None
        return News(
            hosts=frozenset(hosts),
            views=frozenset(views),
            is_everything=is_everything,
        )


_OF_VM = operator.attrgetter(
    *("view", "vm_id", "addresses", "wire_name", "fault_domain", "update_domain"),
    *("size", "spot", "tags", "resource_group", "subscription", "location"),
)
"""The fields of a VM that a relay gets, besides its hosts."""


def _concerns_relays(change: Change[Any]) -> bool:
    """Return whether relays get another value."""
    return _part_for_relays(change.before) != _part_for_relays(change.after)


def _part_for_relays(record: Record | None) -> object:
    """Return what a relay gets of a record, to compare it."""
    if isinstance(record, Vm):
        return taken_by(record), _OF_VM(record)
    if isinstance(record, Host):
        return record.zone
    if isinstance(record, Scope):
        return record.kind, record.scale_set
    return (record.expires_at,) if isinstance(record, Token) else None


def _hosts_of(record: Record | None) -> frozenset[str]:
    if isinstance(record, Host):
        return frozenset({record.name})
    if isinstance(record, Token):
        return frozenset({record.host} - {""})
    return taken_by(record) if isinstance(record, Vm) else frozenset()
