"""A client of systemd through `systemctl`, and the states of units.

The result of an action is read from the states of the units, never from the exit status
of a command. If the manager is unavailable, commands are repeated until the deadline.
This module does not know events or the memo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from forewarn.agent.handlers.records import last_line, text_in
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.protocol.frozen import frozen_dataclass

PROGRAM = "systemctl"

PAUSE_FIRST_SECONDS = 0.05
PAUSE_SECONDS_MAX = 1.0
"""Seconds between two checks of units that are changing; they double each time."""

FOLLOWERS_MAX = 1_000
"""Maximum number of units that stop with others: more than a machine has."""

_UP = frozenset({"active", "reloading", "activating", "refreshing", "maintenance"})
_DOWN = frozenset({"inactive", "failed"})
_ON_ITS_WAY = frozenset({"activating", "deactivating", "reloading", "refreshing"})

_STOP_WITH = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
"""Properties that name the units which systemd stops together with this one."""

_STARTS_AGAIN = ("TriggeredBy", "UpheldBy")
"""Properties that name the units which can start this one while it is stopped."""

_PROPERTIES = (
    *("Id", "LoadState", "LoadError", "ActiveState", "SubState", "Result", "Job"),
    *("Type", "ConditionResult", "AssertResult", "ReloadResult", "ExecMainStatus"),
    *("CanStart", "CanStop", "CanReload", *_STOP_WITH, *_STARTS_AGAIN),
)

_NEVER = "not been booted with systemd"
"""Error of systemctl without systemd: a permanent failure."""

_AWAY = (
    "Failed to connect to bus",
    "Failed to activate service",
    "Connection timed out",
    "Connection reset by peer",
    "Transport endpoint is not connected",
    "Message recipient disconnected",
    "Resource temporarily unavailable",
    # Another job of the unit is pending, for example during a shutdown.
    "is destructive",
)
"""Errors of systemctl while the manager is busy or restarts."""

_REFUSED = ("Access denied", "authentication required", "Permission denied")

_QUOTED = re.compile(r'"(.*)"')


@frozen_dataclass
class Unit:
    """The state of a unit."""

    name: str
    """Name of the unit in systemd, which may differ from the name in the settings."""
    values: Mapping[str, str]

    def value(self, name: str) -> str:
        """Return a property; empty: not set."""
        return self.values.get(name, "")

    def names(self, *properties: str) -> tuple[str, ...]:
        """Return the units that these properties name."""
        return tuple(
            dict.fromkeys(
                word
                for property_ in properties
                for word in self.value(property_).split()
            )
        )

    @property
    def state(self) -> str:
        """Return its ActiveState."""
        return self.value("ActiveState")

    @property
    def has_job(self) -> bool:
        """Return whether systemd has a pending job for the unit."""
        return self.value("Job") not in {"", "0"}

    @property
    def is_up(self) -> bool:
        """Return whether the unit runs or is starting."""
        return self.state in _UP or (self.state in _DOWN and self.has_job)

    @property
    def is_down(self) -> bool:
        """Return whether the unit is stopped and has no job."""
        return self.state in _DOWN and not self.has_job

    @property
    def is_settled(self) -> bool:
        """Return whether the unit's state is not changing."""
        return self.state not in _ON_ITS_WAY and not self.has_job

    @property
    def is_masked(self) -> bool:
        """Return whether the unit is masked, so that it cannot start."""
        return self.value("LoadState") == "masked"

    @property
    def is_gone(self) -> bool:
        """Return whether the unit does not exist."""
        return self.value("LoadState") == "not-found"

    @property
    def started_by(self) -> tuple[str, ...]:
        """Return the units that can start this unit while it is stopped."""
        return self.names(*_STARTS_AGAIN)

    @property
    def shown(self) -> str:
        """Return the unit's name and state for a message."""
        result = self.value("Result")
        if self.state == "failed" and result:
            status = self.value("ExecMainStatus")
            is_exit = result == "exit-code" and status not in {"", "0"}
            why = f"{result}, status {status}" if is_exit else result
            return f"{self.name} (failed: {why})"
        job = ", with a pending job" if self.has_job and self.state in _DOWN else ""
        return f"{self.name} ({self.state}, {self.value('SubState')}{job})"

    def unusable(self) -> str:
        """Return why systemd cannot load the unit; empty: it can."""
        loaded = self.value("LoadState")
        if loaded in {"loaded", "merged", "masked"}:
            return ""
        if self.is_gone:
            return f"there is no unit {self.name}"
        quoted_text = _QUOTED.search(self.value("LoadError"))
        return (
            f"{self.name} cannot be loaded: {quoted_text[1] if quoted_text else loaded}"
        )


