"""`haproxy`: takes this VM out of HAProxy's rotation, and puts it back after the event.

Its servers are drained at every proxy, and their sessions waited for. Who was drained
or put into maintenance by somebody else before is left as it is. HAProxy forgets what
was set when it is reloaded, so that is looked at again as long as sessions are waited
for. How HAProxy is spoken to is for `runtime`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

from forewarn.agent import forms
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import (
    HandlerError,
    OverError,
    RunContext,
    TimeUpError,
    context_for,
)
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.haproxy.runtime import (
    DRAIN_FORCED,
    MAINT_FORCED,
    AwayError,
    Runtime,
    Server,
    is_address,
)
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.naming import host_name
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, SECOND, Micros, describe_duration
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

SESSIONS_BOUND = 1_000_000
"""Of what the settings may say: more than a proxy has."""

SHARE = 0.9
"""Of its time, for waiting: what is left over is for what comes after it."""

POLL_SECONDS = 0.5
"""Between two looks at the sessions; they cost HAProxy less than a millisecond."""

AWAY_SECONDS = 2.0
"""Before a proxy that is away is asked again, after an event."""

FAIL, LEAVE, SHUTDOWN = "fail", "leave", "shutdown"

DRAIN, MAINT = "drain", "maint"
"""What a server was set to: words of HAProxy's, and of the memo."""

_MAGIC = re.compile(r"([*?[])")
_PLACES = {"vm": "", "host": ""}
_SERVER = re.compile(r"[^/\s;]+/[^/\s;]+")


@frozen_dataclass
class HaproxyOptions:
    """The settings of one handler."""

    socket: tuple[str, ...]
    servers: tuple[str, ...]
    """`backend/server`, with placeholders and `*`."""
    sessions_max: int = 0
    """How many sessions may be left."""
    wait: Micros = 0
    """At most, for sessions; 0: as long as there is time."""
    sessions_left: str = FAIL
    maint: bool = False
    """Whether they are put into maintenance once they are drained."""


@dataclass
class _Seen:
    """One look at all proxies."""

    servers: list[tuple[Runtime, Server]] = field(
        default_factory=list[tuple[Runtime, Server]]
    )
    away: list[str] = field(default_factory=list[str])
    """Who could not be asked, or does not drain yet: a sentence each."""


