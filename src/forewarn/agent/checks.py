"""Check several settings against each other, and create the policy from them.

Each single value is valid: invalid values were already reported and are missing here. A
fault is the full name of a setting, such as `rule.2.approve`, with a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent import options
from forewarn.agent.alerts.reading import selector
from forewarn.agent.array_tables import PLAIN_HANDLERS, RULE, keys_of, kind_of
from forewarn.agent.core.policy import (
    Approve,
    Approver,
    GateTerms,
    LockTerms,
    Policy,
    Rule,
    Window,
)
from forewarn.agent.core.rules import UNSAFE_UNPREPARED, default_rules
from forewarn.agent.options import Starts
from forewarn.agent.settings_model import AUTO, GateSettings, LockSettings, Settings
from forewarn.agent.wire.urls import parse_url
from forewarn.instants import Micros, format_duration, zone_of
from forewarn.problems import did_you_mean, quoted

EVERY_DAY = frozenset(range(7))

_ACTIONS = ("prepare", "recover", "check")
_PAIRS = (
    ("min_duration", "max_duration"),
    ("min_lead", "max_lead"),
    ("min_resources", "max_resources"),
)
_CONDITIONS = frozenset(
    {"type", "status", "source", "description"}
    | {key for pair in _PAIRS for key in pair}
)

_GROUP = re.compile(r"[a-zA-Z0-9.-]{1,200}", re.ASCII)
"""The groups of the FleetLock protocol, with the maximum length of file names."""

_LEASE = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)
"""Valid endings of a Lease's name."""

_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)

_KINDS: Mapping[str, tuple[str, ...]] = {
    "url": ("fleetlock", "consul"),
    "path": ("directory",),
    "namespace": ("kubernetes",),
    "kubeconfig": ("kubernetes",),
    "holders": ("kubernetes", "consul", "directory"),
    "ttl": ("kubernetes", "consul", "directory"),
    "token_file": ("fleetlock", "consul"),
    "ca_file": ("fleetlock", "consul"),
    "cert_file": ("fleetlock", "consul"),
    "key_file": ("fleetlock", "consul"),
}
"""The settings that are only for some kinds of locks."""

_WHY = {
    "holders": ": a FleetLock server has its own number of slots",
    "ttl": ": FleetLock has no expiry",
}

_NEEDED = {"fleetlock": "url", "directory": "path"}

_API_PATHS = ("/api/v1/alerts", "/api/v2/alerts", "/api/v1", "/api/v2")
"""API paths that are often copied with the URL."""

_Entry = Mapping[str, Any]