class Manager:
    """A client of the system manager, or of the manager of the agent's user."""

    def __init__(self, commands: Commands, *, is_user: bool) -> None:
        """Run nothing yet."""
        self._commands = commands
        manager = ("--user",) if is_user else ("--system",)
        self._words = (PROGRAM, *manager, "--no-ask-password", "--no-pager")

    def read_units(self, names: Collection[str], context: RunContext) -> list[Unit]:
        """Return the states of units; a pattern returns those that systemd has loaded.

        Units that do not exist are returned too. Raises HandlerError.
        """
        if not names:
            return []
        arguments = ("show", f"--property={','.join(_PROPERTIES)}", "--", *names)
        doing = f"asking systemd about {', '.join(names)}"
        units = units_in(self._run(arguments, context, doing=doing))
        return list({unit.name: unit for unit in units}.values())

    def order(
        self, verb: str, names: Collection[str], context: RunContext, *options: str
    ) -> None:
        """Queue a job for units; raises HandlerError if systemd rejects it."""
        if not names:
            return
        arguments = ("--no-block", *options, verb, "--", *names)
        self._run(
            arguments, context, doing=f"asking systemd to {verb} {', '.join(names)}"
        )

    def start(
        self, names: Collection[str], context: RunContext, *, seconds: float
    ) -> str:
        """Start units and wait for `seconds`; return the error message.

        Only a waiting systemctl reports that a dependency has failed; the state of the
        unit does not show it. Whether the units run is read from their states.
        """
        # If the command does not end in time, the states of the units say more.
        command = (*self._words, "start", "--", *names)
        doing = f"asking systemd to start {', '.join(names)}"
        try:
            with context.doing(doing):
                output = self._commands.run(command, context, seconds=seconds)
        except HandlerError:
            return ""
        if output.status == 0 or may_pass(output):
            return ""
        if any(word in output.err for word in _REFUSED):
            raise _failed(doing, output)
        return _first_line(output)

    def followers(self, units: Sequence[Unit], context: RunContext) -> list[Unit]:
        """Return the running units that systemd stops together with these.

        Raises HandlerError.
        """
        names_known = {unit.name for unit in units}
        followers_found: list[Unit] = []
        fresh = list(units)
        while fresh and len(followers_found) < FOLLOWERS_MAX:
            names = [
                n
                for unit in fresh
                for n in unit.names(*_STOP_WITH)
                if n not in names_known
            ]
            names_known.update(names)
            others = self.read_units(tuple(dict.fromkeys(names)), context)
            fresh = [unit for unit in others if unit.is_up]
            followers_found += fresh
        return followers_found

    def _run(self, arguments: Sequence[str], context: RunContext, *, doing: str) -> str:
        """Return the output of a command; raises HandlerError if it fails."""
        arguments = (*self._words, *arguments)
        output = self._commands.patiently(
            arguments, context, doing=doing, may_pass=may_pass
        )
        if output.status != 0:
            raise _failed(doing, output)
        return output.out


def may_pass(output: Output) -> bool:
    """Return whether systemctl failed because the manager was unavailable."""
    return _NEVER not in output.err and any(word in output.err for word in _AWAY)


def units_in(text: str) -> list[Unit]:
    """Parse `systemctl show`: blocks of lines, separated by empty lines."""
    units: list[Unit] = []
    for block in text.split("\n\n"):
        pairs = (line.partition("=") for line in block.splitlines())
        values = {name: value for name, equals, value in pairs if equals}
        if values.get("Id"):
            units.append(Unit(name=values["Id"], values=values))
    return units


def shown_units(units: Sequence[Unit]) -> str:
    """Return units with their states for a message."""
    return ", ".join(unit.shown for unit in units)


def own_units(cgroup: str = "/proc/self/cgroup") -> frozenset[str]:
    """Return the units of a process from its cgroup file; empty: no such file."""
    return frozenset(
        part
        for line in text_in(cgroup).splitlines()
        for part in line.split(":", 2)[-1].split("/")
        if part.endswith((".service", ".scope", ".slice"))
    )


def _first_line(output: Output) -> str:
    """Return the first line of systemctl's errors; the others only name commands."""
    lines = (last_line(line) for line in output.err.splitlines())
    return next(filter(None, lines), "")


def _failed(doing: str, output: Output) -> HandlerError:
    reason = _first_line(output) or f"status {output.status}"
    if any(word in output.err for word in _REFUSED):
        return HandlerError(
            f"{doing}: {reason} (run the agent as root, or permit it in polkit)"
        )
    return HandlerError(f"{doing}: {reason}")