class HaproxyWorker(Integration):
    """Drains the servers of one handler, and makes them ready again."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Connect nowhere yet."""
        super().__init__(settings, ground)
        self._options = HaproxyOptions(**settings.more)
        self._runtimes = [Runtime(place) for place in self._options.socket]

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain, and wait until the sessions have ended; raises HandlerError."""
        options = self._options
        patterns = self._patterns(job.vm)
        share = context.remaining() * SHARE
        limit = min(share, options.wait / SECOND) if options.wait else share
        left = context.timer(limit)
        waits = ""
        while True:
            is_late = left() <= 0
            with context.doing(f"waiting: {waits}" if waits else "draining"):
                seen = self._drained(patterns, context)
                waits = self._waits(seen, context, is_late=is_late)
            if not waits:
                return Result(detail=self._told(seen))
            if is_late and (seen.away or options.sessions_left == FAIL):
                took = describe_duration(round(limit * SECOND))
                raise TimeUpError(f"after {took}: {waits}")
            with context.doing(f"waiting: {waits}"):
                if is_late and options.sessions_left == SHUTDOWN:
                    _break_off(seen, context)
                context.pause(POLL_SECONDS, "")

    def recover(self, job: Job, context: RunContext) -> Result:
        """Make ready what it had drained; raises HandlerError."""
        del job
        told: list[str] = []
        while memo := self._remembered():
            away: list[str] = []
            refused: list[str] = []
            for place, servers in tuple(memo.items()):
                try:
                    told += self._made_ready(Runtime(place), servers, context)
                except AwayError as error:
                    away.append(error.message)
                except HandlerError as error:
                    refused.append(error.message)
                else:
                    del memo[place]
                    self._memo.keep(memo)
            if refused:
                raise HandlerError("; ".join(refused + away))
            if away:
                context.pause(AWAY_SECONDS, f"waiting: {'; '.join(away)}")
        return Result(detail=", ".join(told) or "it had drained nothing")

    def check(self, vm: str = "") -> Sequence[str]:
        """Return which proxies cannot be asked, do not obey, or have no such server."""
        context = context_for(self.check_seconds, self._clock)
        found: list[str] = []
        missing: list[str] = []
        advice: list[str] = []
        try:
            missing = self._patterns(vm)
        except HandlerError as error:
            found.append(error.message)
        for runtime in self._runtimes:
            try:
                level = runtime.level(context)
                advice += filter(None, [runtime.why_not_master(context)])
                servers = runtime.servers(context)
            except (HandlerError, OverError) as error:
                found.append(error.message)
                continue
            if level and level != "admin":
                found.append(
                    f"{runtime.place}: what comes there has the level {level}, and to "
                    "drain needs admin: add `level admin` to that `stats socket`"
                )
            missing = [
                each
                for each in missing
                if not any(_matches(each, server) for server in servers)
            ]
        if not found:
            found += [f"there is no server {each}" for each in missing]
        return found + advice

    # One look at all proxies

    def _drained(self, patterns: Sequence[str], context: RunContext) -> _Seen:
        """Drain what is not out, and return how all of it stands.

        Raises HandlerError where that is refused; by then the others are drained.
        """
        seen = _Seen()
        refused: list[str] = []
        for runtime in self._runtimes:
            try:
                servers = _chosen(runtime.servers(context), patterns)
                fresh = [each for each in servers if not each.is_out]
                if fresh:
                    self._remember(runtime.place, fresh, DRAIN)
                    for server in fresh:
                        runtime.set_state(server, DRAIN, context)
                    servers = _chosen(runtime.servers(context), patterns)
            except AwayError as error:
                seen.away.append(error.message)
                continue
            except HandlerError as error:
                refused.append(error.message)
                continue
            refused += [
                f"{runtime.place}: {each.label} is in show servers state and not in "
                "show stat: nobody knows how many sessions it has"
                for each in servers
                if not each.is_counted
            ]
            seen.away += [
                f"{runtime.place}: {each.label} is not drained yet"
                for each in servers
                if not each.is_out
            ]
            seen.servers += [(runtime, each) for each in servers]
        if refused:
            raise HandlerError("; ".join(refused + seen.away))
        if not seen.away:
            for pattern in patterns:
                if not any(_matches(pattern, each) for _, each in seen.servers):
                    where = ", ".join(self._options.socket)
                    raise HandlerError(f"there is no server {pattern} at {where}")
        return seen

    def _waits(self, seen: _Seen, context: RunContext, *, is_late: bool) -> str:
        """Return what is waited for; empty: nothing."""
        waits = "; ".join(seen.away)
        if not waits and not (is_late and self._options.sessions_left == LEAVE):
            waits = self._sessions_left(seen)
        if not waits and self._options.maint:
            waits = self._into_maintenance(seen, context)
        return waits

    def _sessions_left(self, seen: _Seen) -> str:
        """Return whose sessions are waited for; empty: nobody's."""
        count = sum(server.sessions for _, server in seen.servers)
        if count <= self._options.sessions_max:
            return ""
        busy = [
            f"{server.label} {server.sessions}{self._at(runtime)}"
            for runtime, server in seen.servers
            if server.sessions
        ]
        sessions = "sessions are" if count > 1 else "session is"
        return f"{count} {sessions} left: {', '.join(busy)}"

    def _into_maintenance(self, seen: _Seen, context: RunContext) -> str:
        """Put what it has drained into maintenance; empty: all of it is."""
        memo = self._remembered()
        fresh = [
            (runtime, server)
            for runtime, server in seen.servers
            if server.label in memo.get(runtime.place, ())
            and not server.admin & MAINT_FORCED
        ]
        try:
            for runtime, server in fresh:
                self._remember(runtime.place, [server], MAINT)
                runtime.set_state(server, MAINT, context)
        except AwayError as error:
            return error.message
        names = ", ".join(server.label for _, server in fresh)
        return f"{names} to be in maintenance" if names else ""

    def _told(self, seen: _Seen) -> str:
        memo = self._remembered()
        mine: dict[str, None] = {}
        others: dict[str, None] = {}
        for runtime, server in seen.servers:
            is_mine = server.label in memo.get(runtime.place, ())
            (mine if is_mine else others)[f"{server.label}{self._at(runtime)}"] = None
        count = sum(server.sessions for _, server in seen.servers)
        sessions = "session" if count == 1 else "sessions"
        said = [f"{', '.join(mine)} drained"] if mine else []
        if others:
            were = "were" if len(others) > 1 else "was"
            said.append(f"{', '.join(others)} {were} out before")
        return f"{'; '.join(said)}; {count} {sessions} left"

    def _at(self, runtime: Runtime) -> str:
        """Return where a server is, if that is a question."""
        return f" at {runtime.place}" if len(self._runtimes) > 1 else ""

    # After the event

    def _made_ready(
        self, runtime: Runtime, wanted: dict[str, str], context: RunContext
    ) -> Iterator[str]:
        """Make servers ready, and yield what became of each; raises HandlerError."""
        told: dict[str, str] = {}
        for server in runtime.servers(context):
            if server.label not in wanted:
                continue
            if wanted[server.label] == DRAIN and server.admin & MAINT_FORCED:
                told[server.label] = "left in maintenance, where somebody has put it"
            elif server.admin & (DRAIN_FORCED | MAINT_FORCED):
                runtime.set_state(server, "ready", context)
        for server in runtime.servers(context):
            if server.label in wanted and server.label not in told:
                if server.admin & (DRAIN_FORCED | MAINT_FORCED):
                    raise HandlerError(f"{runtime.place}: {server.label} is not ready")
                health = "" if server.is_up else ", and still down by its health check"
                told[server.label] = f"ready{health}"
        for label in wanted:
            yield f"{label} {told.get(label, 'is not there any more')}"

    # Names and memory

    def _patterns(self, vm: str) -> list[str]:
        """Return which servers are meant; raises HandlerError if that is not known."""
        if not vm and any("{vm}" in each for each in self._options.servers):
            raise HandlerError(
                "this VM's name is not known, and `servers` has {vm} in it"
            )
        values = {"vm": _plain(vm), "host": _plain(host_name())}
        return [forms.fill(each, values) for each in self._options.servers]

    def _remembered(self) -> dict[str, dict[str, str]]:
        """Return what was set to what, by socket and server."""
        return cast("dict[str, dict[str, str]]", self._memo.read())

    def _remember(self, place: str, servers: Sequence[Server], what: str) -> None:
        memo = self._remembered()
        fresh = {
            **memo.get(place, {}),
            **dict.fromkeys((s.label for s in servers), what),
        }
        if fresh != memo.get(place):
            self._memo.keep({**memo, place: fresh})


