"""`problems`, `waits`, `capacity` and `explain`: tables and lines for people, documents for
programs."""

from collections.abc import Iterator

from forewarn.cli import output
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import Listing
from forewarn.cli.problem_commands import command_for
from forewarn.cli.selecting import check_names, named, names_of_file, selectors
from forewarn.cli.upcoming import upcoming_line
from forewarn.cli.watching import watch
from forewarn.fleet.resources import format_size
from forewarn.texts import count
from forewarn.verbs.problem_kinds import PROBLEM_RANKS

_HELD_COLUMNS = ("HELD BY", "KIND", "HOSTS", "UNTIL", "REASON", "TENANT")
_HELD_ESSENTIAL = 4

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
_ZONE_COLUMNS = (
    "ZONE",
    "HOSTS",
    "DOWN",
    "IN WORK",
    "CORDONED",
    "PLACES",
    "USED",
    "FREE",
)
_CLUSTER_COLUMNS = ("CLUSTER", *_ZONE_COLUMNS[1:])
_POOL_COLUMNS = ("POOL", "RESOURCE", "TOTAL", "FREE", "RESERVE")
_NEXT_COLUMNS = ("ROLLOUT", "NEXT HOST", "ZONE", "VMS", "NEEDS", "FITS")
_NEXT_ESSENTIAL = 2


def problems(call: Call) -> int:
    """List the problems; the status is 1 if there are any."""
    selection, names = selectors(call, "vm", "rollout"), names_of_file(call)
    kind, client = call.given("kind"), Client.of(call)
    if call.flag("watch"):
        check_names(call, client, names)
        state = {"state": kind["kind"]} if kind else {}
        return watch(call, PROBLEMS, {**selection, **state}, names)
    answer = client.whole("problems", {**selection, **kind}, "problems")
    answer["problems"] = problems_named = named(call, client, answer["problems"], names)
    output.listed(
        call,
        answer,
        PROBLEMS.empty,
        PROBLEMS.columns,
        map(_problem_row, problems_named),
        essential=PROBLEMS.essential,
    )
    return Exit.FAILED if problems_named else Exit.DONE


def waits(call: Call) -> int:
    """List the tenants whose approval is missing."""
    answer = Client.of(call).whole("waits", selectors(call, "vm", "rollout"), "waits")
    output.listed(
        call,
        answer,
        "no approval is missing",
        _WAIT_COLUMNS,
        map(_wait_row, answer["waits"]),
    )
    if answer["held"] and not call.flag("json"):
        output.line()
        output.table(
            "", _HELD_COLUMNS, map(_held_row, answer["held"]), essential=_HELD_ESSENTIAL
        )
    return _warn_of_limit(call, answer)


def capacity(call: Call) -> int:
    """List free capacity, and the needs of the next hosts."""
    answer = Client.of(call).whole("capacity", selectors(call, "vm"), "zones")
    zones = (_part_row(zone, "zone") for zone in answer["zones"])
    output.listed(call, answer, "no hosts", _ZONE_COLUMNS, zones)
    if answer["clusters"] and not call.flag("json"):
        output.line()
        rows = (_part_row(cluster, "cluster") for cluster in answer["clusters"])
        output.table("", _CLUSTER_COLUMNS, rows)
    reserved = [pool for pool in answer["pools"] if pool["reserve"]]
    if reserved and not call.flag("json"):
        output.line()
        output.table("", _POOL_COLUMNS, map(_pool_row, reserved))
    if answer["next_hosts"] and not call.flag("json"):
        output.line()
        rows = map(_next_row, answer["next_hosts"])
        output.table("", _NEXT_COLUMNS, rows, essential=_NEXT_ESSENTIAL)
    return _warn_of_limit(call, answer)


def _warn_of_limit(call: Call, answer: Json) -> Exit:
    if not answer["complete"] and not call.flag("json"):
        output.line(
            "the sums are incomplete: there are more objects than the service adds up at once"
        )
    return Exit.DONE


def _problem_row(problem: Json) -> tuple[str, ...]:
    return (
        problem["target"] or problem["webhook"] or problem["campaign"] or "-",
        problem["kind"],
        problem["since"] or "-",
        " ".join(problem["tenants"]) or "-",
        problem["text"],
        command_for(problem),
    )


def _urgency(problem: Json) -> tuple[int, str]:
    """Return the sort key of a report: the worst kind first, then the oldest."""
    kind = problem["kind"]
    # A newer service can have more kinds.
    rank = PROBLEM_RANKS.get(kind, len(PROBLEM_RANKS))
    return rank, problem["since"] or ""


