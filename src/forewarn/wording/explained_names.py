"""Sentences about scopes, tenants, places, blackouts, the brake, checks, receivers, tokens and
replicas. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.fleet.model import Scope
from forewarn.instants import Micros, cut_to_second, format_instant
from forewarn.problems import listed
from forewarn.store.records import Token
from forewarn.texts import count


def enabled(is_enabled: bool) -> str:  # noqa: FBT001 - a state, in words
    """Return whether Scheduled Events are enabled."""
    return "enabled" if is_enabled else "not enabled"


def tenant(scopes: int, enabled_: int, *, is_all: bool) -> str:
    """Return how many scopes a tenant has, and how many of them can approve."""
    first = "" if is_all else "the first "
    return (
        f"{enabled_} of {first}{count(scopes, 'scope')} have Scheduled Events enabled; events "
        "of the others wait for NotBefore"
        if enabled_ < scopes
        else f"all of {first}{count(scopes, 'scope')} have Scheduled Events enabled"
    )


def brake(report: Mapping[str, Any]) -> str:
    """Return what the brake stops, and when it ends."""
    if not report["on"]:
        return "planned work can begin"
    ends = report["ends"]
    by_itself = f"; unless more is lost, it ends at {ends}" if ends else ""
    return f"{report['text']}{by_itself}"


def scope(scope_: Scope, vms: int, last_poll: Micros, *, is_enabled: bool) -> str:
    """Return the state of a scope; `last_poll` is stored rarely, 0: it was never seen."""
    polled = (
        f"its VMs polled last about {format_instant(cut_to_second(last_poll))}"
        if last_poll
        else "none of its VMs has polled"
    )
    able = (
        "Scheduled Events are enabled"
        if is_enabled
        else "Scheduled Events are not enabled, so its events wait for NotBefore"
    )
    window = "; it has a maintenance window" if scope_.maintenance_window else ""
    return (
        f"{scope_.kind.value} of tenant {scope_.tenant}, with {count(vms, 'VM')}; {able}; "
        f"{polled}{window}"
    )


def hosts(hosts_: int, down: int, cordoned: int, *, is_all: bool) -> str:
    """Return the state of the hosts at a place."""
    first = "" if is_all else "the first "
    return f"of {first}{count(hosts_, 'host')}, {down} are down and {cordoned} cordoned"


def blackout(report: Mapping[str, Any]) -> str:
    """Return when a blackout is, where, who set it, and which command shows its effect."""
    where = listed(report["where"]) or "the whole fleet"
    time = "it does not come again"
    if report["begins"]:
        time = f"from {report['begins']} to {report['ends'] or 'an unknown time'}"
    why = f" ({report['reason']})" if report["reason"] else ""
    return (
        f"{time}, for {where}, set by {report['by']}{why}: `forewarn waits` shows the work "
        "that it holds"
    )


def token(token_: Token) -> str:
    """Return whose a token is, what it may do, and until when."""
    whose = "an operator"
    if token_.tenant:
        whose = f"tenant {token_.tenant}"
    if token_.host:
        whose = f"the relay of host {token_.host}"
    roles = (
        f" ({listed([role.value for role in token_.roles])})" if token_.roles else ""
    )
    expires = (
        f"until {format_instant(cut_to_second(token_.expires_at))}"
        if token_.expires_at
        else f"until `forewarn token revoke {token_.token_id}`"
    )
    used = (
        f"used last about {format_instant(cut_to_second(token_.last_used_at))}"
        if token_.last_used_at
        else "never used"
    )
    return f"for {whose}{roles}, valid {expires}, {used}"


def check(row: Mapping[str, Any], campaigns: Sequence[str]) -> str:
    """Return the last answer of a check, and the open campaigns that need it."""
    last_run = f"asked at {row['asked']}" if row["asked"] else "not asked yet"
    why = f": {row['reason']}" if row["reason"] else ""
    needed = (
        f"needed by campaign {listed(list(campaigns))}"
        if campaigns
        else "no open campaign needs it"
    )
    return f"{last_run}{why}; {needed}; `forewarn check run {row['name']}` asks it now"


def webhook(row: Mapping[str, Any]) -> str:
    """Return the messages of a receiver that wait, and its last error."""
    error = f"; last error: {row['last_error']}" if row["last_error"] else ""
    delivered = row["last_delivered"] or "never"
    retry = f"; next attempt at {row['next_try']}" if row["next_try"] else ""
    return (
        f"{count(row['pending'], 'pending message')}, delivered last: {delivered}"
        f"{error}{retry}; `forewarn webhook test {row['webhook']}` tests it"
    )


def replica(row: Mapping[str, Any]) -> str:
    """Return how far a replica is behind."""
    behind = row["behind_entries"]
    lack = "unknown" if behind is None else count(behind, "transaction")
    return (
        f"version {row['version']}, last sign of life {row['silent_for_seconds']:.0f} s "
        f"ago, lacks {lack}; `forewarn cluster show` shows all replicas"
    )
