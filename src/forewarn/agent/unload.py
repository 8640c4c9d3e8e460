"""Lets go of what only the beginning needs, so that its memory is used again.

An agent runs for months in every VM, and the parsers of arguments, of TOML and of
settings are a twentieth of it. What is imported again later is loaded anew, and
works; it must only not be compared with what was made before.
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
        "forewarn.agent.alerts.selecting",
        "forewarn.agent.checks",
        "forewarn.agent.array_tables",
        "forewarn.agent.front",
        "forewarn.agent.option_table",
        "forewarn.agent.permit_checks",
        "forewarn.agent.options",
        "forewarn.agent.order",
        "forewarn.agent.settings",
        "forewarn.problems",
        "forewarn.settings.forms",
        "forewarn.settings.lines",
        "forewarn.settings.reading",
        "forewarn.settings.tables",
    }
)
"""Modules that are done when the settings are read, with what is in them."""


def shed() -> None:
    """Forget these modules; call it before the agent is loaded, in its own process."""
    for name in [*sys.modules]:
        starters = {name, name.partition(".")[0]}
        if starters & STARTERS:
            module = sys.modules.pop(name)
            parent, _, last = name.rpartition(".")
            if vars(sys.modules.get(parent, re)).get(last) is module:
                delattr(sys.modules[parent], last)
    # Patterns that were compiled are remembered too.
    re.purge()
    gc.collect()
