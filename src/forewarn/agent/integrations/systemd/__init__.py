"""Units of systemd: stopped, started or reloaded before an event, and back after it.

What is done with them is in `worker`; here are the words of the settings.
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
        text="Units that are stopped before the event: one after the other, those of "
        "an inner list side by side. Those that ran are started after it, the last "
        "ones first. `*`, `?` and `[…]` stand for what systemd has loaded then. "
        "Default: none.",
    ),
    "start": Option(
        form=Forms.GROUPS,
        text="Units that are started before the event, in such an order, and before "
        "anything is stopped: a `drain.target`. Those that did not run are stopped "
        "after it. Default: none.",
    ),
    "reload": Option(
        form=Forms.NAMES,
        text="Units that are reloaded before the event, first of all, if they run. "
        "Default: none.",
    ),
    "reload_after": Option(
        form=Forms.NAMES,
        text="Units that are reloaded after it, last of all, if they run. Default: "
        "none.",
    ),
    "kill_after": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=DAY,
        text="How long a unit may take to stop before it is killed with SIGKILL; less "
        "where there is no more time. Default: it is not killed, other than by systemd "
        "after its TimeoutStopSec.",
    ),
    "manager": Option(
        form=Forms.WORD,
        words=("system", "user"),
        text="Whose units they are: of the `system`, or of the `user` that the agent "
        "runs as. Default: `system`.",
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
        yield "", "it does nothing: write stop, start, reload or reload_after"
    if "kill_after" in entry and "stop" not in entry:
        yield "kill_after", "there is nothing to kill: write stop"
    for key in _ACTIONS:
        for name in _named(entry, key):
            if not _UNIT.fullmatch(name):
                yield key, f"{quoted(name)} is no name of a unit"
            elif key == "start" and _PATTERN.search(name):
                yield key, f"{quoted(name)} stands for nothing that does not run"
    for name in _named(entry, "start"):
        if name in _named(entry, "stop"):
            yield "start", f"{quoted(name)} is to be stopped too"


KIND = HandlerKind(make=SystemdWorker, keys=KEYS, faults=_faults)
"""Units of systemd."""
