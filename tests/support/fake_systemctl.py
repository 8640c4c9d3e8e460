"""A fake of systemd, as its `systemctl` shows it: an executable over a file of units.

It knows the commands and properties that the handler uses, with the outputs and exit
statuses of systemd 252. Durations are numbers of polls, so that a story needs no clock.
A command is run as a process, or in this one. Only the standard library is imported: it
is the program too.
"""

import fnmatch
import json
import sys
import threading
from pathlib import Path
from typing import Any

NEVER = -1
"""Checks until a unit that never reaches its state by itself gets there."""

_STOPPED_WITH = ("RequiredBy", "BoundBy", "ConsistsOf", "PropagatesStopTo")


class FakeSystemd:
    """The units of a test; `path` goes first in PATH."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "bin"
        self.path.mkdir()
        self.file = directory / "units.json"
        self._write({"units": {}, "calls": [], "away": 0})
        program = self.path / "systemctl"
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -SEI "{__file__}" "{self.file}" "$@"\n'
        )
        program.chmod(0o755)

    def _read(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def _write(self, state: dict[str, Any]) -> None:
        _replace(self.file, state)

    def unit(self, name: str, active: str = "active", **more: Any) -> None:
        """Have a unit; capital words are properties, others how it behaves.

        `stop`, `start`, `reload`: after how many looks; `start_to`: where it gets;
        `refuse`: what is said to any order; `again`: how often it starts by itself;
        `wakes`: who starts when it has stopped; `later`: how long it still takes when
        systemd says that it was started.
        """
        state = self._read()
        state["units"][name] = {"active": active, **more}
        self._write(state)

    def change(self, name: str, **more: Any) -> None:
        state = self._read()
        state["units"][name] |= more
        self._write(state)

    def remove(self, name: str) -> None:
        state = self._read()
        del state["units"][name]
        self._write(state)

    def away(self, calls: int, saying: str = "Connection refused") -> None:
        """Have the manager not answer so many calls."""
        self._write({**self._read(), "away": calls, "saying": saying})

    def active(self, name: str) -> str:
        return self._read()["units"][name]["active"]

    def orders(self) -> list[str]:
        """Return what was asked for, without looks and options."""
        return [call for call in self._read()["calls"] if not call.startswith("show")]

    def command(self, arguments: list[str]) -> "Systemctl":
        """Run a command in this process."""
        return Systemctl(self.file, arguments)

    def forget_orders(self) -> None:
        self._write({**self._read(), "calls": []})


def _replace(file: Path, state: dict[str, Any]) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    fresh.replace(file)


class Systemctl:
    """One command: what it says, and its exit status."""

    def __init__(self, file: Path, arguments: list[str]) -> None:
        self.file = file
        self.out = ""
        self.err = ""
        self.state: dict[str, Any] = json.loads(file.read_text())
        self.units: dict[str, dict[str, Any]] = self.state["units"]
        at = arguments.index("--")
        self.options = [word for word in arguments[:at] if word.startswith("-")]
        (self.verb,) = [word for word in arguments[:at] if not word.startswith("-")]
        self.names = arguments[at + 1 :]

    def run(self) -> int:
        assert {"--no-ask-password", "--no-pager"} <= set(self.options)
        if self.state["away"]:
            self.state["away"] -= 1
            self._save()
            return self._say(f"Failed to connect to bus: {self.state['saying']}")
        self.state["calls"].append(" ".join([self.verb, *self.names]))
        if self.verb == "show":
            return self._show()
        statuses = [self._order(_whole(name)) for name in self.names]
        self._save()
        if self.verb == "start" and "--no-block" not in self.options:
            return self._waited(max(statuses))
        return max(statuses)

    def _say(self, text: str) -> int:
        self.err += f"{text}\n"
        return 1

    def _save(self) -> None:
        _replace(self.file, self.state)

    # Looking

    def _show(self) -> int:
        blocks: list[str] = []
        keys = self.options[-1].removeprefix("--property=").split(",")
        for name in self.names:
            if "@." in name:
                return self._say(
                    f"Unit name {name} is neither a valid invocation ID nor unit name."
                )
            is_pattern = set(name) & set("*?[")
            names = fnmatch.filter(self.units, name) if is_pattern else [_whole(name)]
            for unit in names:
                self._go_on(unit)
                shown = self._properties(unit)
                lines = [f"{key}={shown[key]}" for key in keys if key in shown]
                blocks.append("\n".join(lines) + "\n")
        self._save()
        self.out = "\n".join(blocks)
        return 0

    def _go_on(self, name: str) -> None:
        """Bring a unit nearer to where it is going."""
        unit = self.units.get(name, {})
        if "to" not in unit:
            return
        if unit["looks"] > 0:
            unit["looks"] -= 1
        elif unit["looks"] == 0:
            unit["active"] = unit.pop("to")
            if "wakes" in unit:
                self.units[unit["wakes"]]["active"] = "active"
            if unit["active"] == "inactive" and unit.get("again", 0):
                unit["again"] -= 1
                unit["active"] = "active"

    def _properties(self, name: str) -> dict[str, str]:
        unit = self.units.get(name)
        if unit is None:
            why = f'org.freedesktop.systemd1.NoSuchUnit "Unit {name} not found."'
            return {
                "Id": name,
                "LoadState": "not-found",
                "LoadError": why,
                "ActiveState": "inactive",
                "SubState": "dead",
                "CanStart": "no",
            }
        sub = {"active": "running", "inactive": "dead", "failed": "failed"}
        sub |= {"deactivating": "stop-sigterm", "activating": "start"}
        sub |= {"reloading": "reload"}
        return {
            "Id": name,
            "LoadState": "loaded",
            "ActiveState": unit["active"],
            "SubState": sub[unit["active"]],
            "Result": "exit-code" if unit["active"] == "failed" else "success",
            **({"Job": "7"} if "to" in unit else {}),
            "Type": "simple",
            "CanStart": "yes",
            "CanStop": "yes",
            "CanReload": "yes",
            **{key: text for key, text in unit.items() if key[0].isupper()},
        }

    # Changing

    def _order(self, name: str) -> int:
        unit = self.units.get(name)
        if unit is None or unit.get("LoadState") == "masked":
            why = "not loaded." if unit is None else "is masked."
            return self._say(f"Failed to {self.verb} {name}: Unit {name} {why}")
        if unit.get("refuse"):
            see = f"See system logs and 'systemctl status {name}' for details."
            return self._say(f"Failed to {self.verb} {name}: {unit['refuse']}\n{see}")
        match self.verb:
            case "stop":
                self._stop(name)
            case "start":
                if unit["active"] != "active":
                    self._way(unit, "activating", unit.get("start_to", "active"))
            case "reload":
                self._way(unit, "reloading", "active")
            case "kill":
                assert "--signal=SIGKILL" in self.options
                unit |= {"active": "failed", "Result": "signal"}
                unit.pop("to", None)
            case _:
                assert self.verb == "reset-failed"
                unit["active"] = "inactive"
                unit.pop("Result", None)
        return 0

    def _stop(self, name: str) -> None:
        unit = self.units[name]
        if unit["active"] in {"inactive", "failed"} and "to" not in unit:
            return
        self._way(unit, "deactivating", "inactive")
        for attribute in _STOPPED_WITH:
            for other in unit.get(attribute, "").split():
                self._stop(other)

    def _way(self, unit: dict[str, Any], by: str, to: str) -> None:
        looks = unit.get(
            {"deactivating": "stop", "activating": "start"}.get(by, "reload"), 0
        )
        unit |= {"active": by, "to": to, "looks": looks}

    def _waited(self, status: int) -> int:
        for name in map(_whole, self.names):
            unit = self.units.get(name, {})
            if unit.get("dependency"):
                unit["active"] = "inactive"
                unit.pop("to", None)
                status = self._say(
                    f"A dependency job for {name} failed. See 'journalctl -xe' for details."
                )
            if unit.get("looks") == NEVER:
                self._save()
                raise TimeoutError
            if unit.get("later"):
                # Its job is done, and it needs longer nevertheless: `auto-restart`.
                unit["looks"] = unit["later"]
            elif "to" in unit:
                unit["active"] = unit.pop("to")
                if unit["active"] == "failed":
                    status = self._say(
                        f"Job for {name} failed because the control process exited with "
                        f'error code.\nSee "systemctl status {name}" for details.'
                    )
        self._save()
        return status


def _whole(name: str) -> str:
    return name if "." in name else f"{name}.service"


def main() -> int:
    command = Systemctl(Path(sys.argv[1]), sys.argv[2:])
    try:
        status = command.run()
    except TimeoutError:
        threading.Event().wait()
        raise
    sys.stdout.write(command.out)
    sys.stderr.write(command.err)
    return status


if __name__ == "__main__":
    sys.exit(main())
