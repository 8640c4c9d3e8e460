"""What systemd tells of its units, and how it is asked: with `systemctl`.

Whether something came about is seen in the states of the units, never in how a command
ended. A manager that does not answer for the moment is asked again while there is
time. This module must not know what is prepared for, nor what is remembered of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.protocol.frozen import frozen_dataclass

PROGRAM = "systemctl"

PAUSE_FIRST_SECONDS = 0.05
PAUSE_MOST_SECONDS = 1.0
"""Between two looks at units that are on their way; it doubles from one to the other."""

FOLLOWERS_MAX = 1_000
"""Units that stop with others: more than a machine has."""

_UP = frozenset({"active", "reloading", "activating", "refreshing", "maintenance"})
_DOWN = frozenset({"inactive", "failed"})
_ON_ITS_WAY = frozenset({"activating", "deactivating", "reloading", "refreshing"})

_STOP_WITH = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
"""Properties with the units that systemd stops when it stops this one."""

_STARTS_AGAIN = ("TriggeredBy", "UpheldBy")
"""Properties with the units that may start this one while it is stopped."""

_PROPERTIES = (
    *("Id", "LoadState", "LoadError", "ActiveState", "SubState", "Result", "Job"),
    *("Type", "ConditionResult", "AssertResult", "ReloadResult", "ExecMainStatus"),
    *("CanStart", "CanStop", "CanReload", *_STOP_WITH, *_STARTS_AGAIN),
)

_NEVER = "not been booted with systemd"
"""What systemctl says where there is no systemd: it will not come."""

_AWAY = (
    "Failed to connect to bus",
    "Failed to activate service",
    "Connection timed out",
    "Connection reset by peer",
    "Transport endpoint is not connected",
    "Message recipient disconnected",
    "Resource temporarily unavailable",
    # Something else is to be done with the unit first, as while the machine goes down.
    "is destructive",
)
"""What systemctl says where the manager is busy or begins anew."""

_REFUSED = ("Access denied", "authentication required", "Permission denied")

_QUOTED = re.compile(r'"(.*)"')


@frozen_dataclass
class Unit:
    """A unit at one moment."""

    name: str
    """As systemd calls it, whatever the settings do."""
    values: Mapping[str, str]

    def value(self, name: str) -> str:
        """Return a property; empty: the unit has none."""
        return self.values.get(name, "")

    def names(self, *properties: str) -> tuple[str, ...]:
        """Return the units that these properties name."""
        found = [word for each in properties for word in self.value(each).split()]
        return tuple(dict.fromkeys(found))

    @property
    def state(self) -> str:
        """Return its ActiveState."""
        return self.value("ActiveState")

    @property
    def has_job(self) -> bool:
        """Tell whether systemd is going to do something with it."""
        return self.value("Job") not in {"", "0"}

    @property
    def is_up(self) -> bool:
        """Tell whether it runs, or is on its way to."""
        return self.state in _UP or (self.state in _DOWN and self.has_job)

    @property
    def is_down(self) -> bool:
        """Tell whether it has stopped, and stays so."""
        return self.state in _DOWN and not self.has_job

    @property
    def is_settled(self) -> bool:
        """Tell whether it is not on its way to anything."""
        return self.state not in _ON_ITS_WAY and not self.has_job

    @property
    def is_masked(self) -> bool:
        """Tell whether somebody has forbidden it to run."""
        return self.value("LoadState") == "masked"

    @property
    def is_gone(self) -> bool:
        """Tell whether there is no such unit."""
        return self.value("LoadState") == "not-found"

    @property
    def stops_with_it(self) -> tuple[str, ...]:
        """Return the units that systemd stops when it stops this one."""
        return self.names(*_STOP_WITH)

    @property
    def started_by(self) -> tuple[str, ...]:
        """Return the units that may start it while it is stopped."""
        return self.names(*_STARTS_AGAIN)

    @property
    def shown(self) -> str:
        """Return how it stands, for a sentence."""
        result = self.value("Result")
        if self.state == "failed" and result:
            status = self.value("ExecMainStatus")
            is_exit = result == "exit-code" and status not in {"", "0"}
            why = f"{result}, status {status}" if is_exit else result
            return f"{self.name} (failed: {why})"
        job = ", with a job that waits" if self.has_job and self.state in _DOWN else ""
        return f"{self.name} ({self.state}, {self.value('SubState')}{job})"

    def unusable(self) -> str:
        """Return why systemd cannot use it at all; empty: it can."""
        loaded = self.value("LoadState")
        if loaded in {"loaded", "merged", "masked"}:
            return ""
        if self.is_gone:
            return f"there is no unit {self.name}"
        said = _QUOTED.search(self.value("LoadError"))
        return f"{self.name} cannot be loaded: {said[1] if said else loaded}"


class Manager:
    """The system's manager, or that of the agent's user."""

    def __init__(self, commands: Commands, *, is_user: bool) -> None:
        """Ask nothing yet."""
        self._commands = commands
        manager = ("--user",) if is_user else ("--system",)
        self._words = (PROGRAM, *manager, "--no-ask-password", "--no-pager")

    def look(self, names: Collection[str], context: RunContext) -> list[Unit]:
        """Return how units stand; a pattern gives those that systemd has loaded.

        Who does not exist is returned too, as that. Raises HandlerError.
        """
        if not names:
            return []
        properties = ",".join(_PROPERTIES)
        words = ("show", f"--property={properties}", "--", *names)
        doing = f"asking systemd about {', '.join(names)}"
        output = self._run(words, context, doing=doing)
        if output.status != 0:
            raise _failed(doing, output)
        found = {unit.name: unit for unit in units_in(output.out)}
        return list(found.values())

    def order(
        self, verb: str, names: Collection[str], context: RunContext, *options: str
    ) -> None:
        """Have systemd begin something with units; raises HandlerError if it refuses."""
        if not names:
            return
        words = ("--no-block", *options, verb, "--", *names)
        doing = f"asking systemd to {verb} {', '.join(names)}"
        output = self._run(words, context, doing=doing)
        if output.status != 0:
            raise _failed(doing, output)

    def start(
        self, names: Collection[str], context: RunContext, *, seconds: float
    ) -> str:
        """Have systemd start units, and wait so long; return what went wrong.

        Only who waits hears that what a unit requires has failed: nothing of that is
        left in the unit's state. Whether they run is seen there nevertheless.
        """
        # The states of units say more when the command was ended than what it says.
        words = (*self._words, "start", "--", *names)
        doing = f"asking systemd to start {', '.join(names)}"
        try:
            with context.doing(doing):
                output = self._commands.run(words, context, seconds=seconds)
        except HandlerError:
            return ""
        if output.status == 0 or may_pass(output):
            return ""
        if any(word in output.err for word in _REFUSED):
            raise _failed(doing, output)
        return _first_line(output)

    def followers(self, units: Sequence[Unit], context: RunContext) -> list[Unit]:
        """Return the units that stop when these are stopped, and run now.

        Raises HandlerError.
        """
        seen = {unit.name for unit in units}
        found: list[Unit] = []
        fresh = list(units)
        while fresh and len(found) < FOLLOWERS_MAX:
            names = [n for unit in fresh for n in unit.stops_with_it if n not in seen]
            seen.update(names)
            fresh = [
                unit
                for unit in self.look(tuple(dict.fromkeys(names)), context)
                if unit.is_up
            ]
            found += fresh
        return found

    def _run(self, words: Sequence[str], context: RunContext, *, doing: str) -> Output:
        return self._commands.patiently(
            (*self._words, *words), context, doing=doing, may_pass=may_pass
        )


def may_pass(output: Output) -> bool:
    """Tell whether systemctl failed since the manager was away or busy."""
    return _NEVER not in output.err and any(word in output.err for word in _AWAY)


def units_in(text: str) -> list[Unit]:
    """Return the units of `systemctl show`: lines of one each, an empty line between."""
    found: list[Unit] = []
    for block in text.split("\n\n"):
        pairs = (line.partition("=") for line in block.splitlines())
        values = {name: value for name, equals, value in pairs if equals}
        if values.get("Id"):
            found.append(Unit(name=values["Id"], values=values))
    return found


def shown_units(units: Sequence[Unit]) -> str:
    """Return how units stand, for a sentence."""
    return ", ".join(unit.shown for unit in units)


def own_units(cgroup: str = "/proc/self/cgroup") -> frozenset[str]:
    """Return the units that a process is in, by such a file; empty: it has none."""
    try:
        with open(cgroup, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        part
        for line in lines
        for part in line.split(":", 2)[-1].split("/")
        if part.endswith((".service", ".scope", ".slice"))
    )


def _first_line(output: Output) -> str:
    """Return what systemctl says of a failure; the lines after it say where to look."""
    lines = (last_line(line) for line in output.err.splitlines())
    return next(filter(None, lines), "")


def _failed(doing: str, output: Output) -> HandlerError:
    said = _first_line(output) or f"status {output.status}"
    if any(word in output.err for word in _REFUSED):
        return HandlerError(
            f"{doing}: {said} (the agent runs as root, or polkit lets its user do that)"
        )
    return HandlerError(f"{doing}: {said}")
