"""Which settings may take the place of those in force while the agent runs. Pure.

A file that was cut short is sound TOML, and another journal knows nothing of what was
prepared by this one. Such a change is refused; a restart takes what it finds.
"""

from __future__ import annotations

import os

from forewarn.agent.core import underway
from forewarn.agent.core.model import Memory
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.settings_model import Settings

ON_PURPOSE = "To have it on purpose, restart the agent."


def refusal_of(
    old: Settings, new: Settings, memory: Memory
) -> CommandFailedError | None:
    """Return why the new settings are not taken; None: they are.

    `memory` is what the agent has under way by the old ones.
    """
    message = _lost(old, new)
    if message:
        return CommandFailedError(USAGE, f"{message}. {ON_PURPOSE}")
    changed = _kept(old, new)
    busy = underway.what(memory) if changed else ""
    if not busy:
        return None
    names = " and ".join(changed)
    return CommandFailedError(
        USAGE,
        f"{names} cannot change now: {busy}, and it would be forgotten, or taken for "
        "gone. Reload when nothing is under way.",
    )


def _lost(old: Settings, new: Settings) -> str:
    """Return what the new settings have lost that was not taken away on purpose."""
    if old.file and not new.file:
        return f"{old.file} is gone, and without it all settings would be the defaults"
    if new.is_blank and not old.is_blank:
        return (
            f"{new.file} is empty, and all settings would be the defaults: was it cut "
            "short?"
        )
    if old.handlers and not new.handlers:
        names = ", ".join(each.name for each in old.handlers)
        return (
            f"{new.file or 'the settings'} has no handler any more, and nothing would "
            f"be prepared: was it cut short? In force: {names}"
        )
    return ""


def _kept(old: Settings, new: Settings) -> list[str]:
    """Return the settings that differ, and may not while something is under way."""
    before, after = old.watch, new.watch
    differs = {
        "state": os.path.realpath(before.state) != os.path.realpath(after.state),
        "endpoint": before.endpoint != after.endpoint,
        "name": before.name != after.name,
        "scale_set_names": before.scale_set_names != after.scale_set_names,
        # A dry run has no journal.
        "dry_run": after.dry_run and not before.dry_run,
    }
    return [name for name, is_other in differs.items() if is_other]