def _break_off(seen: _Seen, context: RunContext) -> None:
    for runtime, server in seen.servers:
        if server.sessions:
            # Who is away is asked again, after the next look.
            with contextlib.suppress(AwayError):
                runtime.shut_sessions(server, context)


def _matches(pattern: str, server: Server) -> bool:
    backend, _, name = pattern.partition("/")
    return fnmatchcase(server.backend, backend) and fnmatchcase(server.name, name)


def _chosen(servers: Sequence[Server], patterns: Sequence[str]) -> list[Server]:
    return [
        server
        for server in servers
        if any(_matches(pattern, server) for pattern in patterns)
    ]


def _plain(name: str) -> str:
    """Return a pattern that only this name matches."""
    return _MAGIC.sub(r"[\1]", name)


def _faults(entry: Entry) -> Faults:
    for place in entry.get("socket", ()):
        if not place.startswith("/") and not is_address(place):
            kinds = "a path such as /run/haproxy/admin.sock nor HOST:PORT"
            yield "socket", f"{place!r} is neither {kinds}"
    for server in entry.get("servers", ()):
        unknown = forms.unknown_places(server, _PLACES)
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACES)
            yield "servers", f"{{{unknown[0]}}} is nothing that is known: {known}"
        elif not _SERVER.fullmatch(server):
            yield "servers", f"{server!r} is no BACKEND/SERVER"


KIND = HandlerKind(
    make=HaproxyWorker,
    keys={
        "socket": Option(
            form=Forms.NAMES,
            text="Where HAProxy's runtime API is: the path of a `stats socket` or of "
            "the master's socket, or HOST:PORT; several for several proxies.",
        ),
        "servers": Option(
            form=Forms.NAMES,
            text="What is drained: `backend/server`. `{vm}` is this VM's name, `{host}` "
            "this computer's without its domain, `*` stands for anything and `?` for "
            "one character. Each must be at one of the proxies at least.",
        ),
        "sessions_max": Option(
            form=Forms.COUNT,
            most=SESSIONS_BOUND,
            text="How many sessions may be left, of all servers together. Default: 0.",
        ),
        "wait": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=DAY,
            text="How long to wait for sessions at most. Default: nine tenths of the "
            "time that there is, and never longer.",
        ),
        "sessions_left": Option(
            form=Forms.WORD,
            words=(FAIL, LEAVE, SHUTDOWN),
            text="What to do about sessions that are left then: `fail`; `leave`, which "
            "is content; `shutdown`, which breaks them off. Default: `fail`.",
        ),
        "maint": Option(
            form=Forms.SWITCH,
            text="Whether servers are put into maintenance once they are drained, so "
            "that their health checks end. Default: `false`.",
        ),
    },
    needed=("socket", "servers"),
    faults=_faults,
)
