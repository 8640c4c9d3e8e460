"""Check several settings against each other, and make the policy of them.

Each single value is valid: invalid values were already reported and are missing here. A
fault is the full name of a setting, such as `rule.2.approve`, with a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent import options
from forewarn.agent.array_tables import PLAIN_HANDLERS, RULE, keys_of, kind_of
from forewarn.agent.core.policy import (
    Approve,
    Approver,
    Handler,
    Policy,
    Rule,
    Standby,
    Window,
)
from forewarn.agent.core.rules import UNSAFE_UNPREPARED, default_rules
from forewarn.agent.core.windows import zone_of
from forewarn.agent.integrations import registry
from forewarn.agent.options import Starts
from forewarn.agent.permit_checks import (
    gate_faults,
    gate_terms,
    lock_faults,
    lock_terms,
)
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.urls import parse_url
from forewarn.instants import Micros, format_duration
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
        handlers = tuple(
            handler_of(entry) for entry in self._entries["handler"] if "name" in entry
        )
        rules = tuple(
            rule_of(entry, number)
            for number, entry in enumerate(self._entries["rule"], start=1)
        )
        settings = self._settings
        watch, standby = settings.watch, settings.standby
        return Policy(
            handlers=handlers,
            rules=rules or default_rules(handlers, has_peers=self._has_peers),
            margin=watch.margin,
            urgent_time=watch.urgent_time,
            stop_grace=watch.stop_grace,
            windows=self._windows("window"),
            blackouts=self._windows("blackout"),
            standby=Standby(
                names=frozenset(standby.names),
                after=standby.after,
                sources=frozenset(standby.source),
            )
            if standby.names
            else None,
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
        for array, each in (
            ("handler", self._handler_faults),
            ("rule", self._rule_faults),
            ("window", _window_faults),
            ("blackout", _window_faults),
            ("notify", _notify_faults),
        ):
            for number, entry in enumerate(self._entries[array], start=1):
                if f"{array}.{number}" in self._partial:
                    continue
                for key, message in each(entry):
                    yield f"{array}.{number}.{key}".rstrip("."), message
        yield from self._twice("handler")
        yield from self._twice("rule")

    def _twice(self, array: str) -> Iterator[tuple[str, str]]:
        names: set[str] = set()
        for number, entry in enumerate(self._entries[array], start=1):
            name = entry.get("name")
            if name is not None and name in names:
                yield f"{array}.{number}.name", f"{quoted(name)} is there twice"
            names.add(name or "")

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
        known = [each["name"] for each in self._entries["handler"] if "name" in each]
        for name in dict.fromkeys(named):
            if name not in known:
                near = did_you_mean(name, known)
                yield "handlers", f"there is no handler {quoted(name)}{near}"
            if named.count(name) > 1:
                yield "handlers", f"{quoted(name)} is there twice"
        yield from self._start_faults(entry, has_handlers=bool(named))
        yield from self._approval_faults(entry, has_handlers=bool(named))

    def _start_faults(
        self, entry: _Entry, *, has_handlers: bool
    ) -> Iterator[tuple[str, str]]:
        start: Micros | Starts | None = entry.get("start")
        if start is None:
            return
        if not has_handlers:
            yield "start", "the rule has no handlers to start"
            return
        named = [name for group in entry.get("handlers", ()) for name in group]
        if isinstance(start, tuple):
            for name, _ in start:
                if name not in named:
                    near = did_you_mean(name, named)
                    yield "start", f"the rule has no handler {quoted(name)}{near}"
        befores = [each for _, each in start] if isinstance(start, tuple) else [start]
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
                each.get("mine", True) is rule.get("mine", True) for each in rest
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


def handler_of(entry: _Entry) -> Handler:
    """Return the properties of a handler that decisions depend on."""
    keys = ("timeout", "recover_timeout", "required", "retries", "priority")
    kind = registry.handler_kind(entry.get("kind", ""))
    return Handler(
        name=entry["name"],
        kind=entry.get("kind", ""),
        prepares=kind is not None or "prepare" in entry,
        recovers="recover" in entry if kind is None else kind.recovers,
        always=entry.get("always", kind is not None and kind.marks_there),
        **{key: entry[key] for key in keys if key in entry},
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


def action_fault(kind: str, words: tuple[str, ...]) -> str:
    """Return the problem of a handler's action; empty: none."""
    if kind == "webhook":
        if len(words) != 1:
            return 'must be one URL such as "https://drain.example.com/start"'
        try:
            parse_url(words[0])
        except ValueError as error:
            return str(error)
    elif kind == "python":
        if len(words) != 1 or not options.is_entry_point(words[0]):
            return 'must be "module:function"'
    elif "/" in words[0] and not words[0].startswith(("/", "./", "../")):
        return f"{quoted(words[0])} must be an absolute path, or a name without slashes"
    return ""


def _pair_faults(entry: _Entry) -> Iterator[tuple[str, str]]:
    for name, _ in entry.get("headers", ()):
        if not options.is_header_name(name):
            yield "headers", f"{quoted(name)} is not a valid header name"
    for name, _ in entry.get("environment", ()):
        if not options.is_variable(name):
            yield "environment", f"{quoted(name)} is not a valid variable name"
        elif name.startswith("FOREWARN_"):
            yield "environment", f"{quoted(name)} is set by the agent itself"


def _kind_faults(array: str, what: str, entry: _Entry) -> Iterator[tuple[str, str]]:
    """Yield settings of other kinds, and the problems that the kind itself finds."""
    word = entry.get("kind", "")
    known = keys_of(array, word)
    for key in entry:
        kinds = known[key].kinds
        if word and kinds and word not in kinds:
            yield key, f"is for {what} of kind {' and '.join(kinds)}"
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
