"""The words of a program, and the placeholders in them.

A program is a list of words, handed to the system as they are: no shell ever
reads them. In each word `{vm}` and the like stand for what the call says. Other
braces mean nothing, so that a word may be JSON.
"""

import re
from collections.abc import Mapping, Sequence

from forewarn.drivers.port import Call, CallVm, DriverError
from forewarn.fleet.validators import name_fault
from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.operations import MOVING_ACTIONS, Action

PLACEHOLDERS = ("vm", "host", "to_host", "seconds", "action", "operation", "generation")
"""What a call can say; `to_host` only where the VM moves."""

OBSERVER_PLACEHOLDERS = ("vm",)
"""What the program that looks at a VM is told."""

WORDS_MAX = 100
"""Words of a program: more are a script that was not written."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


def known_in(action: Action | None) -> tuple[str, ...]:
    """Return the placeholders that a program for `action` may use; None: for all."""
    if action is None or action in MOVING_ACTIONS:
        return PLACEHOLDERS
    return tuple(name for name in PLACEHOLDERS if name != "to_host")


def words_fault(words: Sequence[str], known: Sequence[str]) -> str:
    """Return what is wrong with a program's words; empty if nothing is."""
    if not words:
        return "names no program: leave it out"
    if len(words) > WORDS_MAX:
        return f"has at most {WORDS_MAX} words: write a script"
    if not all(word.isprintable() for word in words):
        return "must not contain control characters"
    program = words[0]
    if not program or "{" in program:
        return "must begin with a program, which no placeholder can be part of"
    if "/" in program and not program.startswith("/"):
        return f"{quoted(program)} must be an absolute path, or a name without slashes"
    for word in words[1:]:
        for name in _PLACEHOLDER.findall(word):
            if name in known:
                continue
            if name == "to_host":
                return "{to_host} is only for live_migrate, redeploy and probe"
            hint = did_you_mean(name, known)
            listed = ", ".join(f"{{{each}}}" for each in known)
            return f"there is no placeholder {{{name}}}{hint}: there are {listed}"
    return ""


def expand(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with what the placeholders stand for."""
    return tuple(
        _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)
        for word in words
    )


def values_of(call: Call, vm: CallVm) -> dict[str, str]:
    """Return what the placeholders stand for; raises DriverError for odd names.

    Names were checked when the fleet was read; they are checked again because a
    name that looks like a flag could mean anything to a program.
    """
    for name in (vm.vm, call.host, *([vm.to_host] if vm.to_host else [])):
        if fault := name_fault(name):
            raise DriverError(f"no program is given such a name: {fault}")
    return {
        "vm": vm.vm,
        "host": call.host,
        "to_host": vm.to_host,
        "seconds": str(call.duration_seconds),
        "action": call.action.value,
        "operation": call.operation_id,
        "generation": str(call.generation),
    }
