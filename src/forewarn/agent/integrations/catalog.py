"""Which integrations there are, each loaded when it is first needed.

A new one is a module with a `KIND`, and a line here.
"""

import importlib
from collections.abc import Mapping

from forewarn.agent.integrations.kind import HandlerKind, SinkKind

HANDLERS: Mapping[str, str] = {}
"""By the word in the settings, what it is."""

SINKS: Mapping[str, str] = {}
"""By the word in the settings, what it is."""


def handler_kind(word: str) -> HandlerKind | None:
    """Return a kind of handler; None: it is no integration."""
    if word not in HANDLERS:
        return None
    module = importlib.import_module(f"forewarn.agent.integrations.{word}")
    found = module.KIND
    assert isinstance(found, HandlerKind), word
    return found


def sink_kind(word: str) -> SinkKind | None:
    """Return a kind of receiver; None: it is no integration."""
    if word not in SINKS:
        return None
    module = importlib.import_module(f"forewarn.agent.sinks.{word}")
    found = module.KIND
    assert isinstance(found, SinkKind), word
    return found
