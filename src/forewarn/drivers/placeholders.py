"""The arguments of a program, and the placeholders in them.

A program is a list of arguments that go to the operating system unchanged, without a
shell. In each argument, placeholders such as `{vm}` are replaced by values of the
call. Other braces have no meaning, so that an argument may be JSON.
"""

import json
import re
from collections.abc import Mapping, Sequence

from forewarn.drivers.marks import mark_of
from forewarn.drivers.port import Call, CallVm, DriverError
from forewarn.fleet.validators import name_fault
from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import MOVING_ACTIONS, Action

PLACEHOLDERS = (
    "vm",
    "host",
    "to_host",
    "seconds",
    "action",
    "operation",
    "generation",
    "mark",
)
"""The placeholders of a call; `to_host` only if the VM moves."""

AVOIDED_PLACEHOLDERS = ("closed", "waiting")
"""More placeholders of programs that move VMs: hosts to avoid, with commas."""

OBSERVER_PLACEHOLDERS = ("vm",)
"""The placeholders of `observe`."""

STEP_PLACEHOLDERS = ("host", "campaign", "visit", "step", "generation", "mark")
"""The placeholders of every host step; its arguments are placeholders too."""

ARGUMENTS_MAX = 100
"""Maximum number of arguments of a program: a longer list should be a script."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)

_BEFORE_NAME = re.compile(r"\{(?=[A-Za-z_])")
"""The brace that begins a placeholder."""


def known_in(action: Action | None) -> tuple[str, ...]:
    """Return the placeholders that a program for `action` may use; None: all."""
    if action is None:
        return PLACEHOLDERS
    if action in MOVING_ACTIONS:
        return (*PLACEHOLDERS, *AVOIDED_PLACEHOLDERS)
    return tuple(name for name in PLACEHOLDERS if name != "to_host")


def arguments_problem(arguments: Sequence[str], known: Sequence[str]) -> str:
    """Return the problem of a program's arguments; empty if there is none."""
    if not arguments:
        return "names no program: remove the setting"
    if len(arguments) > ARGUMENTS_MAX:
        return f"can have at most {ARGUMENTS_MAX} arguments: use a script"
    if not all(word.isprintable() for word in arguments):
        return "must not contain control characters"
    program = arguments[0]
    if not program or "{" in program:
        return "must begin with a program, without placeholders in its name"
    if "/" in program and not program.startswith("/"):
        return f"{quoted(program)} must be an absolute path, or a name without slashes"
    for word in arguments[1:]:
        for name in _PLACEHOLDER.findall(word):
            if name in known:
                continue
            if not known:
                return f"has no placeholders, so {{{name}}} means nothing"
            if name == "to_host":
                return "{to_host} is only available in live_migrate, redeploy and probe"
            hint = did_you_mean(name, known)
            listed = ", ".join(f"{{{placeholder}}}" for placeholder in known)
            return f"unknown placeholder {{{name}}}{hint}: use one of {listed}"
    return ""


def expand(arguments: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments with the values of the placeholders."""
    return tuple(
        _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word)
        for word in arguments
    )


def literal_json(value: object) -> str:
    """Return a value as JSON that has no placeholders, for an argument of a program."""
    return _BEFORE_NAME.sub(r"\\u007b", json.dumps(value))


def values_of(call: Call, vm: CallVm) -> dict[str, str]:
    """Return the values of the placeholders; raises DriverError for invalid names.

    The fleet's reader has checked the names. They are checked again, because a
    program could take a name that looks like a flag for an option.
    """
    hosts = call.host, *([vm.to_host] if vm.to_host else []), *call.closed
    for name in (vm.vm, *hosts, *call.waiting):
        if fault := name_fault(name):
            raise DriverError(f"cannot pass this name to a program: {fault}")
    return {
        "vm": vm.vm,
        "host": call.host,
        "to_host": vm.to_host,
        "seconds": str(call.duration_seconds),
        "action": call.action.value,
        "operation": call.operation_id,
        "generation": str(call.generation),
        "mark": mark_of(call).text,
        "closed": ",".join(call.closed),
        "waiting": ",".join(call.waiting),
    }


def step_values_of(call: Call, step: HostStep) -> dict[str, str]:
    """Return the values of the placeholders of a host step; raises DriverError.

    Control has checked the arguments against their patterns.
    """
    if fault := name_fault(call.host):
        raise DriverError(f"cannot pass this name to a program: {fault}")
    return {
        **dict(step.arguments),
        "host": call.host,
        "campaign": call.campaign,
        "visit": call.operation_id,
        "step": step.kind.value,
        "generation": str(call.generation),
        "mark": mark_of(call).text,
    }
