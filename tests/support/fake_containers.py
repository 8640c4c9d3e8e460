"""A fake of docker and of podman, as their commands show them: an executable over a file.

It knows the commands that the handler uses, with the outputs, errors and exit statuses
of docker 28 and podman 4.3. Nothing takes time: a container that needs longer than the
patience of `stop` was killed. A command is run as a process, or in this one. Only the standard library is imported: it is the program
too.
"""

import hashlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

HANGS = -1
"""Seconds to stop a container that hangs, together with the command."""


class FakeContainers:
    """The containers of a test; `path` goes first in PATH."""

    def __init__(self, directory: Path, program: str) -> None:
        self.program = program
        self.path = directory / "bin"
        self.path.mkdir()
        self.file = directory / "containers.json"
        state = {"containers": {}, "calls": [], "away": 0, "made": 0}
        _replace(self.file, state)
        script = self.path / program
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -SEI "{__file__}" "{self.file}" '
            f'{program} "$@"\n'
        )
        script.chmod(0o755)

    def _read(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def run(self, name: str, status: str = "running", **more: Any) -> str:
        """Have a container; return its id.

        `takes`: seconds to stop; `start_to`: how it is after a start; `refuse`: what is
        said to any order; `respawns`: how often another one of its name comes up when
        it has stopped; `lingers`: how many looks it is `stopping`; the others are as
        `inspect` tells them.
        """
        state = self._read()
        container_id = _make(state, {"name": name, "status": status, **more})
        _replace(self.file, state)
        return container_id

    def change(self, name: str, **more: Any) -> None:
        state = self._read()
        _find(state, name).update(more)
        _replace(self.file, state)

    def remove(self, name: str) -> None:
        state = self._read()
        del state["containers"][_find(state, name)["id"]]
        _replace(self.file, state)

    def away(self, calls: int, saying: str) -> None:
        """Have the engine not answer so many calls."""
        _replace(self.file, {**self._read(), "away": calls, "saying": saying})

    def status(self, name: str) -> str:
        return _find(self._read(), name)["status"]

    def orders(self) -> list[str]:
        """Return what was asked for, with names, without looks."""
        return self._read()["calls"]

    def command(self, arguments: list[str]) -> "Command":
        """Run a command in this process."""
        return Command(self.file, self.program, arguments)

    def forget_orders(self) -> None:
        _replace(self.file, {**self._read(), "calls": []})


def _replace(file: Path, state: dict[str, Any]) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    fresh.replace(file)


def _make(state: dict[str, Any], container: dict[str, Any]) -> str:
    state["made"] += 1
    digest = hashlib.sha256(str(state["made"]).encode()).hexdigest()
    state["containers"][digest] = {**container, "id": digest}
    return digest


def _find(state: dict[str, Any], word: str) -> dict[str, Any]:
    """Return a container by its name or the beginning of its id; raises KeyError."""
    for container in state["containers"].values():
        if container["name"] == word or (
            len(word) >= 4 and container["id"].startswith(word)
        ):
            return container
    raise KeyError(word)


class Command:
    """One command: what it says, and its exit status."""

    def __init__(self, file: Path, program: str, arguments: list[str]) -> None:
        self.out = ""
        self.err = ""
        self.file = file
        self.program = program
        self.words = arguments
        self.state: dict[str, Any] = json.loads(file.read_text())

    def run(self) -> int:
        if self.state["away"]:
            self.state["away"] -= 1
            _replace(self.file, self.state)
            return self._say(self.state["saying"])
        verb, *rest = self.words
        if verb == "ps":
            return self._list(rest)
        if verb == "container":
            assert rest[0] == "inspect"
            return self._inspect(rest[1:])
        options: list[str] = []
        if rest[0] == "-t":
            options, rest = rest[:2], rest[2:]
        containers = [self._named(word) for word in rest]
        names = [container["name"] for container in containers if container is not None]
        self.state["calls"].append(" ".join([verb, *options, *names]))
        statuses = [
            self._order(verb, options, container)
            for container in containers
            if container
        ]
        _replace(self.file, self.state)
        return max(
            [*statuses, *(1 for container in containers if container is None)],
            default=0,
        )

    def _say(self, text: str) -> int:
        self.err += f"{text}\n"
        return 1 if self.program == "docker" else 125

    def _named(self, word: str) -> dict[str, Any] | None:
        try:
            return _find(self.state, word)
        except KeyError:
            if self.program == "docker":
                self._say(f"Error response from daemon: No such container: {word}")
            else:
                self._say(f"Error: inspecting object: no such container {word}")
            return None

    def _list(self, arguments: list[str]) -> int:
        assert arguments[:2] == ["--quiet", "--no-trunc"]
        filters = [word.partition("=")[::2] for word in arguments[3::2]]
        statuses = {text for key, text in filters if key == "status"}
        for container in self.state["containers"].values():
            labels = container.get("Labels", {})
            present = {*labels, *(f"{key}={text}" for key, text in labels.items())}
            wanted = {text for key, text in filters if key == "label"}
            if container["status"] in statuses and wanted <= present:
                self.out += f"{container['id']}\n"
        return 0

    def _inspect(self, arguments: list[str]) -> int:
        containers = [self._named(word) for word in arguments]
        slash = "/" if self.program == "docker" else ""
        for container in containers:
            if container is not None and container["status"] == "stopping":
                container["lingers"] -= 1
                container["status"] = "stopping" if container["lingers"] else "exited"
        _replace(self.file, self.state)
        shown = [
            {
                "Id": container["id"],
                "Name": f"{slash}{container['name']}",
                "State": {
                    "Status": container["status"],
                    "ExitCode": container.get("ExitCode", 0),
                    "OOMKilled": container.get("OOMKilled", False),
                },
                "Config": {
                    "Labels": container.get("Labels"),
                    **{
                        key: container[key]
                        for key in ("StopTimeout",)
                        if key in container
                    },
                },
                "HostConfig": {"AutoRemove": container.get("AutoRemove", False)},
            }
            for container in containers
            if container is not None
        ]
        self.out = f"{json.dumps(shown, indent=4)}\n"
        missing = 1 if self.program == "docker" else 125
        return missing if None in containers else 0

    def _order(self, verb: str, options: list[str], one: dict[str, Any]) -> int:
        if one.get("refuse"):
            return self._say(f"Error response from daemon: {one['refuse']}")
        match verb:
            case "stop":
                self._stop(one, int(options[1]) if options else None)
            case "start":
                one |= {"status": one.get("start_to", "running"), "ExitCode": 0}
                if one["status"] == "exited":
                    one["ExitCode"] = 3
            case "pause":
                assert one["status"] == "running"
                one["status"] = "paused"
            case _:
                assert verb == "unpause"
                assert one["status"] == "paused"
                one["status"] = "running"
        return 0

    def _stop(self, one: dict[str, Any], patience: int | None) -> None:
        takes = one.get("takes", 0)
        if takes == HANGS:
            _replace(self.file, self.state)
            raise TimeoutError
        if patience is None:
            patience = one.get("StopTimeout", 10)
        one |= {"status": "exited", "ExitCode": 137 if takes > patience else 0}
        if one.get("lingers"):
            # As where another command is at it already.
            one |= {"status": "stopping"}
        if one.get("respawns", 0):
            fresh = {**one, "respawns": one["respawns"] - 1, "status": "running"}
            one["name"] = f"{one['name']}-old-{one['respawns']}"
            _make(self.state, fresh)
        if one.get("AutoRemove"):
            del self.state["containers"][one["id"]]


def main() -> int:
    command = Command(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
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
