"""Unload the modules that only the start needs, so that their memory is free.

An agent runs for months in every VM, and the parsers for arguments, TOML and settings
take a twentieth of its memory. A module that is needed again is loaded again. Its
classes are then different from those of the first load.
"""

from __future__ import annotations

import gc
import re
import sys

STARTERS = frozenset(
    {
        "argparse",
        "gettext",
        "tomli",
        "tomllib",
        "difflib",
        "forewarn.agent.alerts.reading",
        "forewarn.agent.checks",
        "forewarn.agent.array_tables",
        "forewarn.agent.front",
        "forewarn.agent.option_table",
        "forewarn.agent.options",
        "forewarn.agent.order",
        "forewarn.agent.settings",
        "forewarn.problems",
        "forewarn.settings.forms",
        "forewarn.settings.lines",
        "forewarn.settings.tables",
    }
)
"""Modules that are not needed after the settings were read, with their contents."""


def unload() -> None:
    """Unload these modules; called before the agent is loaded, in its own process."""
    for name in [*sys.modules]:
        starters = {name, name.partition(".")[0]}
        if starters & STARTERS:
            module = sys.modules.pop(name)
            parent, _, last = name.rpartition(".")
            if vars(sys.modules.get(parent, re)).get(last) is module:
                delattr(sys.modules[parent], last)
    # The cache of compiled patterns is not needed either.
    re.purge()
    gc.collect()
