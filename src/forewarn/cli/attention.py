"""`problems`, `waits` and `capacity`: tables for people, documents for programs."""

from collections.abc import Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit
from forewarn.cli.listings import Listing
from forewarn.cli.selecting import concerns, names_of_file, selectors
from forewarn.cli.watching import watch

Json = Mapping[str, Any]

_WAIT_COLUMNS = (
    "TENANT",
    "EVENTS",
    "VMS",
    "HOSTS",
    "SINCE",
    "NOT BEFORE",
    "ENABLED",
    "LAST POLL",
)
_ZONE_COLUMNS = ("ZONE", "HOSTS", "DOWN", "IN WORK", "PLACES", "USED", "FREE")
_NEXT_COLUMNS = ("ROLLOUT", "NEXT HOST", "ZONE", "VMS", "NEEDS", "FITS")


def problems(call: Call) -> int:
    """List the problems; the status is 1 if there are any."""
    asked, names = selectors(call, "vm", "rollout"), names_of_file(call)
    kind = {"kind": text} if (text := call.text("kind")) else {}
    if call.flag("watch"):
        state = {"state": text} if text else {}
        return watch(call, PROBLEMS, {**asked, **state}, names)
    with Client.of(call) as client:
        told = client.whole("problems", "problems", {**asked, **kind})
    found = [each for each in told["problems"] if concerns(each, names)]
    if call.flag("json"):
        output.document({**told, "problems": found})
    else:
        rows = map(_problem_row, found)
        output.table(PROBLEMS.empty, PROBLEMS.columns, rows)
    return Exit.FAILED if found else Exit.DONE


def waits(call: Call) -> int:
    """List the tenants whose approval is missing."""
    asked = {"tenant": tenant} if (tenant := call.text("tenant")) else {}
    with Client.of(call) as client:
        told = client.whole("waits", "waits", asked)
    if call.flag("json"):
        output.document(told)
        return Exit.DONE
    rows = map(_wait_row, told["waits"])
    output.table("no approval is missing", _WAIT_COLUMNS, rows)
    _warn_of_limit(told)
    return Exit.DONE


def capacity(call: Call) -> int:
    """List free capacity, and the needs of the next hosts."""
    asked = {"zone": zone} if (zone := call.text("zone")) else {}
    with Client.of(call) as client:
        told = client.whole("capacity", "zones", asked)
    if call.flag("json"):
        output.document(told)
        return Exit.DONE
    output.table("no hosts", _ZONE_COLUMNS, map(_zone_row, told["zones"]))
    if told["next_hosts"]:
        output.line()
        output.table("", _NEXT_COLUMNS, map(_next_row, told["next_hosts"]))
    _warn_of_limit(told)
    return Exit.DONE


def _warn_of_limit(told: Json) -> None:
    if not told["complete"]:
        output.line(
            "the sums are incomplete: there are more objects than the service adds up at once"
        )


def _problem_row(problem: Json) -> tuple[str, ...]:
    return (
        problem["target"] or problem["webhook"] or "-",
        problem["kind"],
        problem["since"] or "-",
        " ".join(problem["tenants"]) or "-",
        problem["text"],
        _attempt(problem),
    )


def _attempt(problem: Json) -> str:
    """Return a command to copy; empty if an operator must decide."""
    if problem["kind"] == "vm-down" and "restore" in problem["actions"]:
        return f"forewarn restore {problem['target']}"
    if problem["webhook"]:
        return f"forewarn webhook test {problem['webhook']}"
    return f"forewarn explain {problem['operation']}" if problem["operation"] else ""


PROBLEMS = Listing(
    path="problems",
    noun="problem",
    empty="nothing needs you",
    columns=("TARGET", "KIND", "SINCE", "TENANT", "PROBLEM", "TRY"),
    row=_problem_row,
    key="problem",
    state="kind",
    order="kind",
    ended="ended",
    keeps_ended=False,
)


def _wait_row(wait: Json) -> tuple[str, ...]:
    enabled, scopes = wait["scopes_enabled"], wait["scopes"]
    partly = f"{enabled} of {scopes} scopes"
    return (
        wait["tenant"],
        str(wait["events"]),
        str(wait["vms"]),
        str(wait["hosts"]) if wait["hosts"] else "-",
        wait["since"],
        wait["not_before"],
        "no" if not enabled else "yes" if enabled == scopes else partly,
        wait["last_poll"] or "never",
    )


def _zone_row(zone: Json) -> tuple[str, ...]:
    # A host without a capacity takes any number of VMs.
    free = "no limit" if zone["unlimited"] else str(zone["free"])
    places = f"{zone['places']}+" if zone["unlimited"] else str(zone["places"])
    return (
        zone["zone"] or "-",
        str(zone["hosts"]),
        str(zone["down"]),
        str(zone["in_work"]),
        places,
        str(zone["used"]),
        free,
    )


def _next_row(need: Json) -> tuple[str, ...]:
    return (
        need["rollout"],
        need["host"],
        need["zone"] or "-",
        str(need["vms"]),
        str(need["needs"]),
        "yes" if need["fits"] else "no",
    )
