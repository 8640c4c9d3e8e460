"""The VMs of connected relays, and their changes since a position.

There is one state for each host with a relay. Its entries have the number of the change
that made them, so a relay that reconnects gets only what it has missed. A state is read
from the store again when a commit may have changed it; changes in between are left out,
so a slow relay costs no memory.
"""

import asyncio
import itertools
import logging
import secrets
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Protocol

from forewarn.admin import limits
from forewarn.admin.relay_host import (
    Host,
    alive,
    await_confirmation,
    report_state,
    same,
)
from forewarn.admin.relay_links import Contact, Links
from forewarn.control import relays
from forewarn.control.gateway import OperatorGateway
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.port import Reader
from forewarn.store.records import LEADER_KEY, Leader

logger = logging.getLogger("forewarn.admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Changes by commits that may concern relays."""

    hosts: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()
    is_everything: bool = False
    """Whether there were too many changes to name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How the relay of a host is connected."""

    connected_at: Micros = 0
    """When it connected; 0: it is not connected."""
    heard_at: Micros = 0
    """When it last sent a request, or left; 0: not since the service started."""
    streams: int = 0
    behind_seconds: float = 0.0
    """Seconds for which a change waits until it takes it; 0: it has all changes."""


class RelayFeed(Protocol):
    """The changes that concern relays."""

    def relay_news(self) -> AsyncIterator[News]:
        """Yield changes from now on, in the order of the commits."""
        ...

    async def note_links(self, silent_since: Mapping[str, Micros]) -> None:
        """Store since when relays have been silent; 0: they are not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One read of the store."""

    term: int
    served: Mapping[str, relays.Served] = field(
        default_factory=dict[str, relays.Served]
    )
    views: Mapping[str, str] = field(default_factory=dict[str, str])


class RelayHub:
    """The states of all hosts with a connected relay; used on one event loop."""

    def __init__(self, gateway: Callable[[], OperatorGateway], feed: RelayFeed) -> None:
        """Read through `gateway`, and follow `feed` once there is a relay."""
        self._gateway = gateway
        self._feed = feed
        self._start = secrets.token_hex(8)
        self._term = 0
        self._number = 0
        self._hosts: dict[str, Host] = {}
        self._hosts_of: dict[str, set[str]] = {}
        """The hosts that have a view."""
        self._turn = asyncio.Lock()
        """Held for one read of the store at a time: those who wait get it in turn."""
        self._task: asyncio.Task[None] | None = None
        self._coming: dict[str, asyncio.Future[None]] = {}
        """The hosts whose relay waits until its VMs are read, in the order of arrival."""
        self._entrance: asyncio.Task[None] | None = None
        self._links = Links(
            gateway=gateway, contacts=self.contacts, report=feed.note_links
        )
        self._looking: asyncio.Task[None] | None = None
        self.streams = 0
        """Number of open streams."""
        self.refused = 0
        """Number of requests of relays without a valid token."""

    def begin(self) -> None:
        """Report silent relays to the service from now on, until the loop ends."""
        self._looking = asyncio.create_task(self._links.run())

    def end(self) -> None:
        """Report nothing more."""
        if self._looking is not None:
            self._looking.cancel()

    def contacts(self) -> Mapping[str, Contact]:
        """Return how each relay was heard that was connected to this process."""
        now = asyncio.get_running_loop().time()
        return {
            name: Contact(
                away=None if host.streams else now - host.left_at,
                unconfirmed=None
                if host.unconfirmed.since is None
                else now - host.unconfirmed.since,
                unheard=now - host.heard_time if host.confirms else None,
            )
            for name, host in self._hosts.items()
            if host.heard_at
        }

    def states(self) -> Mapping[str, State]:
        """Return the state of each relay that was connected since the service started.

        Relays that have left long ago may be left out.
        """
        now = asyncio.get_running_loop().time()
        return {
            name: State(
                connected_at=host.connected_at if host.streams else 0,
                heard_at=host.heard_at,
                streams=host.streams,
                behind_seconds=0.0
                if host.unconfirmed.since is None or not host.streams
                else now - host.unconfirmed.since,
            )
            for name, host in self._hosts.items()
            if host.heard_at
        }

    def change_role(self, *, leads: bool) -> None:
        """End all streams, since this service begins or ceases to decide.

        The next stream reads everything: the commits of others are not told here. Silent
        relays are reported only by the replica that leads, counted from its takeover.
        """
        for task in (self._task, self._looking):
            if task is not None:
                task.cancel()
        if leads:
            # Those that left in an earlier term have been with other replicas since.
            for host in [
                name for name, host in self._hosts.items() if not host.streams
            ]:
                self._forget(host)
        self._looking = asyncio.create_task(self._links.run()) if leads else None

    def note_heard(self, host: str) -> None:
        """Note that the relay of a host has sent a request."""
        state = self._hosts.get(host)
        if state is not None:
            state.heard_at = self.now()
            state.heard_time = asyncio.get_running_loop().time()

    def confirm(self, host: str, position: str) -> None:
        """Note that the relay of a host has applied a position, and serves it."""
        self.note_heard(host)
        state = self._hosts.get(host)
        number = self._number_in(position)
        if state is not None and number is not None:
            state.unconfirmed.confirm(number)

    def count(self, host: str) -> int:
        """Return the number of open streams of a host's relay."""
        state = self._hosts.get(host)
        return 0 if state is None else state.streams

    def now(self) -> Micros:
        """Return the model time."""
        return self._gateway().now()

    @property
    def position(self) -> str:
        """Return the position of the latest change: term, number, and this process."""
        return f"{self._term}.{self._number}.{self._start}"

    async def lines(
        self,
        host: str,
        token_id: str,
        after: str,
        *,
        confirms: bool = False,
        holds: str = "",
    ) -> AsyncGenerator[str, None]:
        """Yield messages until the relay leaves, the service stops, or the token ends.

        `confirms`: the relay will confirm what it has applied. `holds` is the digest of
        all that it serves: if that is still all, its return confirms it.
        """
        try:
            state = await self._enter(host)
        except ForewarnError as error:
            # The relay connects again, perhaps to another service.
            logger.warning("the relay of %s gets no stream: %s", host, error.message)
            return
        self.note_heard(host)
        state.connected_at = state.connected_at or state.heard_at
        state.confirms = confirms
        try:
            number = self._number_of(state, after)
            is_same = number is None and holds == state.digest
            if is_same:
                number = self._number
            if number is None:
                await_confirmation(state, self._number)
            else:
                state.unconfirmed.confirm(number)
            # The feed ends with the service, also for relays that come while it stops.
            while self.is_good(state, token_id) and not self._is_over():
                changed = state.changed
                if number is not None and number < state.since:
                    number = None
                latest = self._number
                is_first, is_same = is_same, False
                yield (
                    same(self.position)
                    if is_first
                    else state.message(number, self.position)
                )
                number = latest
                if not changed.is_set() and not confirms:
                    state.unconfirmed.clear()
                while not changed.is_set() and self.is_good(state, token_id):
                    try:
                        async with asyncio.timeout(limits.KEEP_ALIVE_SECONDS):
                            await changed.wait()
                    except TimeoutError:
                        # A change can come in the same moment as the timeout.
                        if not changed.is_set():
                            # Nothing that concerns this host has changed up to now.
                            number, told = self._number, number
                            yield alive(told, self.position)
        finally:
            self._leave(state)

    def is_good(self, state: Host, token_id: str) -> bool:
        """Return whether a token of the relay is still valid."""
        end = state.tokens.get(token_id)
        return end is not None and (not end or self.now() < end)

    async def catch_up(self, host: str, vms: Collection[str]) -> str:
        """Read the views of VMs again, and return the position that has them.

        Others wait for the position of a request, so that a VM reads what it wrote.
        """
        state = self._hosts.get(host)
        if state is None:
            return self.position
        views = {state.view_of[vm] for vm in vms if vm in state.view_of}
        await self._take(News(views=frozenset(views)))
        # The relay waits for this position, even if nothing has changed.
        report_state(state)
        return self.position

    async def _enter(self, host: str) -> Host:
        if self._is_over():
            self._hosts.clear()
            self._hosts_of.clear()
            self._task = asyncio.create_task(self._follow())
        self._forget_unused()
        state = self._hosts.get(host)
        if state is None:
            state = self._hosts[host] = Host(host, self._number)
        if not state.streams:
            self._links.forget(host)
        state.streams += 1
        self.streams += 1
        try:
            if not state.is_read:
                await self._come(host)
        except BaseException:
            self._leave(state)
            if not state.streams and not state.is_read:
                self._forget(host)
            raise
        return state

    async def _come(self, host: str) -> None:
        """Wait until a host is read, together with others that have come."""
        if host not in self._coming:
            self._coming[host] = asyncio.get_running_loop().create_future()
        if self._entrance is None or self._entrance.done():
            self._entrance = asyncio.create_task(self._let_in())
        # Another relay of the host may wait for it too.
        await asyncio.shield(self._coming[host])

    async def _let_in(self) -> None:
        while self._coming:
            some = [*itertools.islice(self._coming, limits.RELAY_HOSTS_TOGETHER)]
            failure: Exception | None = None
            try:
                some = (await self._step(some, ())).served
            except Exception as error:  # noqa: BLE001 - those that wait raise it
                failure = error
            for host in some:
                come = self._coming.pop(host)
                if failure is None:
                    come.set_result(None)
                else:
                    come.set_exception(failure)
                    # If the relay has left, it is not asked for.
                    come.exception()

    def _leave(self, state: Host) -> None:
        state.streams -= 1
        self.streams -= 1
        state.left_at = asyncio.get_running_loop().time()
        if not state.streams and state.connected_at:
            state.connected_at, state.heard_at = 0, self.now()

    def _forget_unused(self) -> None:
        """Forget hosts whose relay has left long ago."""
        oldest = asyncio.get_running_loop().time() - limits.RELAY_LINGER_SECONDS
        for host, state in list(self._hosts.items()):
            if not state.streams and state.left_at < oldest:
                self._forget(host)

    def _forget(self, host: str) -> None:
        state = self._hosts.pop(host, None)
        if state is not None:
            self._index(host, state.views, ())

    def _number_of(self, state: Host, position: str) -> int | None:
        """Return the number after which a relay continues; None: it needs everything."""
        number = self._number_in(position)
        return None if number is None or number <= state.since else number

    def _number_in(self, position: str) -> int | None:
        """Return the number in a position; None: it is not of this process."""
        term, _, rest = position.partition(".")
        number, _, start = rest.partition(".")
        if (term, start) != (str(self._term), self._start) or not number.isdecimal():
            return None
        return int(number) if int(number) <= self._number else None

    def _is_over(self) -> bool:
        return self._task is None or self._task.done()

    async def _follow(self) -> None:
        try:
            async for news in self._feed.relay_news():
                await self._take(news)
        finally:
            for state in self._hosts.values():
                state.changed.set()

    async def _take(self, news: News) -> None:
        """Read again what has changed, in steps, and tell the relays."""
        known = self._hosts
        hosts = set(known) if news.is_everything else known.keys() & news.hosts
        left = sorted(hosts)
        while left:
            done = await self._step(left[: limits.RELAY_HOSTS_TOGETHER], ())
            left = [host for host in left if host not in done.served]
        views = sorted(news.views)
        for start in range(0, len(views), limits.RELAY_VIEWS_TOGETHER):
            await self._step((), views[start : start + limits.RELAY_VIEWS_TOGETHER])

    async def _step(self, hosts: Sequence[str], views: Sequence[str]) -> _Look:
        """Read views, and as many of the hosts as one read may have."""
        async with self._turn:
            # A host that was being read until now may have a view that no other has.
            views = [view for view in views if view in self._hosts_of]
            if not hosts and not views:
                return _Look(term=self._term)
            look = await self._read(hosts, views)
            self._absorb(look)
            return look

    async def _read(self, hosts: Iterable[str], views: Collection[str]) -> _Look:
        def look(reader: Reader) -> _Look:
            texts = relays.Texts(reader)
            leader = reader.get(Leader, LEADER_KEY)
            served: dict[str, relays.Served] = {}
            vms = 0
            for host in hosts:
                served[host] = relays.served(reader, host, texts)
                vms += len(served[host].guests)
                if vms >= limits.RELAY_VMS_TOGETHER:
                    break
            return _Look(
                term=0 if leader is None else leader.term,
                served=served,
                views=texts.views(views),
            )

        return await self._gateway().read(look)

    def _absorb(self, look: _Look) -> None:
        self._number += 1
        self._term = look.term
        number = self._number
        for host, served in look.served.items():
            state = self._hosts.get(host)
            if state is None:
                continue
            self._index(host, state.views, served.views)
            has_changed = state.put("views", served.views, number)
            has_changed |= state.put("guests", served.guests, number)
            has_other_tokens = state.tokens != served.tokens
            state.view_of, state.tokens = served.view_of, served.tokens
            state.is_read = True
            if has_changed:
                await_confirmation(state, number)
            if has_changed or has_other_tokens:
                report_state(state)
        for view, text in look.views.items():
            for host in self._hosts_of.get(view, ()):
                state = self._hosts[host]
                if state.set("views", view, text, number):
                    await_confirmation(state, number)
                    report_state(state)

    def _index(self, host: str, old: Collection[str], new: Collection[str]) -> None:
        """Keep which hosts have a view, when the views of a host change."""
        for view in old:
            if view not in new:
                self._hosts_of[view].discard(host)
                if not self._hosts_of[view]:
                    del self._hosts_of[view]
        for view in new:
            self._hosts_of.setdefault(view, set()).add(host)
