"""What docker and podman tell of containers, and how they are asked: by their command.

Whether something came about is seen in the states of the containers. An engine that is
away is asked again while there is time. This module must not know what is prepared for,
nor what is remembered of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from forewarn.agent.foreign import objects
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output, shown
from forewarn.protocol.frozen import frozen_dataclass

LOOK_SECONDS = 10.0
"""For a question, where more is left: an engine that hangs is asked again."""

STOP_SECONDS = 10
"""How long a container may take to stop where neither it nor the settings say."""

SHORT_ID = 12
"""Characters of an id that people use."""

KILLED = 137
"""The exit status of who was killed: 128 and the number of the signal."""

_UP = frozenset({"running", "restarting", "stopping"})

_AWAY = (
    "cannot connect to",
    "is the docker daemon running",
    "error during connect",
    "unable to connect",
    "connection refused",
    "connection reset",
    "i/o timeout",
    "deadline exceeded",
    "unexpected eof",
    "database is locked",
    "server is shutting down",
)
"""What the commands say, in small letters, where the engine is away or begins anew."""

_MISSING = "no such container"

_OWNERS = {
    "com.docker.swarm.task.id": "swarm, which would make another: drain the node there",
    "PODMAN_SYSTEMD_UNIT": "a unit of systemd, which would start it again: stop that",
    "io.kubernetes.pod.uid": "Kubernetes, which would make another: drain the node",
}
"""Labels of containers that somebody else looks after."""


@frozen_dataclass
class Flavour:
    """What is otherwise with each of the programs."""

    word: str
    """Of the program, and of the kind of handler."""
    statuses: tuple[str, ...]
    """Of containers that run, as its list knows them."""


@frozen_dataclass
class Container:
    """A container at one moment."""

    id: str
    name: str
    status: str
    exit_code: int = 0
    was_out_of_memory: bool = False
    vanishes: bool = False
    """It was started with --rm: the engine removes it once it has stopped."""
    stop_seconds: int = STOP_SECONDS
    """Its own patience; negative: it is never killed."""
    labels: Mapping[str, str]

    @property
    def is_up(self) -> bool:
        """Tell whether it runs."""
        return self.status in _UP

    @property
    def is_paused(self) -> bool:
        """Tell whether it is frozen."""
        return self.status == "paused"

    @property
    def was_killed(self) -> bool:
        """Tell whether it ended since it was killed for being slow."""
        return self.exit_code == KILLED and not self.was_out_of_memory

    @property
    def owner(self) -> str:
        """Return who would undo what is done to it; empty: nobody that is known."""
        return next((who for label, who in _OWNERS.items() if label in self.labels), "")


class Engine:
    """The engine behind one command."""

    def __init__(
        self, commands: Commands, flavour: Flavour, words: Sequence[str]
    ) -> None:
        """Ask nothing yet; `words` are the program and what always comes after it."""
        self._commands = commands
        self._flavour = flavour
        self._words = tuple(words)

    def running(self, labels: Sequence[str], context: RunContext) -> list[Container]:
        """Return the containers that run, or are paused, and have all these labels."""
        filters = [f"label={label}" for label in labels]
        filters += [f"status={status}" for status in self._flavour.statuses]
        words = [word for each in filters for word in ("--filter", each)]
        output = self._run(("ps", "--quiet", "--no-trunc", *words), context)
        if output.status != 0:
            raise self._failed("ps", output)
        return self.look(output.out.split(), context)

    def look(self, names: Collection[str], context: RunContext) -> list[Container]:
        """Return the containers of these names or ids; who is not there is left out."""
        if not names:
            return []
        output = self._run(("container", "inspect", *names), context)
        found = _containers(output.out)
        if found is None or (output.status != 0 and _MISSING not in output.err.lower()):
            raise self._failed("container inspect", output)
        if output.status == 0 and len(found) < len(set(names)):
            # Who is not there is told, and makes the command fail.
            raise HandlerError(
                f"{shown(self._words)} container inspect: {len(found)} of "
                f"{len(set(names))} containers were told of, and no error"
            )
        return found

    def order(
        self, words: Sequence[str], names: Collection[str], context: RunContext
    ) -> str:
        """Do something with containers, waiting for it; return what went wrong.

        Raises HandlerError where the engine was away, or busy, until the end.
        """
        if not names:
            return ""
        output = self._run((*words, *names), context, seconds=context.remaining())
        if output.status == 0:
            return ""
        return self._failed(words[0], output).message

    def _run(
        self,
        words: Sequence[str],
        context: RunContext,
        *,
        seconds: float = LOOK_SECONDS,
    ) -> Output:
        return self._commands.patiently(
            (*self._words, *words),
            context,
            doing=f"asking {self._flavour.word}",
            may_pass=may_pass,
            seconds=seconds,
        )

    def _failed(self, verb: str, output: Output) -> HandlerError:
        hint = ""
        if "permission denied" in output.err.lower():
            hint = " (the agent runs as root, or its user may use the engine)"
        return HandlerError(f"{shown(self._words)} {verb}: {output.why}{hint}")


def may_pass(output: Output) -> bool:
    """Tell whether a command failed since the engine was away."""
    said = output.err.lower()
    return "permission denied" not in said and any(word in said for word in _AWAY)


def _containers(text: str) -> list[Container] | None:
    """Return the containers of an `inspect`; None: it printed something else."""
    try:
        found: object = json.loads(text or "[]")
    except ValueError:
        return None
    containers = objects(found)
    if not isinstance(found, list) or not all(each.get("Id") for each in containers):
        return None
    return [_container(each) for each in containers]


def _container(told: Mapping[str, Any]) -> Container:
    state, config, host = (
        cast("dict[str, Any]", told.get(key) or {})
        for key in ("State", "Config", "HostConfig")
    )
    patience = config.get("StopTimeout")
    return Container(
        id=str(told["Id"]),
        # docker has a slash before each name, from when containers were linked.
        name=str(told.get("Name", "")).removeprefix("/"),
        status=str(state.get("Status", "")),
        exit_code=int(state.get("ExitCode") or 0),
        was_out_of_memory=bool(state.get("OOMKilled")),
        vanishes=bool(host.get("AutoRemove")),
        stop_seconds=STOP_SECONDS if patience is None else int(patience),
        labels=config.get("Labels") or {},
    )


def names_of(containers: Collection[Container]) -> str:
    """Return what containers are called, for a sentence."""
    return ", ".join(each.name or each.id[:SHORT_ID] for each in containers)


def shown_containers(containers: Collection[Container]) -> str:
    """Return how containers stand, for a sentence."""
    return ", ".join(f"{names_of([each])} ({each.status})" for each in containers)
