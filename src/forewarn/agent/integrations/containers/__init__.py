"""Containers of docker or podman: stopped or paused before an event, and back after it.

It waits until they are in that state. It remembers which ones it stopped or paused, by
their ids, before it does, and starts or thaws exactly these again; a crash in between
leaves a memory of more than was done, which does no harm. Docker and podman differ
only in their `Flavour`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

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
    Container,
    Engine,
    Flavour,
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
"""Kept of the time that is left, for the engine to kill and to tell of it."""

ROUNDS_MAX = 3
"""How often what runs is stopped, until something else must be starting it again."""

PAUSE_SECONDS = 0.25
"""Between two looks at containers that are on their way."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_CHOICES = ("containers", "labels", "all")

FLAVOURS = {
    "docker": Flavour(word="docker", statuses=("running", "paused", "restarting")),
    "podman": Flavour(word="podman", statuses=("running", "paused")),
}

STOPPED, PAUSED, GONE = "stopped", "paused", "gone"
"""What the memo has: groups of containers, and the names of those that vanished."""


@frozen_dataclass
class Plan:
    """Which containers, and what is done with them, in the words of the settings."""

    containers: tuple[tuple[str, ...], ...] = ()
    labels: tuple[str, ...] = ()
    """With neither: all that run."""
    keep: tuple[str, ...] = ()
    all: bool = False
    action: str = "stop"
    grace: Micros | None = None
    """None: each container's own."""
    command: tuple[str, ...] = ()
    """The program, and what always comes after it; empty: as the kind is called."""

    @property
    def pauses(self) -> bool:
        """Tell whether containers are frozen, and not stopped."""
        return self.action == "pause"


