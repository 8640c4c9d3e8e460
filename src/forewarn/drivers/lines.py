"""The JSON Lines of programs that are asked about many VMs at once.

Such a program gets a line for each VM on standard input, and prints a line for each VM
about which it can tell something. Lines that are not valid, or about other VMs, tell
nothing. Pure.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from forewarn.drivers.marks import HOST, Mark, Reading, mark_of, parse_mark
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Expected,
    HostVms,
    Observation,
    expected_of,
)
from forewarn.fleet.validators import name_fault
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.operations import Action
from forewarn.texts import readable

REASON_CHARACTERS_MAX = 200
"""Maximum characters of a reason that are kept: a sentence. The store keeps one for each
VM that is restricted."""


def questions_of(call: Call) -> bytes:
    """Return the input of the program `marks`."""
    text = mark_of(call).text
    if call.step is not None:
        return _written([{"host": call.host, "mark": text}])
    expected = expected_of(call)
    return _written(
        [{**_question_about(vm, hosts), "mark": text} for vm, hosts in expected.items()]
    )


def questions_about(vms: Sequence[str], expected: Expected = NOWHERE) -> bytes:
    """Return the input of the program `observe_many`."""
    return _written([_question_about(vm, expected.get(vm, ())) for vm in vms])


def _question_about(vm: str, hosts: Sequence[str]) -> dict[str, Any]:
    return {"vm": vm, "hosts": list(hosts)} if hosts else {"vm": vm}


def observations_in(text: str, vms: Sequence[str]) -> dict[str, Observation]:
    """Return what the program `observe_many` printed about these VMs.

    Of several lines about a VM, the last counts.
    """
    observations = {vm: Observation() for vm in vms}
    for line in _objects(text):
        vm, running = line.get("vm"), _running(line)
        if isinstance(vm, str) and vm in observations:
            # The host of a VM that does not run is not used.
            host = (_host(line) or None) if running else None
            observations[vm] = Observation(running=running, host=host)
    return observations


def readings_in(text: str, call: Call, places: Sequence[str]) -> dict[str, Reading]:
    """Return what the program `marks` printed about these places."""
    readings: dict[str, Reading] = {}
    for line in _objects(text):
        place = _place(line, call)
        if place is None or place not in places:
            continue
        if (reading := _reading(line)) is not None:
            readings[place] = reading
    return readings


def questions_about_abilities(hosts: Sequence[HostVms]) -> bytes:
    """Return the input of the program `abilities`: a line for each host."""
    questions = [{"host": host.host, "vms": list(host.vms)} for host in hosts]
    return _written(questions)


def abilities_in(text: str, hosts: Sequence[HostVms]) -> dict[str, tuple[Ability, ...]]:
    """Return what the program `abilities` printed about these hosts and their VMs.

    A host without a valid line is missing.
    """
    vms_by_host = {host.host: frozenset(host.vms) for host in hosts}
    abilities: dict[str, dict[tuple[str, Action | None], Ability]] = {}
    for line in _objects(text):
        host, vm = line.get("host"), line.get("vm", "")
        if not isinstance(host, str) or host not in vms_by_host:
            continue
        if not isinstance(vm, str) or (vm and vm not in vms_by_host[host]):
            continue
        for ability in _abilities(line, vm):
            # Of several lines about the same, the last counts.
            abilities.setdefault(host, {})[vm, ability.action] = ability
    return {host: tuple(answers.values()) for host, answers in abilities.items()}


def _abilities(line: dict[str, Any], vm: str) -> Iterator[Ability]:
    """Yield the answers of a line; one without a valid `able` has none."""
    able, actions, reason = line.get("able"), line.get("actions"), line.get("reason")
    if not isinstance(able, str) or able not in _ABLE:
        return
    text = readable(reason)[:REASON_CHARACTERS_MAX] if isinstance(reason, str) else ""
    if actions is None:
        yield Ability(able=_ABLE[able], vm=vm, reason=text)
        return
    for name in cast("list[object]", actions if isinstance(actions, list) else []):
        # A program may know actions that this version does not.
        if isinstance(name, str) and (action := _ACTIONS.get(name)) is not None:
            yield Ability(able=_ABLE[able], action=action, vm=vm, reason=text)


_ABLE: dict[str, Able] = {able.value: able for able in Able}
_ACTIONS = {action.value: action for action in Action if action is not Action.NONE}


def _place(line: dict[str, Any], call: Call) -> str | None:
    if call.step is not None:
        return HOST if line.get("host") == call.host else None
    vm = line.get("vm")
    return vm if isinstance(vm, str) else None


def _reading(line: dict[str, Any]) -> Reading | None:
    """Return the reading of a line; None: the line has no readable mark."""
    if "mark" not in line:
        return None
    try:
        mark = _mark(line)
    except (ValueError, TypeError):
        return None
    return Reading(mark=mark, running=_running(line), host=_host(line))


def _mark(line: dict[str, Any]) -> Mark | None:
    if line["mark"] is None:
        return None
    return parse_mark(line["mark"], line.get("state", "begun"))


def _running(line: dict[str, Any]) -> bool | None:
    running = line.get("running")
    return running if isinstance(running, bool) else None


def _host(line: dict[str, Any]) -> str:
    host = line.get("host")
    return host if isinstance(host, str) and host and not name_fault(host) else ""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)


def _written(objects: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(f"{json.dumps(object_)}\n" for object_ in objects).encode()
