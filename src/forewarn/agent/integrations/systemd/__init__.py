"""`systemd`: stops, starts or reloads units, and restores them after the event.

This module has the keys of the settings; `worker` does the work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.systemd.worker import SystemdWorker
from forewarn.agent.options import Forms
from forewarn.instants import DAY, SECOND
from forewarn.problems import quoted
from forewarn.settings.forms import Option

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@*?\[][A-Za-z0-9:_.\\@*?\[\]-]{0,254}", re.ASCII)
_PATTERN = re.compile(r"[*?\[]")

KEYS: Mapping[str, Option] = {
    "stop": Option(
        form=Forms.GROUPS,
        text="Units to stop before the event, one after the other, and those of an inner "
        "list in parallel. Units that were running are started after the event, in "
        "reverse order. `*`, `?` and `[…]` match units that systemd has loaded at that "
        "time. Default: none.",
    ),
    "start": Option(
        form=Forms.GROUPS,
        text="Units to start before the event, in the same order, and before any unit is "
        "stopped: a `drain.target`. Units that were not running are stopped after the "
        "event. Default: none.",
    ),
    "reload": Option(
        form=Forms.NAMES,
        text="Units to reload before the event, before all others, if they run. "
        "Default: none.",
    ),
    "reload_after": Option(
        form=Forms.NAMES,
        text="Units to reload after the event, after all others, if they run. Default: "
        "none.",
    ),
    "kill_after": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=DAY,
        text="How long a unit may take to stop before the handler kills it with SIGKILL; "
        "less if the deadline is near. Default: only systemd kills it, after its "
        "TimeoutStopSec.",
    ),
    "manager": Option(
        form=Forms.WORD,
        words=("system", "user"),
        text="The systemd manager of the units: the `system` manager, or that of the "
        "`user` that runs the agent. Default: `system`.",
    ),
}

_ACTIONS = ("stop", "start", "reload", "reload_after")


def _named(entry: Entry, key: str) -> list[str]:
    value: Any = entry.get(key, ())
    if KEYS[key].form is Forms.GROUPS:
        return [name for group in value for name in group]
    return list(value)


def _faults(entry: Entry) -> Faults:
    if not entry.keys() & set(_ACTIONS):
        yield "", "it does nothing: set stop, start, reload or reload_after"
    if "kill_after" in entry and "stop" not in entry:
        yield "kill_after", "requires stop"
    for key in _ACTIONS:
        for name in _named(entry, key):
            if not _UNIT.fullmatch(name):
                yield key, f"{quoted(name)} is not a valid unit name"
            elif key == "start" and _PATTERN.search(name):
                yield (
                    key,
                    f"{quoted(name)} is a pattern, which matches only loaded units",
                )
    for name in _named(entry, "start"):
        if name in _named(entry, "stop"):
            yield "start", f"{quoted(name)} is also in stop"


KIND = HandlerKind(make=SystemdWorker, keys=KEYS, faults=_faults)
"""The kind of handler."""
