"""`docker` and `podman`: stop or pause containers, and restore them after the event.

The handler waits until the containers are in the new state. It records the IDs of the
containers that it is going to stop or pause, and starts or unpauses exactly these. After
a crash in between, the memo has more containers than were changed, which is harmless.
The engine knows the differences between Docker and Podman.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from forewarn.agent.handlers.port import (
    Ground,
    Job,
    Result,
    raise_faults,
)
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.commands import Commands
from forewarn.agent.integrations.containers.engine import (
    SHORT_ID,
    STATUSES,
    Container,
    Engine,
    names_of,
    shown_containers,
)
from forewarn.agent.integrations.containers.own import own_ids
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, SECOND, Micros
from forewarn.problems import quoted
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

RESERVE_SECONDS = 2.0
"""Seconds reserved before the deadline for the engine to kill, and for its report."""

ROUNDS_MAX = 3
"""Attempts to stop containers; if some still run, another program restarts them."""

PAUSE_SECONDS = 0.25
"""Seconds between two checks of containers that are changing their state."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_CHOICES = ("containers", "labels", "all")

STOPPED, PAUSED, GONE = "stopped", "paused", "gone"
"""Members of the memo: groups of containers, and names of containers with --rm."""


@frozen_dataclass
class Plan:
    """The keys of the settings: which containers, and the action."""

    containers: tuple[tuple[str, ...], ...] = ()
    labels: tuple[str, ...] = ()
    """Containers with all these labels."""
    keep: tuple[str, ...] = ()
    all: bool = False
    action: str = "stop"
    grace: Micros | None = None
    """None: the stop timeout of each container."""
    command: tuple[str, ...] = ()
    """The program and its first arguments; empty: the name of the kind."""

    @property
    def pauses(self) -> bool:
        """Return whether containers are paused instead of stopped."""
        return self.action == "pause"