PROBLEMS = Listing(
    path="problems",
    noun="problem",
    empty="nothing needs you",
    columns=("TARGET", "KIND", "SINCE", "TENANT", "PROBLEM", "TRY"),
    essential=2,
    row=_problem_row,
    key="problem",
    state="kind",
    order="problem",
    urgency=_urgency,
    ended="ended",
    times=("since",),
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


def _held_row(held: Json) -> tuple[str, ...]:
    held_by = (
        held["scope"] or held["campaign"] or held["blackout"] or held["relay"] or "-"
    )
    return (
        held_by,
        held["kind"],
        str(held["hosts"]),
        held["until"] or "unknown",
        held["text"],
        held["tenant"] or "-",
    )


def _part_row(sums: Json, kind: str) -> tuple[str, ...]:
    """Return the cells of a zone or a cluster."""
    # A host without a capacity takes any number of VMs. PLACES are those of the others.
    free = "no limit" if sums["unlimited"] else str(sums["free"])
    places = f"{sums['places']}+" if sums["unlimited"] else str(sums["places"])
    if sums["unlimited"] and not sums["places"]:
        places = "no limit"
    return (
        sums[kind] or "-",
        str(sums["hosts"]),
        str(sums["down"]),
        str(sums["in_work"]),
        str(sums["cordoned"]),
        places,
        str(sums["used"]),
        free,
    )


def _pool_row(pool: Json) -> tuple[str, ...]:
    show = format_size if pool["resource"] == "memory" else str
    amounts = (show(pool[key]) for key in ("total", "free", "reserve"))
    return pool["pool"] or "-", pool["resource"], *amounts


def _next_row(need: Json) -> tuple[str, ...]:
    return (
        need["rollout"],
        need["host"],
        need["zone"] or "-",
        str(need["vms"]),
        str(need["needs"]),
        "yes" if need["fits"] else "no",
    )


REASONED_MAX = 3
"""Operations in the text of an explanation that have their reasons, so that it fits on a
screen. Further ones have a line each, since the object has the reasons of all."""


def explain(call: Call) -> int:
    """Explain any object by its ID or name."""
    answer = Client.of(call).get(
        f"explain/{part(call.text('id'))}", selectors(call, "kind")
    )
    return output.said(call, answer, *explanation_lines(answer))


def explanation_lines(answer: Json) -> Iterator[str]:
    """Yield the text of an explanation."""
    name = (
        f"{answer['id']}, {answer['what']}"
        if answer["kind"] in _WITH_ID
        else answer["what"]
    )
    yield f"{name}: {answer['state']}"
    yield from _reasons(answer)
    yield from (f"  - {limit['text']}" for limit in answer["abilities"])
    # The reasons of a campaign are first; a few hosts show what else it waits for.
    shown = REASONED_MAX if answer["kind"] == "campaign" else None
    yield from _operations(answer, answer["operations"][:shown])
    if coming := answer["upcoming"]:
        yield ""
        yield "Coming work on it:"
        yield from (f"  * {upcoming_line(work)}" for work in coming)
    left_out = len(answer["operations"][shown:]) if shown else 0
    if more := answer["more_operations"] + left_out:
        command = _command_for_more(answer)
        yield ""
        yield f"and {count(more, 'more open operation')}: forewarn {command}"


def _command_for_more(answer: Json) -> str:
    """Return the command that lists all open operations of an object."""
    kind, name = answer["kind"], answer["id"]
    if kind == "campaign":
        return f"campaign show {name} --all"
    if kind == "place":
        where, _, name = name.partition("=")
        return f"operations --{where} {name}"
    return f"operations {_OPTIONS[kind]} {name}"


_WITH_ID = frozenset(
    {"campaign", "event", "operation", "place", "request", "rollout", "visit"}
)
"""Kinds of objects whose text does not have their ID."""


def _operations(answer: Json, operations: list[Json]) -> Iterator[str]:
    """Yield the operations of an object: with their reasons if they are few.

    The reasons of a single operation are those of the object, and are not repeated.
    """
    brief = len(operations) > REASONED_MAX
    if brief:
        yield ""
    for operation in operations:
        head = f"{operation['operation']}, {operation['what']}: {operation['state']}"
        if brief:
            yield f"{head}, {operation['status']}"
            continue
        yield ""
        yield head
        if operation["blockers"] == answer["blockers"]:
            yield operation["status"]
        else:
            yield from _reasons(operation)


_OPTIONS = {
    "rollout": "--rollout",
    "request": "--rollout",
    "host": "--host",
    "vm": "--vm",
    "scope": "--scope",
    "tenant": "--tenant",
}
"""The options that list the operations of an object, by its kind."""


def _reasons(answer: Json) -> Iterator[str]:
    yield f"{answer['status']}{':' if answer['blocked_by'] else ''}"
    yield from (f"  * {reason}" for reason in answer["blocked_by"])
