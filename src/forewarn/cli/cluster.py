"""`cluster show`: who leads, and how far each replica is behind."""

from collections.abc import Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.instants import SECOND, describe_duration
from forewarn.wording.replicas import ACCEPT_LOSS, SAME_LEASE, refuses, written_lease

_COLUMNS = ("REPLICA", "ROLE", "BEHIND", "LAST SIGN", "LEASE", "VERSION", "URL")

_STANDBY = {
    "streaming": "synchronous standby: streaming",
    "missing": "synchronous standby: none streams, so commits wait for one",
    "not set": (
        "synchronous standby: not set (synchronous_standby_names is empty); a fail-over of "
        "the database can lose approvals that were answered"
    ),
    "unknown": (
        "synchronous standby: unknown. Let the service's user see it, on the database's "
        'machine: sudo -u postgres psql -c "GRANT pg_read_all_stats TO forewarn"'
    ),
}

_REFUSES = "refuses"


def show(call: Call) -> int:
    """Show the replicas."""
    cluster = Client.of(call).get("cluster")
    return output.shown(call, cluster, _print)


def _print(cluster: Mapping[str, Any]) -> None:
    if not cluster["replicated"]:
        output.line("this service has no cluster: it runs alone, with its own store")
        return
    output.line(_head(cluster))
    if cluster["synchronous_standby"] is not None:
        output.line(_STANDBY[cluster["synchronous_standby"]])
    output.table("no replicas", _COLUMNS, map(_row, cluster["replicas"]), essential=3)
    for replica in cluster["replicas"]:
        if replica["role"] == _REFUSES:
            output.line(f"{refuses(replica['name'])}. {ACCEPT_LOSS}")
    if cluster["leases_differ"]:
        output.line(f"the replicas have different leases. {SAME_LEASE}")


def _head(cluster: Mapping[str, Any]) -> str:
    here, asked_seconds = cluster["answered_by"], cluster["asked_ago_seconds"]
    if cluster["term"] is None:
        since = (
            "since it started"
            if asked_seconds is None
            else f"for {_spoken(asked_seconds)}"
        )
        return f"unknown: {here} has had no answer of the database {since}"
    if cluster["leader"] is None:
        return f"no replica leads (term {cluster['term']}), says {here}"
    led = cluster["led_for_seconds"]
    since = "for an unknown time" if led is None else f"for {_spoken(led)}"
    changes = cluster["takeovers"]
    recent = f", {changes} takeovers in 15 minutes" if changes > 1 else ""
    return f"{cluster['leader']} leads {since} (term {cluster['term']}{recent}), says {here}"


def _row(replica: Mapping[str, Any]) -> tuple[str, ...]:
    silent = replica["silent_for_seconds"]
    return (
        replica["name"],
        replica["role"],
        _behind(replica),
        f"{silent:.1f} s ago",
        written_lease(replica["lease_seconds"]),
        replica["version"] or "-",
        replica["url"] or "-",
    )


def _behind(replica: Mapping[str, Any]) -> str:
    entries, seconds = replica["behind_entries"], replica["behind_seconds"]
    if entries is None or seconds is None:
        return "unknown"
    if not entries:
        return "-"
    return f"{entries} {'entry' if entries == 1 else 'entries'}, {seconds:.1f} s"


def _spoken(seconds: float) -> str:
    return describe_duration(round(seconds) * SECOND)
