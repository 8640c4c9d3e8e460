"""The words of the settings that name containers, for docker and for podman."""

from __future__ import annotations

import re
from collections.abc import Mapping

from forewarn.agent.integrations.kind import Entry, Faults
from forewarn.agent.options import Forms
from forewarn.instants import DAY
from forewarn.problems import quoted
from forewarn.settings.forms import Option

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_CHOICES = ("containers", "labels", "all")


def keys_of(program: str) -> Mapping[str, Option]:
    """Return the keys of a handler for this program."""
    return {
        "containers": Option(
            form=Forms.GROUPS,
            text="Which containers, by name or id: one after the other, those of an "
            "inner list side by side; after the event the last ones first. Default: "
            "those of `labels` or `all`.",
        ),
        "labels": Option(
            form=Forms.NAMES,
            text='All containers that run and have all of these labels, `"tier"` or '
            '`"tier=web"`. Default: those of `containers` or `all`.',
        ),
        "all": Option(
            form=Forms.SWITCH, text="Whether it is all that run. Default: `false`."
        ),
        "keep": Option(
            form=Forms.NAMES,
            may_be_empty=True,
            text="Names of containers that are left alone with `labels` and `all`; the "
            "agent's own always is. Default: none.",
        ),
        "action": Option(
            form=Forms.WORD,
            words=("stop", "pause"),
            text="`stop`: end them, and start them after the event. `pause`: freeze "
            "them, for an event that freezes the VM for some seconds and loses "
            "nothing. Default: `stop`.",
        ),
        "grace": Option(
            form=Forms.DURATION,
            most=DAY,
            text="How long each may take to stop before it is killed, in whole seconds, "
            "and less where there is no more time. Default: what the container was "
            "made with, which is 10 s where nobody said otherwise.",
        ),
        "command": Option(
            form=Forms.ACTION,
            text="The program and the words that always come after it, such as "
            f'`["sudo", "-n", "{program}"]`. Default: `{program}`.',
        ),
    }


def faults_of(entry: Entry) -> Faults:
    """Yield what must hold between these keys and does not."""
    chosen = [key for key in _CHOICES if entry.get(key)]
    if not chosen:
        yield "", "it names no containers: write containers, labels or all"
    elif len(chosen) > 1:
        yield chosen[1], f"is one choice too many: {chosen[0]} is there"
    if "keep" in entry and "containers" in entry:
        yield "keep", "is for labels and all: leave them out of containers"
    if "grace" in entry and entry.get("action") == "pause":
        yield "grace", "what is paused does not stop"
    for name in (name for group in entry.get("containers", ()) for name in group):
        if not _NAME.fullmatch(name):
            yield "containers", f"{quoted(name)} is no name of a container"
