"""`haproxy`: drains this VM's servers at HAProxy, and makes them ready after the event.

The servers are drained at every proxy, and the handler waits for their sessions. Servers
that others have drained or put into maintenance are not changed. A reload of HAProxy
resets the states, so the handler checks them as long as it waits for sessions. `runtime`
has the client of HAProxy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from forewarn.agent import forms
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import (
    HandlerError,
    RunContext,
    RunEndedError,
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
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings, host_name
from forewarn.instants import DAY, SECOND, Micros, describe_duration
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

SESSIONS_BOUND = 1_000_000
"""Maximum of `sessions_max`: more than a proxy has."""

SHARE = 0.9
"""Part of the time for waiting; the rest is for the steps after it."""

POLL_SECONDS = 0.5
"""Seconds between two checks of the sessions; each costs HAProxy under a millisecond."""

AWAY_SECONDS = 2.0
"""Seconds before an unavailable proxy is asked again, after an event."""

FAIL, LEAVE, SHUTDOWN = "fail", "leave", "shutdown"

DRAIN, MAINT = "drain", "maint"
"""States of servers, in HAProxy and in the memo."""

_MAGIC = re.compile(r"([*?[])")
_PLACES = {"vm": "", "host": ""}
_SERVER = re.compile(r"[^/\s;]+/[^/\s;]+")


@frozen_dataclass
class HaproxyOptions:
    """The keys of the settings."""

    socket: tuple[str, ...]
    servers: tuple[str, ...]
    """`backend/server`, with placeholders and `*`."""
    sessions_max: int = 0
    """Number of sessions that may be left."""
    wait: Micros = 0
    """Maximum wait for sessions; 0: until the deadline."""
    sessions_left: str = FAIL
    maint: bool = False
    """Whether drained servers are put into maintenance."""


@dataclass
class _Seen:
    """The result of one check of all proxies."""

    servers: list[tuple[Runtime, Server]]
    """Each server with its proxy."""
    away: list[str]
    """A sentence for each proxy that is unavailable, or that has not drained yet."""


class HaproxyWorker(Integration):
    """Drains servers, and makes them ready again."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        self._options = HaproxyOptions(**settings.more)
        self._runtimes = [Runtime(place) for place in self._options.socket]

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain the servers, and wait for their sessions; raises HandlerError."""
        options = self._options
        patterns = self._patterns(job.vm)
        share = context.remaining() * SHARE
        limit = min(share, options.wait / SECOND) if options.wait else share
        left = context.timer(limit)
        waits = ""
        while True:
            is_late = left() <= 0
            with context.doing(f"waiting: {waits}" if waits else "draining"):
                drained = self._drained(patterns, context)
                waits = self._waits(drained, context, is_late=is_late)
            if not waits:
                return Result(detail=self._told(drained))
            if is_late and (drained.away or options.sessions_left == FAIL):
                raise TimeUpError(
                    f"after {describe_duration(round(limit * SECOND))}: {waits}"
                )
            with context.doing(f"waiting: {waits}"):
                if is_late and options.sessions_left == SHUTDOWN:
                    _break_off(drained, context)
                context.pause(POLL_SECONDS, "")

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Make the servers that the handler has drained ready; raises HandlerError."""
        sentences: list[str] = []
        while memo := self._memo.read():
            away: list[str] = []
            refused: list[str] = []
            for place, servers in tuple(memo.items()):
                try:
                    sentences += self._made_ready(Runtime(place), servers, context)
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
        return Result(detail=", ".join(sentences) or "this handler drained nothing")

    def check(self, vm: str = "", /) -> Sequence[str]:
        """Return the problems of proxies: no access, no permission, or no such server."""
        context = context_for(self.check_seconds, self._clock)
        problems: list[str] = []
        missing: list[str] = []
        advice: list[str] = []
        try:
            missing = self._patterns(vm)
        except HandlerError as error:
            problems.append(error.message)
        for runtime in self._runtimes:
            try:
                level = runtime.level(context)
                advice += filter(None, [runtime.why_not_master(context)])
                servers = runtime.servers(context)
            except (HandlerError, RunEndedError) as error:
                problems.append(error.message)
                continue
            if level and level != "admin":
                problems.append(
                    f"{runtime.place}: the access level is {level}, but draining needs "
                    "admin: add `level admin` to that `stats socket`"
                )
            missing = [
                pattern
                for pattern in missing
                if not any(_matches(pattern, server) for server in servers)
            ]
        if not problems:
            problems += [f"there is no server {pattern}" for pattern in missing]
        return problems + advice

    # One check of all proxies

    def _drained(self, patterns: Sequence[str], context: RunContext) -> _Seen:
        """Drain the servers that still get sessions, and return all states.

        Raises HandlerError if a proxy refuses, after the others have been drained.
        """
        drained = _Seen([], [])
        refused: list[str] = []
        for runtime in self._runtimes:
            try:
                servers = _chosen(runtime.servers(context), patterns)
                if fresh := [server_ for server_ in servers if not server_.is_out]:
                    self._remember(runtime.place, fresh, DRAIN)
                    for server in fresh:
                        runtime.set_state(server, DRAIN, context)
                    servers = _chosen(runtime.servers(context), patterns)
            except AwayError as error:
                drained.away.append(error.message)
                continue
            except HandlerError as error:
                refused.append(error.message)
                continue
            refused += [
                f"{runtime.place}: {server_.label} is in `show servers state` but not in "
                "`show stat`, so the number of its sessions is unknown"
                for server_ in servers
                if not server_.is_counted
            ]
            drained.away += [
                f"{runtime.place}: {server_.label} is not drained yet"
                for server_ in servers
                if not server_.is_out
            ]
            drained.servers += [(runtime, server_) for server_ in servers]
        if refused:
            raise HandlerError("; ".join(refused + drained.away))
        if not drained.away:
            for pattern in patterns:
                if not any(
                    _matches(pattern, server_) for _, server_ in drained.servers
                ):
                    raise HandlerError(
                        f"there is no server {pattern} at "
                        f"{', '.join(self._options.socket)}"
                    )
        return drained

    def _waits(self, drained: _Seen, context: RunContext, *, is_late: bool) -> str:
        """Return what the handler waits for; empty: nothing."""
        waits = "; ".join(drained.away)
        if not waits and not (is_late and self._options.sessions_left == LEAVE):
            waits = self._sessions_left(drained)
        if not waits and self._options.maint:
            waits = self._into_maintenance(drained, context)
        return waits

    def _sessions_left(self, drained: _Seen) -> str:
        """Return the servers with sessions, if there are too many; empty: there are not."""
        count = sum(server.sessions for _, server in drained.servers)
        if count <= self._options.sessions_max:
            return ""
        busy = [
            f"{server.label} {server.sessions}{self._at(runtime)}"
            for runtime, server in drained.servers
            if server.sessions
        ]
        sessions = "sessions are" if count > 1 else "session is"
        return f"{count} {sessions} left: {', '.join(busy)}"

    def _into_maintenance(self, drained: _Seen, context: RunContext) -> str:
        """Put drained servers into maintenance; return what the handler waits for."""
        memo = self._memo.read()
        fresh = [
            (runtime, server)
            for runtime, server in drained.servers
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

    def _told(self, drained: _Seen) -> str:
        memo = self._memo.read()
        own: dict[str, None] = {}
        others: dict[str, None] = {}
        for runtime, server in drained.servers:
            is_mine = server.label in memo.get(runtime.place, ())
            (own if is_mine else others)[f"{server.label}{self._at(runtime)}"] = None
        count = sum(server.sessions for _, server in drained.servers)
        sessions = "session" if count == 1 else "sessions"
        sentences = [f"{', '.join(own)} drained"] if own else []
        if others:
            were = "were" if len(others) > 1 else "was"
            sentences.append(f"{', '.join(others)} {were} already out of rotation")
        return f"{'; '.join(sentences)}; {count} {sessions} left"

    def _at(self, runtime: Runtime) -> str:
        """Return the proxy of a server, if there are several proxies."""
        return f" at {runtime.place}" if len(self._runtimes) > 1 else ""

    # After the event

    def _made_ready(
        self, runtime: Runtime, wanted: dict[str, str], context: RunContext
    ) -> Iterator[str]:
        """Make servers ready, and yield the result for each; raises HandlerError."""
        results: dict[str, str] = {}
        for server in runtime.servers(context):
            if server.label not in wanted:
                continue
            if wanted[server.label] == DRAIN and server.admin & MAINT_FORCED:
                results[server.label] = (
                    "left in maintenance, which this handler did not set"
                )
            elif server.admin & (DRAIN_FORCED | MAINT_FORCED):
                runtime.set_state(server, "ready", context)
        for server in runtime.servers(context):
            if server.label in wanted and server.label not in results:
                if server.admin & (DRAIN_FORCED | MAINT_FORCED):
                    raise HandlerError(f"{runtime.place}: {server.label} is not ready")
                health = "" if server.is_up else ", but its health check still fails"
                results[server.label] = f"ready{health}"
        for label in wanted:
            yield f"{label} {results.get(label, 'no longer exists')}"

    # Names and memo

    def _patterns(self, vm: str) -> list[str]:
        """Fill in the server names; raises HandlerError if the VM's name is unknown."""
        if not vm and any("{vm}" in server for server in self._options.servers):
            raise HandlerError(
                "the name of this VM is unknown, and `servers` contains {vm}"
            )
        values = {"vm": _plain(vm), "host": _plain(host_name())}
        return [forms.fill(server, values) for server in self._options.servers]

    def _remember(self, place: str, servers: Sequence[Server], state: str) -> None:
        memo = self._memo.read()
        fresh = {
            **memo.get(place, {}),
            **dict.fromkeys((s.label for s in servers), state),
        }
        if fresh != memo.get(place):
            self._memo.keep({**memo, place: fresh})


def _break_off(drained: _Seen, context: RunContext) -> None:
    for runtime, server in drained.servers:
        if server.sessions:
            # An unavailable proxy is asked again after the next check.
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
    """Return a pattern that matches only this name."""
    return _MAGIC.sub(r"[\1]", name)


def _faults(entry: Entry) -> Faults:
    for place in entry.get("socket", ()):
        if not place.startswith("/") and not is_address(place):
            kinds = "a path such as /run/haproxy/admin.sock nor HOST:PORT"
            yield "socket", f"{place!r} is neither {kinds}"
    for server in entry.get("servers", ()):
        if unknown := forms.unknown_places(server, _PLACES):
            known = ", ".join(f"{{{name}}}" for name in _PLACES)
            yield "servers", f"unknown placeholder {{{unknown[0]}}}; use one of {known}"
        elif not _SERVER.fullmatch(server):
            yield "servers", f"{server!r} must have the form BACKEND/SERVER"


KIND = HandlerKind(
    make=HaproxyWorker,
    keys={
        "socket": Option(
            form=Forms.NAMES,
            text="The addresses of HAProxy's runtime API: the path of a `stats socket` "
            "or of the master's socket, or HOST:PORT. One for each proxy.",
        ),
        "servers": Option(
            form=Forms.NAMES,
            text="The servers to drain: `backend/server`. `{vm}` is the name of this VM, "
            "`{host}` the short host name, `*` matches any text and `?` one character. "
            "At least one proxy must have each server.",
        ),
        "sessions_max": Option(
            form=Forms.COUNT,
            most=SESSIONS_BOUND,
            text="How many sessions all servers together may have left. Default: 0.",
        ),
        "wait": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=DAY,
            text="Maximum wait for sessions. Default, and upper limit: nine tenths of the "
            "handler's time.",
        ),
        "sessions_left": Option(
            form=Forms.WORD,
            words=(FAIL, LEAVE, SHUTDOWN),
            text="What to do with sessions that are left then. `fail`: the handler fails. "
            "`leave`: it succeeds. `shutdown`: it closes them. Default: `fail`.",
        ),
        "maint": Option(
            form=Forms.SWITCH,
            text="Whether to put drained servers into maintenance, which stops their "
            "health checks. Default: `false`.",
        ),
    },
    needed=("socket", "servers"),
    faults=_faults,
)