class ContainerWorker(Integration):
    """Handles the containers of one handler."""

    check_seconds = 10.0

    def __init__(
        self,
        flavour: Flavour,
        settings: HandlerSettings,
        ground: Ground,
        *,
        commands: Commands | None = None,
    ) -> None:
        """Ask nothing yet; `commands` run the program, usually by themselves."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        commands = commands or Commands(ground.environment)
        words = self._plan.command or (flavour.word,)
        self._engine = Engine(commands, flavour, words)

    def _own(self) -> frozenset[str]:
        """Return how ids of the agent's containers begin."""
        return own_ids(self._environment.get("HOSTNAME", ""))

    # Which ones

    def _chosen(self, context: RunContext) -> list[list[Container]]:
        """Return the containers in question, in groups; raises HandlerError."""
        plan = self._plan
        if not plan.containers:
            found, own = self._engine.running(plan.labels, context), self._own()
            return [
                [
                    each
                    for each in found
                    if each.name not in plan.keep and not _is_one(each, own)
                ]
            ]
        groups = [self._engine.look(group, context) for group in plan.containers]
        raise_faults(self._missing(groups))
        return groups

    def _missing(self, groups: Sequence[Sequence[Container]]) -> Iterator[str]:
        known = {each.name for group in groups for each in group}
        ids = [each.id for group in groups for each in group]
        gone = self._memo.read().get(GONE, ())
        for name in (name for group in self._plan.containers for name in group):
            is_there = name in known or any(each.startswith(name) for each in ids)
            if not is_there and name not in gone:
                yield f"there is no container {name}"

    # Before the event

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Stop or pause what runs; raises HandlerError.

        What was started again meanwhile, or made anew, is stopped again.
        """
        del job
        done: list[str] = []
        left: list[Container] = []
        for number in range(ROUNDS_MAX + 1):
            groups = [
                # What was paused by others is left alone.
                [each for each in group if each.is_up]
                for group in self._chosen(context)
            ]
            left = [each for group in groups for each in group]
            if not left:
                return Result(detail=", ".join(done) or "nothing of it ran")
            if number == ROUNDS_MAX:
                break
            own = self._own()
            raise_faults(
                f"{each.name} is the agent's own container"
                for each in left
                if _is_one(each, own)
            )
            for place, group in enumerate(groups):
                share = (context.remaining() - RESERVE_SECONDS) / (len(groups) - place)
                if self._plan.pauses:
                    done += self._pause(group, context)
                else:
                    done += self._stop(group, context, seconds=max(0.0, share))
        raise HandlerError(
            "; ".join(
                f"{names_of([each])} was started again after it was stopped"
                + (f", by {each.owner}" if each.owner else "")
                for each in left
            )
        )

    def _stop(
        self, group: Sequence[Container], context: RunContext, *, seconds: float
    ) -> list[str]:
        """Stop a group within its share of the time."""
        if not group:
            return []
        self._memo.remember(
            STOPPED, {each.id: each.name for each in group if not each.vanishes}
        )
        self._remember_gone([each.name for each in group if each.vanishes])
        words = ("stop", *self._patience(group, seconds))
        with context.doing(f"stopping {names_of(group)}"):
            said = self._engine.order(words, _ids(group), context)
            now = self._engine.look(_ids(group), context)
        while left := [each for each in now if each.is_up]:
            if said:
                raise HandlerError(said)
            with context.doing(f"waiting for {shown_containers(left)} to stop"):
                context.sleep(PAUSE_SECONDS)
                now = self._engine.look(_ids(group), context)
        found = {each.id: each for each in now}
        return [_told(each, found.get(each.id)) for each in group]

    def _patience(self, group: Sequence[Container], seconds: float) -> tuple[str, ...]:
        """Return the words that say how long the engine waits before it kills."""
        grace = self._plan.grace
        if grace is not None:
            return ("-t", str(int(min(grace / SECOND, seconds))))
        if all(0 <= each.stop_seconds <= seconds for each in group):
            return ()
        return ("-t", str(int(seconds)))

    def _pause(self, group: Sequence[Container], context: RunContext) -> list[str]:
        if not group:
            return []
        self._memo.remember(PAUSED, {each.id: each.name for each in group})
        with context.doing(f"pausing {names_of(group)}"):
            said = self._engine.order(("pause",), _ids(group), context)
            now = self._engine.look(_ids(group), context)
        left = [each for each in now if each.is_up]
        if left:
            raise HandlerError(said or f"{shown_containers(left)} was not paused")
        return [f"paused {each.name}" for each in group]

    # After the event

    def recover(self, job: Job, context: RunContext) -> Result:
        """Start what was stopped, thaw what was paused; raises HandlerError.

        What fails keeps nothing else from being undone, and is tried again later.
        """
        del job
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
        """Start what was stopped; what does not run then is remembered further.

        Who is no longer there is told of once, unless another has its name and runs.
        """
        found = self._engine.look(group, context)
        lost = group.keys() - {each.id for each in found}
        recreated = self._engine.look([group[each] for each in lost], context)
        running = {each.name for each in recreated if each.is_up}
        faults += [
            f"{name} was removed meanwhile and is not started"
            for name in sorted(group[each] for each in lost)
            if name not in running
        ]
        idle = [each for each in found if not each.is_up and not each.is_paused]
        with context.doing(f"starting {names_of(idle)}"):
            said = self._engine.order(("start",), _ids(idle), context)
            now = self._engine.look(_ids(idle), context)
        wrong = [each for each in now if not each.is_up]
        faults += [_not_up(each, said) for each in wrong]
        down = _ids(wrong)
        self._memo.forget(STOPPED, group.keys() - set(down))
        return [f"started {each.name}" for each in idle if each.id not in down]

    def _thaw(
        self, group: Mapping[str, str], context: RunContext, faults: list[str]
    ) -> list[str]:
        """Thaw what was paused; who was ended meanwhile was not ended here."""
        frozen = [each for each in self._engine.look(group, context) if each.is_paused]
        with context.doing(f"thawing {names_of(frozen)}"):
            said = self._engine.order(("unpause",), _ids(frozen), context)
            now = self._engine.look(_ids(frozen), context)
        still = [each for each in now if each.is_paused]
        if still:
            faults.append(said or f"{names_of(still)} is still paused")
        held = _ids(still)
        self._memo.forget(PAUSED, group.keys() - set(held))
        return [f"thawed {each.name}" for each in frozen if each.id not in held]

    def _remember_gone(self, names: Sequence[str]) -> None:
        known: list[str] = list(self._memo.read().get(GONE, ()))
        fresh = [name for name in names if name not in known]
        if fresh:
            self._memo.keep({**self._memo.read(), GONE: [*known, *fresh]})

    # Is it well?

    def _wrong(self, context: RunContext) -> Iterator[str]:
        chosen, own = self._engine.running(self._plan.labels, context), self._own()
        if self._plan.containers:
            groups = [self._engine.look(g, context) for g in self._plan.containers]
            yield from self._missing(groups)
            chosen = [each for group in groups for each in group]
            for each in chosen:
                if each.vanishes and not self._plan.pauses:
                    yield (
                        f"{each.name} was started with --rm: once it is stopped it is "
                        "gone, and nobody starts it again"
                    )
        for each in chosen:
            if not _is_one(each, own):
                if each.owner and each.name not in self._plan.keep:
                    yield f"{each.name} belongs to {each.owner}"
            elif self._plan.containers:
                yield f"{each.name} is the agent's own container"


def _is_one(container: Container, own: frozenset[str]) -> bool:
    return any(container.id.startswith(beginning) for beginning in own)


def _ids(containers: Iterable[Container]) -> list[str]:
    return [each.id for each in containers]


def _told(before: Container, now: Container | None) -> str:
    """Return what became of a container that was to stop."""
    how = "killed" if now is not None and now.was_killed else "stopped"
    # It may take the engine a moment to remove it.
    gone = ", which is gone (--rm)" if before.vanishes else ""
    return f"{how} {before.name}{gone}"


def _not_up(container: Container, said: str) -> str:
    if said:
        return f"{container.name or container.id[:SHORT_ID]} was not started: {said}"
    return (
        f"{container.name} was started and has ended again with exit status "
        f"{container.exit_code}"
    )


def _keys_of(program: str) -> Mapping[str, Option]:
    """Return the keys of a handler for this program."""
    return {
        "containers": Option(
            form=Forms.GROUPS,
            text="Which containers, by name or id: one after the other, those of an "
            "inner list side by side; after the event the last ones first. Default: "
            "those of `labels` or `all`.",
        ),
        "labels": Option(
            form=Forms.NAMES,
            text='All containers that run and have all of these labels, `"tier"` or '
            '`"tier=web"`. Default: those of `containers` or `all`.',
        ),
        "all": Option(
            form=Forms.SWITCH, text="Whether it is all that run. Default: `false`."
        ),
        "keep": Option(
            form=Forms.NAMES,
            may_be_empty=True,
            text="Names of containers that are left alone with `labels` and `all`; the "
            "agent's own always is. Default: none.",
        ),
        "action": Option(
            form=Forms.WORD,
            words=("stop", "pause"),
            text="`stop`: end them, and start them after the event. `pause`: freeze "
            "them, for an event that freezes the VM for some seconds and loses "
            "nothing. Default: `stop`.",
        ),
        "grace": Option(
            form=Forms.DURATION,
            most=DAY,
            text="How long each may take to stop before it is killed, in whole seconds, "
            "and less where there is no more time. Default: what the container was "
            "made with, which is 10 s where nobody said otherwise.",
        ),
        "command": Option(
            form=Forms.ACTION,
            text="The program and the words that always come after it, such as "
            f'`["sudo", "-n", "{program}"]`. Default: `{program}`.',
        ),
    }


def _faults(entry: Entry) -> Faults:
    """Yield what must hold between these keys and does not."""
    chosen = [key for key in _CHOICES if entry.get(key)]
    if not chosen:
        yield "", "it names no containers: write containers, labels or all"
    elif len(chosen) > 1:
        yield chosen[1], f"is one choice too many: {chosen[0]} is there"
    if "keep" in entry and "containers" in entry:
        yield "keep", "is for labels and all: leave them out of containers"
    if "grace" in entry and entry.get("action") == "pause":
        yield "grace", "what is paused does not stop"
    for name in (name for group in entry.get("containers", ()) for name in group):
        if not _NAME.fullmatch(name):
            yield "containers", f"{quoted(name)} is no name of a container"


KINDS = {
    word: HandlerKind(
        make=partial(ContainerWorker, flavour), keys=_keys_of(word), faults=_faults
    )
    for word, flavour in FLAVOURS.items()
}
"""The kinds of handler, by the program."""