class Judge:
    """Checks all settings together."""

    def __init__(
        self,
        entries: Mapping[str, Sequence[_Entry]],
        settings: Settings,
        partial: Collection[str] = (),
    ) -> None:
        """Store the valid settings of the arrays' tables, and the other tables.

        `partial` has the arrays' tables with invalid settings, such as `rule.2`. A
        setting that seems to be missing there may already have been reported.
        """
        self.faults: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self._entries = entries
        self._settings = settings
        self._has_peers = bool(settings.peers.url or settings.peers.urls)
        self._partial = partial

    def policy(self) -> Policy:
        """Return the policy; the problems are in `faults`."""
        self.faults += self._all_faults()
        self._warn()
        rules = tuple(
            rule_of(entry, number)
            for number, entry in enumerate(self._entries["rule"], start=1)
        )
        settings, watch = self._settings, self._settings.watch
        usual = default_rules(settings.handlers, has_peers=self._has_peers)
        return Policy(
            handlers=settings.handlers,
            rules=rules or usual,
            margin=watch.margin,
            urgent_time=watch.urgent_time,
            stop_grace=watch.stop_grace,
            windows=self._windows("window"),
            blackouts=self._windows("blackout"),
            standby=settings.standby,
            has_peers=self._has_peers,
            lock=lock_terms(settings.lock) if settings.lock.kind else None,
            gate=gate_terms(settings.gate) if settings.gate.url else None,
            is_observer=watch.observe,
            gone_after=settings.gone_after,
            forget_after=watch.forget_after,
        )

    def _windows(self, array: str) -> tuple[Window, ...]:
        return tuple(
            Window(
                days=entry.get("days", EVERY_DAY),
                begins=entry["begins"],
                ends=entry["ends"],
                zone=entry.get("zone", "UTC"),
            )
            for entry in self._entries[array]
            if {"begins", "ends"} <= entry.keys()
        )

    def _all_faults(self) -> Iterator[tuple[str, str]]:
        yield from self._peer_faults()
        yield from lock_faults(self._settings.lock)
        yield from gate_faults(self._settings.gate)
        for array, faults_of in (
            ("handler", self._handler_faults),
            ("rule", self._rule_faults),
            ("window", _window_faults),
            ("blackout", _window_faults),
            ("notify", _notify_faults),
        ):
            for number, entry in enumerate(self._entries[array], start=1):
                if f"{array}.{number}" in self._partial:
                    continue
                for key, message in faults_of(entry):
                    yield f"{array}.{number}.{key}".rstrip("."), message
        yield from self._twice("handler")
        yield from self._twice("rule")

    def _twice(self, array: str) -> Iterator[tuple[str, str]]:
        names: list[str] = [entry.get("name", "") for entry in self._entries[array]]
        for index, name in enumerate(names):
            if name and name in names[:index]:
                yield f"{array}.{index + 1}.name", f"{quoted(name)} is there twice"

    def _peer_faults(self) -> Iterator[tuple[str, str]]:
        peers, watch = self._settings.peers, self._settings.watch
        if (peers.listen or self._has_peers) and not peers.token_file:
            yield "peers.token_file", "is missing: requests of peers need a token"
        if watch.listen and watch.listen == peers.listen:
            yield "peers.listen", f"{peers.listen} is already used by listen"

    def _handler_faults(self, entry: _Entry) -> Iterator[tuple[str, str]]:
        yield from _kind_faults("handler", "handlers", entry)
        kind = entry.get("kind", "")
        if kind not in PLAIN_HANDLERS:
            return
        for key in _ACTIONS:
            if key in entry and (fault := action_fault(kind, entry[key])):
                yield key, fault
        if not entry.keys() & {"prepare", "recover"}:
            yield "", "it has no action: write prepare, recover or both"
        if entry.get("always") and "recover" not in entry:
            yield "always", "there is no action to run: write recover"
        for key in ("pods_node", "pods_kubeconfig"):
            if key in entry and not entry.get("pods"):
                yield key, "is for a handler with pods = true"
        yield from _pair_faults(entry)

    def _rule_faults(self, entry: _Entry) -> Iterator[tuple[str, str]]:
        for least, most in _PAIRS:
            if least in entry and most in entry and entry[least] > entry[most]:
                yield most, f"is less than {least}: no event would match"
        named = [name for group in entry.get("handlers", ()) for name in group]
        known = [row["name"] for row in self._entries["handler"] if "name" in row]
        for name in dict.fromkeys(named):
            if name not in known:
                near = did_you_mean(name, known)
                yield "handlers", f"there is no handler {quoted(name)}{near}"
            if named.count(name) > 1:
                yield "handlers", f"{quoted(name)} is there twice"
        yield from self._start_faults(entry, named)
        yield from self._approval_faults(entry, has_handlers=bool(named))

    def _start_faults(
        self, entry: _Entry, named: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        start: Micros | Starts | None = entry.get("start")
        if start is None:
            return
        if not named:
            yield "start", "the rule has no handlers to start"
            return
        if isinstance(start, tuple):
            for name, _ in start:
                if name not in named:
                    near = did_you_mean(name, named)
                    yield "start", f"the rule has no handler {quoted(name)}{near}"
        befores = (
            [before for _, before in start] if isinstance(start, tuple) else [start]
        )
        margin = self._settings.watch.margin
        if any(before <= margin for before in befores):
            shown = format_duration(margin)
            yield "start", f"leaves no time: preparation ends {shown} before NotBefore"

    def _approval_faults(
        self, entry: _Entry, *, has_handlers: bool
    ) -> Iterator[tuple[str, str]]:
        approve = entry.get("approve")
        unsafe = sorted(UNSAFE_UNPREPARED & set(entry.get("type", ())))
        if not entry.get("mine", True):
            if approve not in {None, Approve.NEVER.value}:
                yield "approve", "events of other VMs are not approved: see [standby]"
        elif approve is None and not has_handlers:
            yield "", 'without handlers it must say approve = "at once" or "never"'
        elif approve == Approve.AT_ONCE.value and has_handlers:
            yield "approve", 'preparation comes first: write "when prepared"'
        elif approve == Approve.AT_ONCE.value and unsafe:
            yield "approve", f"a {unsafe[0]} is never approved unprepared"
        elif approve == Approve.PREPARED.value and not has_handlers:
            yield "approve", 'no handler prepares: name handlers, or write "at once"'
        approver = entry.get("approver", Approver.ANY.value)
        if approver == Approver.ALL.value and not self._has_peers:
            yield "approver", "needs the URLs of the peers: write [peers] url"
        if "takeover" in entry and approver == Approver.ANY.value:
            yield "takeover", "has no effect: each VM approves for itself"

    def _warn(self) -> None:
        rules = self._entries["rule"]
        used = {name for rule in rules for g in rule.get("handlers", ()) for name in g}
        for handler in self._entries["handler"]:
            name = handler.get("name", "")
            if rules and name not in used and not handler.get("always"):
                self.warnings.append(f"no rule names the handler {quoted(name)}")
        for number, rule in enumerate(rules[:-1], start=1):
            rest = rules[number:]
            if not rule.keys() & _CONDITIONS and any(
                entry.get("mine", True) is rule.get("mine", True) for entry in rest
            ):
                self.warnings.append(
                    f"{rule.get('name', f'rule {number}')} matches every event, "
                    "so no rule after it has any effect"
                )
                break
        for number, rule in enumerate(rules, start=1):
            for table, is_there in (
                ("lock", bool(self._settings.lock.kind)),
                ("gate", bool(self._settings.gate.url)),
            ):
                if table in rule and not is_there:
                    self.warnings.append(
                        f"rule {number}: {table} has no effect without a table [{table}]"
                    )
            for key in ("type", "status", "source"):
                for word in rule.get(key, ()):
                    if word not in RULE[key].words:
                        self.warnings.append(
                            f"rule {number}: {quoted(word)} is an unknown {key}"
                        )


def rule_of(entry: _Entry, number: int) -> Rule:
    """Return a rule; `number` counts from 1, and is part of the default name."""
    plain = {
        key: entry[key]
        for key in (
            "min_duration",
            "max_duration",
            "description",
            "min_lead",
            "max_lead",
            "min_resources",
            "max_resources",
            "mine",
            "takeover",
            "lock",
            "gate",
        )
        if key in entry
    }
    groups = entry.get("handlers", ())
    is_prepared = bool(groups) and entry.get("mine", True)
    usual = Approve.PREPARED if is_prepared else Approve.NEVER
    start: Micros | Starts | None = entry.get("start")
    return Rule(
        name=entry.get("name", f"rule {number}"),
        types=frozenset(entry.get("type", ())),
        statuses=frozenset(entry.get("status", ())),
        sources=frozenset(entry.get("source", ())),
        groups=groups,
        start_before=None if isinstance(start, tuple) else start,
        starts=start if isinstance(start, tuple) else (),
        approve=Approve(entry.get("approve", usual.value)),
        approver=Approver(entry.get("approver", Approver.ANY.value)),
        **plain,
    )


def action_fault(kind: str, command: tuple[str, ...]) -> str:
    """Return the problem of a handler's action; empty: none."""
    if kind == "webhook":
        if len(command) != 1:
            return 'must be one URL such as "https://drain.example.com/start"'
        try:
            parse_url(command[0])
        except ValueError as error:
            return str(error)
    elif kind == "python":
        if len(command) != 1 or not options.ENTRY_POINT.fullmatch(command[0]):
            return 'must be "module:function"'
    elif "/" in command[0] and not command[0].startswith(("/", "./", "../")):
        return (
            f"{quoted(command[0])} must be an absolute path, or a name without slashes"
        )
    return ""


def _pair_faults(entry: _Entry) -> Iterator[tuple[str, str]]:
    for name, _ in entry.get("headers", ()):
        if not options.HEADER_NAME.fullmatch(name):
            yield "headers", f"{quoted(name)} is not a valid header name"
    for name, _ in entry.get("environment", ()):
        if not options.VARIABLE.fullmatch(name):
            yield "environment", f"{quoted(name)} is not a valid variable name"
        elif name.startswith("FOREWARN_"):
            yield "environment", f"{quoted(name)} is set by the agent itself"


def _kind_faults(
    array: str, entries_of: str, entry: _Entry
) -> Iterator[tuple[str, str]]:
    """Yield settings of other kinds, and the problems that the kind itself finds."""
    word = entry.get("kind", "")
    known = keys_of(array, word)
    for key in entry:
        kinds = known[key].kinds
        if word and kinds and word not in kinds:
            yield key, f"is for {entries_of} of kind {' and '.join(kinds)}"
    kind = kind_of(array, word)
    # Without its required settings, there is nothing to compare.
    if kind is not None and entry.keys() >= {*kind.needed}:
        yield from kind.faults(entry)


def _window_faults(entry: _Entry) -> Iterator[tuple[str, str]]:
    if "zone" in entry:
        try:
            zone_of(entry["zone"])
        except ValueError as error:
            yield "zone", str(error)


def _notify_faults(entry: _Entry) -> Iterator[tuple[str, str]]:
    kind = entry.get("kind", "")
    needed = {"webhook": "url", "file": "path"}.get(kind)
    if needed and needed not in entry:
        yield "", f"{needed} is missing"
    yield from _kind_faults("notify", "receivers", entry)
    yield from _pair_faults(entry)


# The tables [lock] and [gate]


def lock_terms(settings: LockSettings) -> LockTerms:
    """Return the terms of the lock for decisions."""
    return LockTerms(
        label=settings.label,
        holder="" if settings.id == AUTO else settings.id,
        pause=settings.pause,
        margin=settings.margin,
        withholds=settings.at_deadline == "withhold",
        ttl=0 if settings.kind == "fleetlock" else settings.ttl,
        timeout=settings.timeout,
    )


def lock_faults(settings: LockSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems of the lock's settings."""
    usual = LockSettings()
    kind = settings.kind
    if not kind:
        if settings != usual:
            yield "lock.kind", "is missing; without it there is no lock"
        return
    for key, kinds in _KINDS.items():
        if kind not in kinds and getattr(settings, key) != getattr(usual, key):
            why = _WHY.get(key, "")
            *first, last = kinds
            named = f"{', '.join(first)} or {last}" if first else last
            yield f"lock.{key}", f"is for a lock of kind {named}{why}"
    needed = _NEEDED.get(kind)
    if needed and not getattr(settings, needed):
        yield f"lock.{needed}", f"is missing: a lock of kind {kind} needs it"
    if settings.path and not os.path.isabs(settings.path):
        yield "lock.path", f"{quoted(settings.path)} must be an absolute path"
    if not _GROUP.fullmatch(settings.group):
        yield "lock.group", "may contain only letters, digits, - and periods"
    elif kind == "kubernetes" and not _LEASE.fullmatch(settings.group):
        why = "may contain only lower-case letters, digits, - and periods, as names of Leases"
        yield "lock.group", why
    if settings.namespace and not _NAMESPACE.fullmatch(settings.namespace):
        yield "lock.namespace", f"{quoted(settings.namespace)} is not a valid namespace"


def gate_terms(settings: GateSettings) -> GateTerms:
    """Return the terms of the gate for decisions."""
    return GateTerms(
        label=settings.label,
        every=settings.every,
        clear_for=settings.clear_for,
        goes_unknown=settings.unknown == "go",
        timeout=settings.timeout,
    )


def gate_faults(settings: GateSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems of the gate's settings."""
    if not settings.url:
        if settings != GateSettings():
            why = "is missing, and so is alertmanager; without one there is no gate"
            yield "gate.prometheus", why
        return
    if settings.prometheus and settings.alertmanager:
        yield "gate.alertmanager", "write prometheus or alertmanager, not both"
    for key in ("prometheus", "alertmanager"):
        yield from _url_faults(f"gate.{key}", getattr(settings, key))
    for key, texts in (("only", settings.only), ("ignore", settings.ignore)):
        for text in texts:
            try:
                selector(text)
            except ValueError as error:
                yield f"gate.{key}", str(error)
    if settings.pending and not settings.prometheus:
        why = "is only for prometheus: Alertmanager does not get pending alerts"
        yield "gate.pending", why
    if settings.key_file and not settings.cert_file:
        yield "gate.key_file", "has no effect without cert_file"


def _url_faults(name: str, url: str) -> Iterator[tuple[str, str]]:
    if "?" in url:
        yield name, f"{quoted(url)} must not have a query"
        return
    for path in _API_PATHS:
        if url.rstrip("/").endswith(path):
            base = url.rstrip("/")[: -len(path)]
            yield name, f"{quoted(url)} must be without {path}: {quoted(base)}"
            return
