"""`fleet apply`, `show` and `export`."""

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.cli import files, output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit

Json = Mapping[str, Any]

NAMES_SHOWN_MAX = 12
"""VMs of a host in a table: more make no table; --json has all."""


def apply(call: Call) -> int:
    """Apply a fleet file, or say what it would change."""
    text, name = files.read_text(call.text("file"))
    dry = call.flag("dry_run")
    body: dict[str, Any] = {"name": name, "text": text, "reason": call.text("reason")}
    if call.flag("allow_empty"):
        body["allow_empty"] = True
    with Client.of(call) as client:
        plan = client.post("fleet/plan" if dry else "fleet/apply", body)
    if call.flag("json"):
        output.document(plan)
        return Exit.DONE
    for line in plan["lines"]:
        output.line(line)
    if plan["is_empty"]:
        output.line("nothing to change")
    else:
        output.line("not applied: this was a dry run" if dry else "applied")
    return Exit.DONE


def export(call: Call) -> int:
    """Write the fleet as a fleet file."""
    with Client.of(call) as client:
        text = client.text("fleet/export")
    if call.flag("json"):
        output.document({"text": text})
    elif name := call.text("file"):
        files.write_text(name, text)
    else:
        print(text, end="")
    return Exit.DONE


def show(call: Call) -> int:
    """Show the fleet as it is."""
    fleet: dict[str, list[Json]] = {"tenants": [], "scopes": [], "hosts": [], "vms": []}
    asked: dict[str, str] = {}
    with Client.of(call) as client:
        while True:
            page = client.get("fleet", asked)
            for section, objects in fleet.items():
                objects.extend(page[section])
            if page["next"] is None:
                break
            asked["after"] = page["next"]
    if call.flag("json"):
        output.document(fleet)
        return Exit.DONE
    output.table(
        "no hosts",
        ("HOST", "ZONE", "STATE", "USED", "VMS"),
        map(_host_row, fleet["hosts"]),
    )
    output.line()
    output.table(
        "no scopes",
        ("SCOPE", "TENANT", "KIND", "LISTENS", "LAST SEEN"),
        map(_scope_row, fleet["scopes"]),
    )
    output.line()
    output.table(
        "no VMs",
        ("VM", "HOST", "SCOPE", "FD", "UD", "STATE", "REACHED AT", "OPERATIONS"),
        map(_vm_row, fleet["vms"]),
    )
    return Exit.DONE


def _host_row(host: Json) -> Sequence[str]:
    vms: list[str] = host["vms"]
    used = len(vms) + len(host["keeps_places_for"])
    more = f" +{len(vms) - NAMES_SHOWN_MAX}" if len(vms) > NAMES_SHOWN_MAX else ""
    return (
        host["name"],
        host["zone"] or "-",
        host["state"],
        str(used) if host["capacity"] is None else f"{used} of {host['capacity']}",
        " ".join(vms[:NAMES_SHOWN_MAX]) + more,
    )


def _scope_row(scope: Json) -> Sequence[str]:
    views: list[Json] = scope["views"]
    listening = [view for view in views if view["enabled"]]
    if len(views) > 1:
        listens = f"{len(listening)} of {len(views)}"
    else:
        listens = "yes" if listening else "no"
    seen = max((view["last_seen"] or "" for view in views), default="")
    return (scope["name"], scope["tenant"], scope["kind"], listens, seen or "-")


def _vm_row(vm: Json) -> Sequence[str]:
    return (
        vm["name"],
        vm["host"],
        vm["scope"],
        str(vm["fault_domain"]),
        str(vm["update_domain"]),
        vm["state"],
        " ".join([*vm["addresses"], *([vm["listen"]] if vm["listen"] else [])]),
        " ".join(vm["operations"]),
    )
