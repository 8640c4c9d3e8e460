"""A client of Docker or Podman through their command-line programs.

The result of an action is read from the states of the containers. If the engine is
unavailable, commands are repeated until the deadline. This module does not know events or
the memo.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from forewarn.agent.foreign import objects
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.protocol.frozen import frozen_dataclass

LOOK_SECONDS = 10.0
"""Maximum seconds for a query, so that an engine that hangs is asked again."""

STOP_SECONDS = 10
"""Default stop timeout of a container, in seconds."""

SHORT_ID = 12
"""Characters of the short form of an ID."""

KILLED = 137
"""The exit status of a killed process: 128 plus the number of SIGKILL."""

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
"""Parts of error messages, in lower case, while the engine is down or restarts."""

_MISSING = "no such container"

_OWNERS = {
    "com.docker.swarm.task.id": "Swarm, which would replace it: drain the node there",
    "PODMAN_SYSTEMD_UNIT": "a systemd unit, which would restart it: stop the unit",
    "io.kubernetes.pod.uid": "Kubernetes, which would replace it: drain the node",
}
"""Labels of containers that another program manages."""


STATUSES = {
    "docker": ("running", "paused", "restarting"),
    "podman": ("running", "paused"),
}
"""The states of running containers in the list of each program."""


@frozen_dataclass
class Container:
    """The state of a container."""

    id: str
    name: str
    status: str
    exit_code: int = 0
    was_out_of_memory: bool = False
    vanishes: bool = False
    """Whether the container was started with --rm: the engine removes it after it
    stops."""
    stop_seconds: int = STOP_SECONDS
    """Stop timeout of the container; negative: it is never killed."""
    labels: Mapping[str, str]

    @property
    def is_up(self) -> bool:
        """Return whether the container runs."""
        return self.status in _UP

    @property
    def is_paused(self) -> bool:
        """Return whether the container is paused."""
        return self.status == "paused"

    @property
    def was_killed(self) -> bool:
        """Return whether the container was killed because it did not stop in time."""
        return self.exit_code == KILLED and not self.was_out_of_memory

    @property
    def owner(self) -> str:
        """Return the program that manages the container; empty: no known one."""
        return next((who for label, who in _OWNERS.items() if label in self.labels), "")


class Engine:
    """A client of one engine."""

    def __init__(self, commands: Commands, word: str, command: Sequence[str]) -> None:
        """Run nothing yet.

        `word` is `docker` or `podman`, and `command` is the program with its first
        arguments.
        """
        self._commands = commands
        self._word = word
        self._words = tuple(command)

    def running(self, labels: Sequence[str], context: RunContext) -> list[Container]:
        """Return the running and paused containers with all these labels."""
        filters = [
            *(f"label={label}" for label in labels),
            *(f"status={status}" for status in STATUSES[self._word]),
        ]
        arguments = [word for filter_ in filters for word in ("--filter", filter_)]
        output = self._run(("ps", "--quiet", "--no-trunc", *arguments), context)
        if output.status != 0:
            raise self._failed("ps", output)
        return self.inspect(output.out.split(), context)

    def inspect(self, names: Collection[str], context: RunContext) -> list[Container]:
        """Return the containers of these names or IDs; missing ones are left out."""
        if not names:
            return []
        output = self._run(("container", "inspect", *names), context)
        containers = _containers(output.out)
        if containers is None or (
            output.status != 0 and _MISSING not in output.err.lower()
        ):
            raise self._failed("container inspect", output)
        if output.status == 0 and len(containers) < len(set(names)):
            # A missing container would be reported and make the command fail.
            raise HandlerError(
                f"{' '.join(self._words)} container inspect: {len(containers)} of "
                f"{len(set(names))} containers were listed, without an error"
            )
        return containers

    def order(
        self, arguments: Sequence[str], names: Collection[str], context: RunContext
    ) -> str:
        """Run an action on containers and wait for it; return the error message.

        Raises HandlerError if the engine was unavailable until the deadline.
        """
        if not names:
            return ""
        output = self._run((*arguments, *names), context, seconds=context.remaining())
        if output.status == 0:
            return ""
        return self._failed(arguments[0], output).message

    def _run(
        self,
        arguments: Sequence[str],
        context: RunContext,
        *,
        seconds: float = LOOK_SECONDS,
    ) -> Output:
        return self._commands.patiently(
            (*self._words, *arguments),
            context,
            doing=f"asking {self._word}",
            may_pass=may_pass,
            seconds=seconds,
        )

    def _failed(self, verb: str, output: Output) -> HandlerError:
        hint = ""
        if "permission denied" in output.err.lower():
            hint = " (run the agent as root, or let its user access the engine)"
        return HandlerError(f"{' '.join(self._words)} {verb}: {output.why}{hint}")


def may_pass(output: Output) -> bool:
    """Return whether a command failed because the engine was unavailable."""
    errors = output.err.lower()
    return "permission denied" not in errors and any(word in errors for word in _AWAY)


def _containers(text: str) -> list[Container] | None:
    """Parse the output of `inspect`; None: it is something else."""
    try:
        value: object = json.loads(text or "[]")
    except ValueError:
        return None
    containers = objects(value)
    if not isinstance(value, list) or not all(
        container.get("Id") for container in containers
    ):
        return None
    return [_container(container) for container in containers]


def _container(members: Mapping[str, Any]) -> Container:
    state, config, host = (
        cast("dict[str, Any]", members.get(key) or {})
        for key in ("State", "Config", "HostConfig")
    )
    patience = config.get("StopTimeout")
    return Container(
        id=str(members["Id"]),
        # Docker puts a slash before each name, for historical reasons.
        name=str(members.get("Name", "")).removeprefix("/"),
        status=str(state.get("Status", "")),
        exit_code=int(state.get("ExitCode") or 0),
        was_out_of_memory=bool(state.get("OOMKilled")),
        vanishes=bool(host.get("AutoRemove")),
        stop_seconds=STOP_SECONDS if patience is None else int(patience),
        labels=config.get("Labels") or {},
    )


def names_of(containers: Collection[Container]) -> str:
    """Return the names of containers for a message."""
    return ", ".join(
        container.name or container.id[:SHORT_ID] for container in containers
    )


def shown_containers(containers: Collection[Container]) -> str:
    """Return containers with their states for a message."""
    return ", ".join(
        f"{names_of([container])} ({container.status})" for container in containers
    )
