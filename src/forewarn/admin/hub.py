"""Changes for viewers with the same rights, read and written once for all of them.

There is one hub for operators, and one for each tenant with viewers. A hub numbers the
changes and keeps the latest change of each object. A viewer is a position in these
numbers: a slow viewer costs no memory, and a viewer that reconnects continues from its
position. The numbers of a tenant count only the changes that the tenant may see.
"""

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from forewarn.admin import limits, topics
from forewarn.admin.access import Caller, session_over, unauthorized
from forewarn.admin.changed_work import ChangedWork
from forewarn.admin.coming_work import ComingWork
from forewarn.admin.gateways import on_behalf_of
from forewarn.admin.selection import About, Wanted
from forewarn.admin.topics import TOPICS, Change, Look
from forewarn.admin.viewer_rights import NO_CREDENTIAL, Credential, IsGood, is_good
from forewarn.control.gateway import OperatorGateway
from forewarn.control.redaction import tenant_places
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.instants import Micros
from forewarn.reporting import attention
from forewarn.reporting.attention import Surroundings
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.remembered import Remembered
from forewarn.verbs.roles import READ_ONLY

Around = Callable[[OperatorGateway], Awaitable[Surroundings]]

BEGINNING = "0"
"""The ID of messages before `ready`; a stream that stops there begins again."""

_NEVER: Micros = 2**62


class Entry(NamedTuple):
    """The latest change of an object, as text that all viewers share."""

    number: int
    topic: str
    about: About
    text: str


