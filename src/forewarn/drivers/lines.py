"""The JSON Lines of programs that are asked about many VMs at once.

Such a program gets a line for each VM on standard input, and prints a line for each VM
about which it can tell something. Lines that are not valid, or about other VMs, tell
nothing. Pure.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from forewarn.drivers.marks import HOST, Mark, Reading, mark_of, parse_mark
from forewarn.drivers.port import Call, Observation
from forewarn.fleet.validators import name_fault


def questions_of(call: Call) -> bytes:
    """Return the input of the program `marks`."""
    text = mark_of(call).text
    if call.step is not None:
        return _written([{"host": call.host, "mark": text}])
    return _written([{"vm": each.vm, "mark": text} for each in call.vms])


def questions_about(vms: Sequence[str]) -> bytes:
    """Return the input of the program `observe_many`."""
    return _written([{"vm": vm} for vm in vms])


def observations_in(text: str, vms: Sequence[str]) -> dict[str, Observation]:
    """Return what the program `observe_many` printed about these VMs.

    Of several lines about a VM, the last counts.
    """
    found = {vm: Observation() for vm in vms}
    for said in _objects(text):
        vm, running = said.get("vm"), _running(said)
        if isinstance(vm, str) and vm in found:
            # The host of a VM that does not run is not used.
            host = (_host(said) or None) if running else None
            found[vm] = Observation(running=running, host=host)
    return found


def readings_in(text: str, call: Call, places: Sequence[str]) -> dict[str, Reading]:
    """Return what the program `marks` printed about these places."""
    found: dict[str, Reading] = {}
    for said in _objects(text):
        place = _place(said, call)
        if place is None or place not in places:
            continue
        if (reading := _reading(said)) is not None:
            found[place] = reading
    return found


def _place(said: dict[str, Any], call: Call) -> str | None:
    if call.step is not None:
        return HOST if said.get("host") == call.host else None
    vm = said.get("vm")
    return vm if isinstance(vm, str) else None


def _reading(said: dict[str, Any]) -> Reading | None:
    """Return the reading of a line; None: the line has no readable mark."""
    if "mark" not in said:
        return None
    try:
        mark = _mark(said)
    except (ValueError, TypeError):
        return None
    return Reading(mark=mark, running=_running(said), host=_host(said))


def _mark(said: dict[str, Any]) -> Mark | None:
    if said["mark"] is None:
        return None
    return parse_mark(said["mark"], said.get("state", "begun"))


def _running(said: dict[str, Any]) -> bool | None:
    running = said.get("running")
    return running if isinstance(running, bool) else None


def _host(said: dict[str, Any]) -> str:
    host = said.get("host")
    return host if isinstance(host, str) and host and not name_fault(host) else ""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            yield cast("dict[str, Any]", said)


def _written(objects: Sequence[dict[str, str]]) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in objects).encode()