class ContainerWorker(Integration):
    """Stops or pauses containers, and restores them."""

    check_seconds = 10.0

    def __init__(
        self,
        settings: HandlerSettings,
        ground: Ground,
        *,
        commands: Commands | None = None,
    ) -> None:
        """Store the settings; `commands` replaces the runner of commands in tests."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        commands = commands or Commands(ground.environment)
        command = self._plan.command or (settings.kind,)
        self._engine = Engine(commands, settings.kind, command)

    def _own_id_prefixes(self) -> frozenset[str]:
        """Return prefixes of the IDs of the agent's own containers."""
        return own_ids(self._environment.get("HOSTNAME", ""))

    # Selection

    def _chosen(self, context: RunContext) -> list[list[Container]]:
        """Return the selected containers in groups; raises HandlerError."""
        plan = self._plan
        if not plan.containers:
            containers, own = (
                self._engine.running(plan.labels, context),
                self._own_id_prefixes(),
            )
            return [
                [
                    container
                    for container in containers
                    if container.name not in plan.keep and not _is_one(container, own)
                ]
            ]
        groups = [self._engine.inspect(group, context) for group in plan.containers]
        raise_faults(self._missing(groups))
        return groups

    def _missing(self, groups: Sequence[Sequence[Container]]) -> Iterator[str]:
        known = {container.name for group in groups for container in group}
        ids = [container.id for group in groups for container in group]
        gone = self._memo.read().get(GONE, ())
        for name in (name for group in self._plan.containers for name in group):
            is_there = name in known or any(id_.startswith(name) for id_ in ids)
            if not is_there and name not in gone:
                yield f"there is no container {name}"

    # Before the event

    def prepare(self, _job: Job, context: RunContext) -> Result:
        """Stop or pause the running containers; raises HandlerError.

        Containers that were restarted or recreated in the meantime are stopped again.
        """
        done: list[str] = []
        left: list[Container] = []
        for number in range(ROUNDS_MAX + 1):
            # Containers that others have paused are ignored.
            chosen = self._chosen(context)
            groups = [up for group in chosen if (up := [c for c in group if c.is_up])]
            if not (left := [container for group in groups for container in group]):
                return Result(
                    detail=", ".join(done) or "none of the containers was running"
                )
            if number == ROUNDS_MAX:
                break
            own = self._own_id_prefixes()
            raise_faults(
                f"{container.name} is the agent's own container"
                for container in left
                if _is_one(container, own)
            )
            for place, group in enumerate(groups):
                share = (context.remaining() - RESERVE_SECONDS) / (len(groups) - place)
                if self._plan.pauses:
                    done += self._pause(group, context)
                else:
                    done += self._stop(group, context, seconds=max(0.0, share))
        raise HandlerError(
            "; ".join(
                f"{names_of([container])} was restarted after it was stopped"
                + (f", by {container.owner}" if container.owner else "")
                for container in left
            )
        )

    def _stop(
        self, group: Sequence[Container], context: RunContext, *, seconds: float
    ) -> list[str]:
        """Stop a group within its part of the time."""
        self._memo.remember(
            STOPPED,
            {
                container.id: container.name
                for container in group
                if not container.vanishes
            },
        )
        gone: list[str] = self._memo.read().get(GONE, [])
        fresh = {
            container.name for container in group if container.vanishes
        }.difference(gone)
        if fresh:
            self._memo.keep({**self._memo.read(), GONE: [*gone, *sorted(fresh)]})
        arguments = ("stop", *self._patience(group, seconds))
        with context.doing(f"stopping {names_of(group)}"):
            error = self._engine.order(arguments, _ids(group), context)
            now = self._engine.inspect(_ids(group), context)
        while left := [container for container in now if container.is_up]:
            if error:
                raise HandlerError(error)
            with context.doing(f"waiting for {shown_containers(left)} to stop"):
                context.sleep(PAUSE_SECONDS)
                now = self._engine.inspect(_ids(group), context)
        by_id = {container.id: container for container in now}
        return [_told(container, by_id.get(container.id)) for container in group]

    def _patience(self, group: Sequence[Container], seconds: float) -> tuple[str, ...]:
        """Return the arguments for the engine's timeout before it kills."""
        if (grace := self._plan.grace) is not None:
            return ("-t", str(int(min(grace / SECOND, seconds))))
        if all(0 <= container.stop_seconds <= seconds for container in group):
            return ()
        return ("-t", str(int(seconds)))

    def _pause(self, group: Sequence[Container], context: RunContext) -> list[str]:
        self._memo.remember(
            PAUSED, {container.id: container.name for container in group}
        )
        with context.doing(f"pausing {names_of(group)}"):
            error = self._engine.order(("pause",), _ids(group), context)
            now = self._engine.inspect(_ids(group), context)
        if left := [container for container in now if container.is_up]:
            raise HandlerError(error or f"{shown_containers(left)} was not paused")
        return [f"paused {container.name}" for container in group]

    # After the event

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Start the stopped containers and unpause the paused ones; raises HandlerError.

        A failure does not affect the other containers, and is retried later.
        """
        done: list[str] = []
        faults: list[str] = []
        for group in reversed(self._memo.groups(PAUSED)):
            done += self._thaw(group, context, faults)
        for group in reversed(self._memo.groups(STOPPED)):
            done += self._start(group, context, faults)
        raise_faults(faults)
        self._memo.keep({})
        return Result(detail=", ".join(done) or "nothing had to be undone")

    def _start(
        self, group: Mapping[str, str], context: RunContext, faults: list[str]
    ) -> list[str]:
        """Start stopped containers; those that do not run then stay in the memo.

        A container that was removed is reported once, unless a new one of its name runs.
        """
        containers = self._engine.inspect(group, context)
        lost = group.keys() - {container.id for container in containers}
        recreated = self._engine.inspect([group[id_] for id_ in lost], context)
        running = {container.name for container in recreated if container.is_up}
        faults += [
            f"{name} was removed in the meantime and cannot be started"
            for name in sorted(group[id_] for id_ in lost)
            if name not in running
        ]
        idle = [
            container
            for container in containers
            if not container.is_up and not container.is_paused
        ]
        with context.doing(f"starting {names_of(idle)}"):
            error = self._engine.order(("start",), _ids(idle), context)
            now = self._engine.inspect(_ids(idle), context)
        wrong = [container for container in now if not container.is_up]
        faults += [_not_up(container, error) for container in wrong]
        down = _ids(wrong)
        self._memo.forget(STOPPED, group.keys() - set(down))
        return [
            f"started {container.name}"
            for container in idle
            if container.id not in down
        ]

    def _thaw(
        self, group: Mapping[str, str], context: RunContext, faults: list[str]
    ) -> list[str]:
        """Unpause paused containers; those that have ended are ignored."""
        frozen = [
            container
            for container in self._engine.inspect(group, context)
            if container.is_paused
        ]
        with context.doing(f"unpausing {names_of(frozen)}"):
            error = self._engine.order(("unpause",), _ids(frozen), context)
            now = self._engine.inspect(_ids(frozen), context)
        if still := [container for container in now if container.is_paused]:
            faults.append(error or f"{names_of(still)} is still paused")
        held = _ids(still)
        self._memo.forget(PAUSED, group.keys() - set(held))
        return [
            f"unpaused {container.name}"
            for container in frozen
            if container.id not in held
        ]

    # Check

    def _wrong(self, context: RunContext) -> Iterator[str]:
        chosen, own = (
            self._engine.running(self._plan.labels, context),
            self._own_id_prefixes(),
        )
        if self._plan.containers:
            groups = [self._engine.inspect(g, context) for g in self._plan.containers]
            yield from self._missing(groups)
            chosen = [container for group in groups for container in group]
            for container in chosen:
                if container.vanishes and not self._plan.pauses:
                    yield (
                        f"{container.name} was started with --rm: the engine removes it when "
                        "it stops, and the handler cannot start it again"
                    )
        for container in chosen:
            if not _is_one(container, own):
                if container.owner and container.name not in self._plan.keep:
                    yield f"{container.name} belongs to {container.owner}"
            elif self._plan.containers:
                yield f"{container.name} is the agent's own container"


def _is_one(container: Container, own: frozenset[str]) -> bool:
    return any(container.id.startswith(beginning) for beginning in own)


def _ids(containers: Iterable[Container]) -> list[str]:
    return [container.id for container in containers]


def _told(before: Container, now: Container | None) -> str:
    """Return the result for a container that had to stop."""
    how = "killed" if now is not None and now.was_killed else "stopped"
    # The engine may remove the container a moment later.
    gone = ", which is removed now (--rm)" if before.vanishes else ""
    return f"{how} {before.name}{gone}"


def _not_up(container: Container, error: str) -> str:
    if error:
        return f"{container.name or container.id[:SHORT_ID]} was not started: {error}"
    return (
        f"{container.name} was started and ended again with exit status "
        f"{container.exit_code}"
    )


def _keys_of(program: str) -> Mapping[str, Option]:
    """Return the keys of the kind for one program."""
    return {
        "containers": Option(
            form=Forms.GROUPS,
            text="The containers, by name or ID. They are stopped one after the other, "
            "and those of an inner list in parallel. After the event the order is "
            "reversed. Default: those of `labels` or `all`.",
        ),
        "labels": Option(
            form=Forms.NAMES,
            text='All running containers with all of these labels, `"tier"` or '
            '`"tier=web"`. Default: those of `containers` or `all`.',
        ),
        "all": Option(
            form=Forms.SWITCH,
            text="Whether to use all running containers. Default: `false`.",
        ),
        "keep": Option(
            form=Forms.NAMES,
            may_be_empty=True,
            text="Names of containers to exclude from `labels` and `all`. The agent's own "
            "container is always excluded. Default: none.",
        ),
        "action": Option(
            form=Forms.WORD,
            words=("stop", "pause"),
            text="`stop`: stop them, and start them after the event. `pause`: pause "
            "them, for an event that freezes the VM for some seconds without data "
            "loss. Default: `stop`.",
        ),
        "grace": Option(
            form=Forms.DURATION,
            most=DAY,
            text="How long each container may take to stop before it is killed, in whole "
            "seconds; less if the deadline is near. Default: the stop timeout of the "
            "container, which is 10 s by default.",
        ),
        "command": Option(
            form=Forms.ACTION,
            text="The program and its first arguments, such as "
            f'`["sudo", "-n", "{program}"]`. Default: `{program}`.',
        ),
    }


def _faults(entry: Entry) -> Faults:
    """Yield the problems between keys."""
    if not (chosen := [key for key in _CHOICES if entry.get(key)]):
        yield "", "it selects no containers: set containers, labels or all"
    elif len(chosen) > 1:
        yield chosen[1], f"cannot be combined with {chosen[0]}"
    if "keep" in entry and "containers" in entry:
        yield "keep", "cannot be combined with containers: use labels or all"
    if "grace" in entry and entry.get("action") == "pause":
        yield "grace", 'cannot be combined with action = "pause"'
    for name in (name for group in entry.get("containers", ()) for name in group):
        if not _NAME.fullmatch(name):
            yield "containers", f"{quoted(name)} is not a valid container name"


KINDS = {
    word: HandlerKind(make=ContainerWorker, keys=_keys_of(word), faults=_faults)
    for word in STATUSES
}
"""The kinds of handler, by program."""
