"""`history` and `availability`, as tables for people and JSON for programs."""

from collections.abc import Iterator
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import PAGE, Client, Json
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.listings import approved, first_line, total
from forewarn.cli.selecting import KEYS, named, names_of_file
from forewarn.cli.times import with_offset
from forewarn.instants import SECOND, describe_duration

MINUTE_SECONDS = 60

SHOWN_SECONDS = 0.001
"""A shorter time is shown as `<1 ms`, not as zero."""

WHOLE_PERCENT = 100
"""Only a VM without downtime has this percentage without decimals."""

_HISTORY_KEYS = ("vm", "operation", "event", *KEYS, "actor", "what")
_SUMMARY_KEYS = ("vm", "operation", *KEYS)
_PERIOD_KEYS = ("since", "until")

_HISTORY_COLUMNS = ("AT", "WHO", "WHAT", "ABOUT", "WHY", "DETAIL")
_HISTORY_ESSENTIAL = 4
"""The columns up to ABOUT: an entry without its subject says nothing."""
_SUMMARY_COLUMNS = (
    "OPERATION",
    "STATE",
    "WHAT",
    "VMS",
    "APPROVED",
    "STARTED",
    "PLANNED",
    "LONGEST DOWN",
    "NOTE",
)
_SUMMARY_ESSENTIAL = 3
_VM_COLUMNS = (
    "OPERATION",
    "STATE",
    "WHAT",
    "VM",
    "APPROVED BY",
    "STARTED",
    "PLANNED",
    "DOWN",
    "NOTE",
)
_VM_ESSENTIAL = 4
_AVAILABILITY_COLUMNS = (
    "VM",
    "UP",
    "PLANNED",
    "UNPLANNED",
    "SCOPE",
    "INTERRUPTIONS",
    "LONGEST",
    "KNOWN",
    "UNKNOWN",
)
_AVAILABILITY_ESSENTIAL = 4


def history(call: Call) -> int:
    """Print the history, or the accounts of operations."""
    if call.flag("summary"):
        return _summary(call)
    names = names_of_file(call)
    client = Client.of(call)
    every = client.every(
        "history", "entries", _asked(call, (*_HISTORY_KEYS, *_PERIOD_KEYS))
    )
    entries = named(call, client, every, names)
    rows = (
        (
            entry["at"],
            entry["actor"],
            entry["what"],
            next(iter(entry["subjects"]), ""),
            entry["why"],
            first_line(entry["detail"]),
        )
        for entry in entries
    )
    return output.listed(
        call,
        entries,
        "no entries",
        _HISTORY_COLUMNS,
        rows,
        essential=_HISTORY_ESSENTIAL,
    )


def availability(call: Call) -> int:
    """Print the downtime of VMs."""
    query = _asked(call, ("vm", *KEYS, *_PERIOD_KEYS))
    query["limit"] = PAGE
    rows: list[Json] = []
    total: dict[str, Any] = {}
    # The pages have windows of different scopes, and the other holds in common.
    holds: dict[tuple[str, str], Json] = {}
    several: float | None = None
    client = Client.of(call)
    while True:
        page = client.get("availability", query)
        rows += page["vms"]
        total = _plus(total, page["total"])
        holds |= {(hold["kind"], hold["name"]): hold for hold in page["holds"]}
        if several is None:
            several = page["several_domains_down_seconds"]
        if page["next"] is None:
            break
        # All pages have the same period as the first one.
        query |= {key: page[key] for key in _PERIOD_KEYS}
        query["after"] = page["next"]
    answer = {
        "since": page["since"],
        "until": page["until"],
        "vms": rows,
        "total": total,
        "several_domains_down_seconds": several,
        "holds": list(holds.values()),
    }
    return output.shown(call, answer, _print_availability)


def _summary(call: Call) -> int:
    for key in ("event", "actor", "what"):
        if call.text(key):
            raise CommandError(
                Exit.USAGE,
                f"--{key} cannot be combined with --summary",
                hint="Use --vm, --operation, --rollout or a selector such as --host with --summary.",
            )
    names = names_of_file(call)
    client = Client.of(call)
    every = client.every(
        "history/operations",
        "operations",
        _asked(call, (*_SUMMARY_KEYS, *_PERIOD_KEYS)),
    )
    entries = named(call, client, every, names)
    entries.sort(key=lambda operation: (operation["created"], operation["operation"]))
    if call.flag("json"):
        output.document(entries)
    elif call.text("operation") and len(entries) == 1:
        _print_account(entries[0])
    elif call.flag("all") or call.text("vm"):
        of_vms = (row for entry in entries for row in _vm_rows(entry, call.text("vm")))
        output.table("no operations", _VM_COLUMNS, of_vms, essential=_VM_ESSENTIAL)
    else:
        vms = sum(entry["vm_count"] for entry in entries)
        states = [entry["state"] for entry in entries]
        rows = map(_operation_row, entries)
        output.table(
            "no operations",
            _SUMMARY_COLUMNS,
            rows,
            total("operation", vms, states),
            essential=_SUMMARY_ESSENTIAL,
        )
    return Exit.DONE


def _asked(call: Call, keys: tuple[str, ...]) -> dict[str, str]:
    query = call.given(*keys)
    if rollout := call.text("rollout"):
        query["operation"] = rollout
    for key in query.keys() & set(_PERIOD_KEYS):
        query[key] = with_offset(query[key])
    return query


