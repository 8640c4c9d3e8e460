"""`sim`: commands for a running simulator."""

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.listings import operation_row

LOOK_SECONDS = 0.25
"""Polling interval of the journal with --follow."""

_VM_COLUMNS = ("VM", "ADDRESS", "STATE", "HOST", "SCOPE", "APPROVALS")
_FAULT_COLUMNS = ("NAME", "VMS", "FAULTS", "HITS")


def clock(call: Call) -> int:
    """Show or change the time."""
    client, body = Client.of(call), call.given("do", "by")
    clock_ = client.post("sim/clock", body) if body else client.get("sim/clock")
    stands = ", paused" if clock_["paused"] else ""
    after = f"; the next timer is at {clock_['next']}" if clock_["next"] else ""
    line = f"{clock_['now']}, speed {clock_['speed']:g}{stands}{after}"
    return output.said(call, clock_, line)


def event(call: Call) -> int:
    """Publish an event."""
    body = {
        "type": call.text("type"),
        "vms": call.texts("vm"),
        **call.given("notice", "source", "duration", "description"),
        **call.flags("migrate"),
    }
    answer = Client.of(call).post("sim/events", body)
    return output.said(call, answer, *map(_operation_line, answer["operations"]))


def move(call: Call) -> int:
    """Advance an operation to a state now."""
    moved = Client.of(call).post(
        f"sim/operations/{part(call.text('operation'))}/move", {"to": call.text("to")}
    )
    return output.said(call, moved, _operation_line(moved))


def _operation_line(operation: Json) -> str:
    return "  ".join(cell for cell in operation_row(operation) if cell)


def withhold(call: Call) -> int:
    """Withhold approvals of VMs."""
    return _hold(call, "withhold")


def release(call: Call) -> int:
    """Release withheld approvals."""
    return _hold(call, "release")


def _hold(call: Call, do: str) -> int:
    answer = Client.of(call).post("sim/approvals", {"do": do, "vms": call.texts("vm")})
    names = ", ".join(answer["withheld"])
    line = f"withheld: approvals of {names}" if names else "no approvals are withheld"
    return output.said(call, answer, *answer["refusals"], line)


def vm(call: Call) -> int:
    """List VMs, add one, or remove one."""
    do, name = call.text("do") or "list", call.text("name")
    if bool(name) is (do == "list"):
        raise CommandError(
            Exit.USAGE,
            f"`forewarn sim vm {do}` takes {'no' if name else 'the'} name of a VM",
        )
    client = Client.of(call)
    if do == "add":
        answer = client.post("sim/vms", _new(call, name))
        rows = [answer]
    else:
        answer = (
            client.delete(f"sim/vms/{part(name)}")
            if do == "remove"
            else client.get("sim/vms")
        )["vms"]
        rows = answer
    return output.listed(call, answer, "no VMs", _VM_COLUMNS, map(_vm_row, rows))


def _new(call: Call, name: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": name,
        **call.given("host", "scope"),
        **call.flags("standalone", "spot"),
    }
    if domain := call.text("fault_domain"):
        if not (domain.isascii() and domain.isdecimal()):
            raise CommandError(
                Exit.USAGE, f"{domain!r} is not the number of a fault domain"
            )
        body["fault_domain"] = int(domain)
    return body


def _vm_row(row: Json) -> tuple[str, ...]:
    return (
        row["vm"],
        row["url"] or "-",
        row["state"],
        row["host"],
        row["scope"],
        "withheld" if row["withheld"] else "",
    )


def fault(call: Call) -> int:
    """Set faults, list them, or clear them."""
    arguments = call.texts("words")
    client = Client.of(call)
    if call.flag("clear"):
        answer = client.post("sim/faults/clear", {"vms": arguments})
    elif not arguments:
        answer = client.get("sim/faults")
    else:
        vms = [] if call.flag("all") else [arguments[0]]
        line = " ".join(arguments[len(vms) :])
        if not line:
            raise CommandError(
                Exit.USAGE,
                f"no fault given for {arguments[0]}",
                hint="Example: `forewarn sim fault web_0 500 x2`.",
            )
        answer = client.post("sim/faults", {"vms": vms, "faults": line})
    faults = answer["faults"]
    return output.listed(
        call, faults, "no faults are set", _FAULT_COLUMNS, map(_fault_row, faults)
    )


def _fault_row(row: Json) -> tuple[str, ...]:
    steps = ", ".join((*row["faults"], *(("loop",) if row["loop"] else ())))
    return row["name"], ", ".join(row["vms"]) or "all", steps, str(row["played"])


def journal(call: Call) -> int:
    """List requests, or follow them."""
    query = call.given("vm", "method", "event")
    if call.flag("deviating"):
        query["deviating"] = "true"
    follows, is_json = call.flag("follow"), call.flag("json")
    requests: list[Json] = []
    pause = threading.Event()
    # Ctrl-C is the normal end of --follow, so it is not a failure.
    client = Client.of(call)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            page = client.get("sim/journal", query)
            is_first = "after" not in query
            query["after"] = str(page["next"])
            if follows or not is_json:
                _say_requests(page["requests"], is_json=is_json)
            else:
                requests += page["requests"]
            if page["requests"]:
                continue
            if not follows:
                if is_first and not is_json:
                    output.line("no requests")
                break
            pause.wait(LOOK_SECONDS)
    if is_json and not follows:
        output.document(requests)
    return Exit.DONE


def _say_requests(requests: Sequence[Json], *, is_json: bool) -> None:
    for shown in requests:
        if is_json:
            output.json_line(shown)
            continue
        request = (
            f"{shown['method']} {shown['target']}" if shown["method"] else "connects"
        )
        line = f"{shown['at']}  {shown['vm'] or shown['address']}  {request}"
        line += f"  {shown['status'] or 'no answer'}"
        if shown["approved"]:
            line += f"  approves {', '.join(shown['approved'])}"
        if shown["fault"]:
            line += f"  ({shown['fault']})"
        for deviation in shown["deviations"]:
            line += f"  !! {deviation['sentence']}"
        output.line(line)


def reset(call: Call) -> int:
    """Restart the simulation."""
    vms = Client.of(call).post("sim/reset", {})["vms"]
    return output.said(call, vms, f"restarted with {len(vms)} VMs")
