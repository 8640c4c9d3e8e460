"""Makes the lock that the settings want, of the kind that they name.

A kind is a module with a function `make`, and is loaded when it is first needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from forewarn.agent.locks.port import Lock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import Clock


def make_lock(
    settings: LockSettings, environment: Mapping[str, str], clock: Clock
) -> Lock:
    """Return the lock; raises ForewarnError."""
    module = importlib.import_module(f"forewarn.agent.locks.{settings.kind}")
    return module.make(settings, environment, clock)
