"""The public test kit, for tests of applications and of other servers.

`ScheduledEvents` is a world of simulated VMs that receive events, for tests of the
programs in them. The pytest plugin provides it as a fixture. `conformance` checks
whether a metadata endpoint follows the protocol.

Modules are imported on first use, because pytest loads the plugin in every run.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.sim.journal import JournalEntry
    from forewarn.testing.kit.event import Approved, Event
    from forewarn.testing.kit.failure_report import NotSeenError
    from forewarn.testing.kit.vm import Vm
    from forewarn.testing.kit.world import ScheduledEvents

__all__ = ["Approved", "Event", "JournalEntry", "NotSeenError", "ScheduledEvents", "Vm"]

_HOMES = {
    "Approved": "forewarn.testing.kit.event",
    "Event": "forewarn.testing.kit.event",
    "NotSeenError": "forewarn.testing.kit.failure_report",
    "ScheduledEvents": "forewarn.testing.kit.world",
    "JournalEntry": "forewarn.sim.journal",
    "Vm": "forewarn.testing.kit.vm",
}


def __getattr__(name: str) -> object:
    """Import a name on first use; raises ImportError that names a missing extra."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - see above

    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("forewarn"):
            raise
        raise ImportError(
            f"{name} needs {error.name}: pip install 'forewarn[test]'"
        ) from error
