"""Check the settings of `[lock]` and `[gate]`, and make the policy's terms of them.

A fault is the full name of a setting with a message, as in `checks`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from forewarn.agent.alerts.reading import selector
from forewarn.agent.core.policy import GateTerms, LockTerms
from forewarn.agent.settings_model import AUTO, GateSettings, LockSettings
from forewarn.problems import quoted

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
