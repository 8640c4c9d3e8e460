"""`fleet apply`, `show` and `export`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from forewarn.cli import files, output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.selecting import check_names, names_of_file, selectors
from forewarn.cli.tables import counts
from forewarn.fleet.resources import format_size
from forewarn.texts import count

_SECTIONS = ("tenants", "scopes", "hosts", "vms")
_HOST_COLUMNS = ("HOST", "STATE", "ZONE", "VMS", "DOWN", "USED")
_HOST_DETAILS: Mapping[str, Callable[[Json], str]] = {
    "CLUSTER": lambda host: host["cluster"],
    "RACK": lambda host: host["rack"],
    "POOL": lambda host: host["pool"],
    "VCPU": lambda host: _number(host["vcpu"]),
    "MEMORY": lambda host: _size(host["memory"]),
    "LABELS": lambda host: " ".join(f"{k}={v}" for k, v in host["labels"].items()),
    "LAST": lambda host: "last" if host["last"] else "",
}
"""Columns that are printed if a host has a value for them."""
_VM_DETAILS: Mapping[str, Callable[[Json], str]] = {
    "VCPU": lambda vm: _number(vm["vcpu"]),
    "MEMORY": lambda vm: _size(vm["memory"]),
    "MOVABLE": lambda vm: "" if vm["movable"] else "no",
}
_SCOPE_COLUMNS = ("SCOPE", "TENANT", "KIND", "ENABLED", "LAST SEEN")
_VM_COLUMNS = ("VM", "HOST", "SCOPE", "FD", "UD", "STATE", "REACHED AT", "OPERATIONS")


def apply(call: Call) -> int:
    """Apply a fleet file, or print the changes that it would make."""
    text, name = files.read_text(call.text("file"))
    dry = call.flag("dry_run")
    request = {"name": name, "text": text, "reason": call.text("reason")}
    body = {**request, **call.flags("allow_empty", "inventory")}
    if limit := call.text("removals_max"):
        if not call.flag("inventory"):
            raise CommandError(
                Exit.USAGE,
                "--removals-max limits an inventory, and this is the file of an author",
                hint="Add --inventory, or remove --removals-max.",
            )
        body["removals_max"] = limit
    path = "fleet/plan" if dry else "fleet/apply"
    plan = Client.of(call).post(path, body, is_question=bool(dry))
    done = "not applied: this was a dry run" if dry else "applied"
    last = "nothing to change" if plan["is_empty"] else done
    return output.said(call, plan, *plan["lines"], last)


def export(call: Call) -> int:
    """Write the fleet as a fleet file."""
    text = Client.of(call).text("fleet/export")
    if call.flag("json"):
        output.document({"text": text})
    elif name := call.text("file"):
        files.write_text(name, text)
    else:
        print(text, end="")
    return Exit.DONE


def show(call: Call) -> int:
    """Print the current fleet."""
    names = names_of_file(call)
    client = Client.of(call)
    answer = client.whole("fleet", selectors(call), *_SECTIONS)
    in_fleet = {row["name"] for section in _SECTIONS for row in answer[section]}
    check_names(call, client, names - in_fleet if names else None)
    fleet = {
        section: [row for row in answer[section] if _is_named(row, names)]
        for section in _SECTIONS
    }
    with_all = call.flag("all")
    empty = "the fleet is empty"
    if names is not None or selectors(call):
        empty = "no host, scope or VM matches"
    return output.shown(
        call, fleet, lambda all_: _print_fleet(all_, empty, with_all=with_all)
    )


def _is_named(row: Json, names: frozenset[str] | None) -> bool:
    """Return whether an object is a VM or a host with one of these names, or has such a
    VM."""
    return names is None or not names.isdisjoint(
        {row["name"], row.get("host"), row.get("scope"), *row.get("vms", ())}
    )


def _print_fleet(
    fleet: Mapping[str, list[Json]], empty: str, *, with_all: bool
) -> None:
    """Print a fleet as tables, or the text for an empty one."""
    if not any(fleet[section] for section in ("scopes", "hosts", "vms")):
        output.line(empty)
        return
    scopes, vms = fleet["scopes"], fleet["vms"]
    down = Counter(vm["host"] for vm in vms if vm["state"] == "down")
    rows = [_host_row(host, down[host["name"]]) for host in fleet["hosts"]]
    columns, hosts = _with_details(_HOST_COLUMNS, rows, _HOST_DETAILS, fleet["hosts"])
    output.table("no hosts", columns, hosts)
    # A tenant has no hosts, only its scopes and VMs.
    if with_all or not hosts:
        output.line()
        output.table("no scopes", _SCOPE_COLUMNS, map(_scope_row, scopes))
        output.line()
        rows = [_vm_row(vm) for vm in vms]
        output.table("no VMs", *_with_details(_VM_COLUMNS, rows, _VM_DETAILS, vms))
    enabled = sum(1 for scope in scopes if any(v["enabled"] for v in scope["views"]))
    states = counts(vm["state"] for vm in vms)
    output.line(
        f"{count(len(hosts), 'host')}, {count(len(scopes), 'scope')} "
        f"({enabled:,} with Scheduled Events enabled), {count(len(vms), 'VM')}"
        + (f": {states}" if vms else "")
    )


def _with_details(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    details: Mapping[str, Callable[[Json], str]],
    objects: Sequence[Json],
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return a table with the additional columns in which an object has a value."""
    cells_by_title = {title: [*map(of, objects)] for title, of in details.items()}
    used = {title: cells for title, cells in cells_by_title.items() if any(cells)}
    return (*columns, *used), [
        (*row, *(cells[place] or "-" for cells in used.values()))
        for place, row in enumerate(rows)
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _size(mib: int | None) -> str:
    return "" if mib is None else format_size(mib)


def _host_row(host: Json, down: int) -> Sequence[str]:
    vms = len(host["vms"])
    used = vms + len(host["keeps_places_for"])
    return (
        host["name"],
        ", ".join(
            word
            for word, is_shown in (
                (host["state"], True),
                # A service of an earlier version does not say it.
                ("failed", host.get("failed")),
                ("cordoned", host["cordons"]),
            )
            if is_shown
        ),
        host["zone"] or "-",
        str(vms),
        str(down or "-"),
        str(used) if host["capacity"] is None else f"{used} of {host['capacity']}",
    )


def _scope_row(scope: Json) -> Sequence[str]:
    views: list[Json] = scope["views"]
    listening = [view for view in views if view["enabled"]]
    if len(views) > 1:
        enabled = f"{len(listening)} of {len(views)}"
    else:
        enabled = "yes" if listening else "no"
    last_seen = max((view["last_seen"] or "" for view in views), default="")
    return (scope["name"], scope["tenant"], scope["kind"], enabled, last_seen or "-")


def _vm_row(vm: Json) -> Sequence[str]:
    return (
        vm["name"],
        vm["host"],
        vm["scope"],
        str(vm["fault_domain"]),
        str(vm["update_domain"]),
        "off" if vm.get("is_off") else vm["state"],
        " ".join([*vm["addresses"], *([vm["listen"]] if vm["listen"] else [])]),
        " ".join(vm["operations"]),
    )