class Present(NamedTuple):
    """A page of current objects, as text that viewers share."""

    number: int
    """The number of the latest change before the page was read."""
    texts: list[str]
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The result of one read."""

    changes: Sequence[Change] = ()
    problems: dict[str, Change] | None = None
    good: frozenset[Credential] = frozenset()
    has_new_fleet: bool = False


def message(body: dict[str, Any], *, name: str, position: str) -> str:
    """Return a server-sent event."""
    data = json.dumps(body, separators=(",", ":"))
    return f"id: {position}\nevent: {name}\ndata: {data}\n\n"


class Hub:
    """The numbered changes for viewers with the same rights."""

    def __init__(
        self,
        gateway: OperatorGateway,
        tenant: str,
        around: Around,
        is_good_here: IsGood,
    ) -> None:
        """Read through `gateway`; an empty `tenant` means operators."""
        self.feed = gateway
        self._tenant = tenant
        caller = Caller(name=tenant, tenant=tenant, roles=READ_ONLY)
        self._gateway = on_behalf_of(gateway, caller)
        self._around = around
        self._is_good_here = is_good_here
        self._epoch = secrets.token_hex(8)
        self.last = 0
        """The number of the latest change."""
        self._floor = 0
        """Changes up to this number are no longer complete."""
        self._entries: dict[tuple[str, str], Entry] = {}
        """The latest changes by topic and key, in the order of their numbers."""
        self._characters = 0
        self._looks: dict[tuple[str, str], bytes] = {}
        self._followed: dict[str, int] = {}
        """The number of the change from which each topic is followed."""
        self._problems: dict[str, Change] = {}
        self._problems_due = 0.0
        self._coming = ComingWork()
        self._is_stale = False
        """Whether reasons of open operations may have changed with other operations."""
        self._reasons_after = ""
        """The operation after which the reasons are read next; empty: at the first."""
        self._reasons_due = 0.0
        self._pages: dict[
            tuple[str, Wanted, str], tuple[float, int, asyncio.Task[Present]]
        ] = {}
        """Pages of current objects. Each has the time at which it was read, and the number
        of the latest change at that time."""
        self._after = ""
        """The key of the latest history entry that was read."""
        self._hosts: dict[str, set[str]] = {}
        self._work = ChangedWork(gateway.now())
        self._viewers: Counter[Credential] = Counter()
        """Number of viewers by the end of their right."""
        self._bad: set[Credential] = set()
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Viewers

    @property
    def is_over(self) -> bool:
        """Return whether the hub has stopped."""
        return self._task is not None and self._task.done()

    def start(self) -> None:
        """Follow changes until there were no viewers for a while."""
        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        # Each viewer raises the error; without viewers it is ignored.
        _ = task.cancelled() or task.exception()
        self._wake()

    def stop(self) -> None:
        """Stop following changes."""
        if self._task is not None:
            self._task.cancel()

    @contextlib.contextmanager
    def viewed(self, right: Credential) -> Generator[None]:
        """Count a viewer."""
        self._viewers[right] += 1
        try:
            yield
        finally:
            self._viewers[right] -= 1
            self._viewers += Counter()
            if not self._viewers:
                loop = asyncio.get_running_loop()
                loop.call_later(limits.HUB_LINGER_SECONDS, self._stop_if_unused)

    def _stop_if_unused(self) -> None:
        if not self._viewers:
            self.stop()

    def check(self, right: Credential) -> None:
        """Raise the error that ends the stream of a viewer, if there is one."""
        task = self._task
        if task is not None and task.done() and (error := task.exception()):
            raise error
        if right in self._bad:
            raise session_over() if right.session else unauthorized()

    def position(self, number: int) -> str:
        """Return the ID of a message, for `Last-Event-ID`."""
        return f"{self._epoch}-{number}"

    def number_of(self, position: str, wanted: Iterable[str]) -> int | None:
        """Return the number in the ID of a message.

        None: changes of the wanted topics after it may be missing.
        """
        epoch, _, digits = position.partition("-")
        if epoch != self._epoch or not (digits.isascii() and digits.isdecimal()):
            return None
        number = int(digits[: limits.POSITION_DIGITS_MAX])
        begun = max(self._followed.get(topic, _NEVER) for topic in wanted)
        return number if max(begun, self._floor) <= number <= self.last else None

    def after(self, number: int) -> list[Entry] | None:
        """Return the oldest changes after a number; None: some are missing."""
        if number < self._floor:
            return None
        newest = reversed(self._entries.values())
        later = list(takewhile(lambda entry: entry.number > number, newest))
        return later[: -limits.PAGE_OBJECTS - 1 : -1]

    async def wait(self, *, seconds: float) -> None:
        """Wait for a change, but not longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def follow(self, wanted: Iterable[str]) -> None:
        """Follow these topics from now on."""
        new = [topic for topic in wanted if topic not in self._followed]
        if not new:
            return
        async with self._turn:
            # The feed must listen before anything is read.
            for _ in range(2):
                await asyncio.sleep(0)
            if self._tenant:
                await self._read_looks(new)
            if not self._after and any(TOPICS[topic].needs_entries for topic in new):
                self._after = await self._gateway.read(self._latest_entry)
            for topic in new:
                self._followed.setdefault(topic, self.last)
            await self._read_changes(())

    async def present(self, topic: str, wanted: Wanted, after: str) -> "Present":
        """Return a page of the current objects of a topic.

        Viewers that begin at the same time share the page.
        """
        now = asyncio.get_running_loop().time()
        oldest = now - limits.RECHECK_SECONDS
        self._pages = {
            key: (at, number, reading)
            for key, (at, number, reading) in self._pages.items()
            if at >= oldest and number >= self._floor
        }
        key = topic, wanted, after
        if key not in self._pages:
            reading = self._read_present(topic, wanted, after)
            self._pages[key] = now, self.last, asyncio.create_task(reading)
        return await asyncio.shield(self._pages[key][2])

    async def _read_present(self, topic: str, wanted: Wanted, after: str) -> "Present":
        number = self.last
        rows, following = await self._gateway.read(
            lambda reader: TOPICS[topic].page(
                self._shown(reader), wanted, after, self._gateway.now()
            )
        )
        if topic == "problems":
            problems = self._problems.values()
            rows = [item for item in problems if wanted.matches(item.about)]
        if topic in {"operations", "upcoming"}:
            # Later reads compare them with those that the viewer gets.
            for item in rows:
                self._looks.setdefault((topic, item.key), _digest(item.looks))
        if topic == "upcoming":
            self._coming.sent(rows)
        texts = [message(item.body, name=topic, position=BEGINNING) for item in rows]
        return Present(number, texts, following)

    # Changes

    async def _follow(self) -> None:
        feed = aiter(self.feed.changes())
        coming = asyncio.ensure_future(anext(feed))
        try:
            while True:
                await asyncio.wait({coming}, timeout=limits.RECHECK_SECONDS)
                ids: tuple[str, ...] = ()
                if coming.done():
                    ids = coming.result()
                    coming = asyncio.ensure_future(anext(feed))
                    self._note_stale_reasons()
                    if not ids:
                        self._lose()
                async with self._turn:
                    for start in range(0, max(len(ids), 1), limits.PAGE_OBJECTS):
                        await self._read_changes(
                            ids[start : start + limits.PAGE_OBJECTS]
                        )
                    await self._look_at_reasons()
                    await self._look_at_coming_work()
        except (StopAsyncIteration, asyncio.CancelledError):
            # The service ends, or `stop` was called: no error for the viewers.
            return
        finally:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming

    async def _read_changes(self, ids: Sequence[str]) -> None:
        """Read what has changed, and pass it on."""
        around = None
        if (
            "problems" in self._followed
            and self._viewers
            and asyncio.get_running_loop().time() >= self._problems_due
        ):
            around = await self._around(self.feed)
        rights = [viewer for viewer in self._viewers if viewer != NO_CREDENTIAL]
        reads = any(TOPICS[topic].needs_entries for topic in self._followed)
        if not (ids or rights or reads or around):
            return
        began = asyncio.get_running_loop().time()
        news = await self._gateway.read(
            lambda reader: self._read(reader, ids, rights, around, reads=reads)
        )
        ended = asyncio.get_running_loop().time()
        if around is not None:
            pause = limits.PROBLEMS_PAUSE * (ended - began)
            self._problems_due = ended + max(pause, limits.RECHECK_SECONDS / 2)
        bad = {viewer for viewer in news.good if not await self._is_good_here(viewer)}
        self._bad = (set(rights) - news.good) | bad
        if news.has_new_fleet and "hosts" in self._followed:
            self._lose()
        for change in news.changes:
            self._add(change)
        if news.problems is not None:
            self._compare(news.problems)
        self._wake()

    def _note_stale_reasons(self) -> None:
        if not self._is_stale:
            # More changes are likely to follow at once.
            self._is_stale = True
            soon = asyncio.get_running_loop().time() + limits.RECHECK_SECONDS / 2
            self._reasons_due = max(self._reasons_due, soon)

    async def _look_at_reasons(self) -> None:
        """Read a page of the open operations again if others have changed.

        The reasons of an operation name others, and change with them.
        """
        began = asyncio.get_running_loop().time()
        is_watched = "operations" in self._followed and self._viewers
        if not is_watched or began < self._reasons_due:
            return
        if not self._reasons_after:
            if not self._is_stale:
                return
            self._is_stale = False
        page, self._reasons_after = await self._gateway.read(
            lambda reader: topics.open_operations(
                self._shown(reader), self._reasons_after, self._gateway.now()
            )
        )
        for change in page:
            self._add(change)
        ended = asyncio.get_running_loop().time()
        pause = limits.REASONS_PAUSE * (ended - began)
        self._reasons_due = ended + max(pause, limits.RECHECK_SECONDS / 2)
        self._wake()

    async def _look_at_coming_work(self) -> None:
        """Compare a page of the coming work with the previous one."""
        clock = asyncio.get_running_loop().time
        began, coming = clock(), self._coming
        is_watched = "upcoming" in self._followed and self._viewers
        if not is_watched or began < coming.due:
            return
        now = self._gateway.now()
        page, after = await self._gateway.read(
            lambda reader: TOPICS["upcoming"].page(
                self._shown(reader), Wanted(), coming.after, now
            )
        )
        for change in coming.take(page, after, now=now):
            self._add(change)
        coming.wait(began, clock())
        self._wake()

    def _read(
        self,
        reader: Reader,
        ids: Sequence[str],
        rights: Sequence[Credential],
        around: Surroundings | None,
        *,
        reads: bool,
    ) -> _Seen:
        now = self._gateway.now()
        shown = self._shown(reader)
        entries = self._new_entries(shown) if reads else []
        look = Look(
            reader=shown,
            now=now,
            operations=self._work.of(shown, ids),
            entries=entries,
            hosts=self._hosts,
        )
        return _Seen(
            changes=[
                change
                for topic in tuple(self._followed)
                for change in TOPICS[topic].changed(look)
            ],
            problems=(
                None
                if around is None
                else topics.problems(
                    attention.problems(shown, around, now=now), look.lookups
                )
            ),
            good=frozenset(who for who in rights if is_good(reader, who, now=now)),
            has_new_fleet=any(row.kind is AuditKind.FLEET_APPLIED for row in entries),
        )

    def _shown(self, reader: Reader) -> Reader:
        return (
            TenantReader(reader, self._tenant) if self._tenant else Remembered(reader)
        )

    def _latest_entry(self, reader: Reader) -> str:
        """Return the key after which new entries of the history are found."""
        if self._tenant:
            return tenant_places.cursor_at(self._gateway.now())
        keys = reader.audit_keys(0, _NEVER)
        return "" if keys is None else keys[1]

    def _new_entries(self, reader: Reader) -> list[AuditEntry]:
        entries = reader.select(kinds.ALL_AUDIT, after=self._after, limit=PAGE_ROWS)
        if entries:
            self._after = entries[-1].key
        return entries

    async def _read_looks(self, new: Sequence[str]) -> None:
        """Store the current text of the objects of these topics.

        A change that a tenant may not see can affect an object without changing its
        text for the tenant. If such an object were sent again, the tenant would learn
        of the change.
        """
        for topic in new:
            after = ""
            while True:
                page, after = await self._gateway.read(
                    lambda reader, topic=topic, after=after: TOPICS[topic].page(
                        self._shown(reader), Wanted(), after, self._gateway.now()
                    )
                )
                for change in page:
                    self._looks[change.topic, change.key] = _digest(change.looks)
                if not after:
                    break

    def _compare(self, found: dict[str, Change]) -> None:
        for change in found.values():
            self._add(change)
        for key in self._problems.keys() - found.keys():
            self._add(topics.over(self._problems[key], now=self._gateway.now()))
        self._problems = found

    def _add(self, change: Change) -> None:
        place = change.topic, change.key
        looks = _digest(change.looks)
        if self._looks.get(place) == looks:
            return
        if change.is_over:
            self._looks.pop(place, None)
        else:
            self._looks[place] = looks
        self.last += 1
        text = message(
            change.body, name=change.topic, position=self.position(self.last)
        )
        self._drop(place)
        self._entries[place] = Entry(self.last, change.topic, change.about, text)
        self._characters += len(text)
        most = limits.TENANT_HUB_CHARACTERS if self._tenant else limits.HUB_CHARACTERS
        while self._characters > most:
            oldest = next(iter(self._entries))
            self._floor = self._entries[oldest].number
            self._drop(oldest)

    def _drop(self, place: tuple[str, str]) -> None:
        entry = self._entries.pop(place, None)
        self._characters -= len(entry.text) if entry else 0

    def _lose(self) -> None:
        """Make all viewers read everything again."""
        self._entries.clear()
        self._characters = 0
        self.last += 1
        self._floor = self.last
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _digest(looks: object) -> bytes:
    text = repr(looks).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()