def _operation_row(account: Json) -> tuple[str, ...]:
    vms = account["vms"]
    worst = max(vms, key=lambda vm: vm["down_seconds"], default=None)
    return (
        account["operation"],
        account["state"],
        account["what"],
        str(account["vm_count"]),
        approved(account["approvals"]),
        account["started"] or "-",
        _planned(worst) if worst else "",
        _down(worst) if worst else "",
        first_line(account["note"]),
    )


def _vm_rows(account: Json, vm: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each VM of an operation; with `vm`, only the row of this VM."""
    whole = _operation_row(account)
    if not account["vms"] and not vm:
        yield (*whole[:3], "", "-", *whole[5:])
    for row in account["vms"]:
        if vm in {"", row["vm"]}:
            yield (
                *whole[:3],
                row["vm"],
                row["approved_by"] or "-",
                whole[5],
                _planned(row),
                _down(row),
                whole[8],
            )


def _print_account(account: Json) -> None:
    ended = f", {account['outcome']}" if account["outcome"] else ""
    output.line(f"{account['operation']}, {account['what']}: {account['state']}{ended}")
    why = f": {account['reason']}" if account["reason"] else ""
    output.line(f"ordered by {account['actor'] or 'an unknown actor'}{why}")
    if account["note"]:
        output.line(account["note"])
    output.line()
    output.table(
        "its history was removed",
        ("AT", "STEP", "BY", "DETAIL"),
        (
            (
                phase["at"],
                phase["phase"],
                phase["by"] + (f" (scope {phase['scope']})" if phase["scope"] else ""),
                first_line(phase["detail"]),
            )
            for phase in account["phases"]
        ),
    )
    output.line()
    output.table(
        "it has no VMs",
        ("VM", "PLANNED", "DOWN", "FROM", "UNTIL"),
        (
            (
                vm["vm"],
                _planned(vm),
                _down(vm),
                vm["down"][0]["began"] if vm["down"] else "-",
                (vm["down"][-1]["ended"] or "not ended") if vm["down"] else "-",
            )
            for vm in account["vms"]
        ),
    )


def _print_availability(answer: Json) -> None:
    output.line(f"from {answer['since']} until {answer['until']}")
    rows = [_availability_row(vm["vm"], vm["scope"], vm) for vm in answer["vms"]]
    if len(rows) > 1:
        total = answer["total"]
        rows.append(_availability_row(f"{total['vms']} VMs", "", total))
    output.table(
        "no VMs in this period",
        _AVAILABILITY_COLUMNS,
        rows,
        essential=_AVAILABILITY_ESSENTIAL,
    )
    several = answer["several_domains_down_seconds"]
    if several is not None:
        output.line(
            f"several fault domains of the scope were down at once for "
            f"{_length(several)}"
        )
    if answer["total"].get("unknown_seconds"):
        output.line(
            "UNKNOWN is time before the records; it counts neither as up nor as down"
        )
    if at_most := answer["total"].get("at_most_seconds"):
        output.line(
            f"{_length(at_most)} of PLANNED are migrations that were not measured; they "
            "paused no longer than that"
        )
    _print_holds(answer)


def _print_holds(answer: Json) -> None:
    """Print what holds the maintenance of the VMs from now on."""
    for hold in answer["holds"]:
        output.line(hold["message"])


def _availability_row(vm: str, scope: str, row: Json) -> tuple[str, ...]:
    return (
        vm + (" (down)" if row["down_now"] and scope else ""),
        _percent(row["percent"]),
        _length(row["planned_seconds"]),
        _length(row["unplanned_seconds"]),
        scope,
        str(row["interruptions"]),
        _length(row["longest_seconds"]),
        _length(row["existed_seconds"]),
        _length(row["unknown_seconds"]),
    )


def _percent(percent: float | None) -> str:
    if percent is None:
        return "-"
    return "100 %" if percent == WHOLE_PERCENT else f"{percent:.6f} %"


def _planned(row: Json) -> str:
    planned = row["planned_seconds"]
    return "unknown" if planned is None else f"{planned} s"


def _down(row: Json) -> str:
    return ("at most " if row["at_most"] else "") + _length(row["down_seconds"])


def _length(length: float) -> str:
    """Return a duration for people: `0 s`, `7.5 s`, `1 h 12 m`; never rounded to
    zero."""
    if length < MINUTE_SECONDS:
        return (
            f"{round(length, 3):g} s"
            if length >= SHOWN_SECONDS or not length
            else "<1 ms"
        )
    return describe_duration(round(length) * SECOND)


def _plus(total: dict[str, Any], page: Json) -> dict[str, Any]:
    """Return the sums of two pages of VMs."""
    if not total:
        return dict(page)
    added = {
        key: max(total[key], page[key])
        if key == "longest_seconds"
        else round(total[key] + page[key], 6)
        for key in page
        if key not in {"percent", "by_kind"}
    }
    kinds = [*total["by_kind"], *page["by_kind"]]
    by_kind = {
        kind: round(total["by_kind"].get(kind, 0) + page["by_kind"].get(kind, 0), 6)
        for kind in dict.fromkeys(kinds)
    }
    existed = round(added["existed_seconds"] * 10**6)
    up = existed - round(added["down_seconds"] * 10**6)
    percent = up * 10**8 // existed / 10**6 if existed else None
    return {"vms": added.pop("vms"), "percent": percent, **added, "by_kind": by_kind}
