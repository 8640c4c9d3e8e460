"""`pacemaker`: makes the cluster move all resources from this node to other nodes.

The handler does so only if another node can host the resources. The preparation ends when
nothing runs on this node and its resources run on other nodes. The recovery undoes only
what the handler has set. The node attribute `forewarn` in the cluster records that, so it
is known even if all data of the VM is lost. The handler uses only Pacemaker's commands
`crm_node`, `crm_mon` and `crm_attribute`.

A crash leaves the attribute without a standby, which is removed without harm, or both,
and the next attempt continues to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.pacemaker.client import (
    FOREVER,
    PROGRAMS,
    REBOOT,
    Attribute,
    Cluster,
    Pacemaker,
    Resource,
    ids_of,
    trouble,
)
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

STANDBY, HEALTH = "standby", "health"
"""Modes; the first is also the name of Pacemaker's attribute."""

REFUSE, STOP = "refuse", "stop"

MARK = "forewarn"
"""The node attribute that records what the handler has set."""

HEALTH_ATTRIBUTE = "#health-forewarn"

YIELD_LOOKS = 4
"""Checks that the second of two conflicting nodes waits before it tries again."""


@frozen_dataclass
class Plan:
    """The keys of the settings."""

    node: str = ""
    """The name of this node in the cluster; empty: as the cluster reports it."""
    mode: str = STANDBY
    lifetime: str = FOREVER
    alone: str = REFUSE
    leave: tuple[str, ...] = ()
    health_attribute: str = HEALTH_ATTRIBUTE


@frozen_dataclass
class _Mark:
    """The content of the node attribute: what was set, and why."""

    held: Attribute
    event: str = "-"
    before: str = ""
    """The value of the set attribute before; empty: it did not exist."""

    @property
    def text(self) -> str:
        held = self.held
        return f"{held.name} {held.lifetime} {self.event} {self.before}".rstrip()

    @staticmethod
    def read(text: str) -> _Mark | None:
        """Parse a mark; a mark that was written by hand counts as a standby."""
        if not text:
            return None
        parts = [*text.split(" "), "", "", ""]
        if parts[1] not in {FOREVER, REBOOT}:
            return _Mark(held=Attribute(name=STANDBY))
        return _Mark(
            held=Attribute(name=parts[0], lifetime=parts[1]),
            event=parts[2],
            before=parts[3],
        )


class PacemakerWorker(Integration):
    """Moves the resources away from one node, and lets it host them again."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is run."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        self._pacemaker = Pacemaker(self._plan.node, ground.environment)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Move all resources away from this node; raises HandlerError."""
        name = self._pacemaker.name(context)
        cluster = self._pacemaker.cluster(context)
        is_standby = cluster.node(name).is_standby
        mark = _Mark.read(self._pacemaker.query(name, MARK, context))
        held = self._held(mark, context)
        before = ""
        if not is_standby and held.name != STANDBY:
            before = self._pacemaker.query(name, held.name, context)
        if mark is None and (is_standby or _is_bad(before)):
            # An operator has set the attribute, so it is not changed.
            self._wait_moved(name, (), context)
            how = "in standby" if is_standby else "unhealthy"
            return Result(detail=f"{name} was already {how}; nothing runs on it")
        mark = _Mark(
            held=held,
            event=_event(job),
            before=before if mark is None else mark.before,
        )
        here, is_alone = self._hold(name, mark, context)
        self._wait_moved(name, () if is_alone else self._needs(), context)
        if not here:
            return Result(detail=f"{name} hosts no resources, and nothing runs on it")
        how = "stopped, since no other node can host them" if is_alone else "moved away"
        return Result(detail=f"{how}: {ids_of(here)}")

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Let this node host resources again; raises HandlerError."""
        name = self._pacemaker.name(context)
        if (mark := _Mark.read(self._pacemaker.query(name, MARK, context))) is None:
            self._memo.keep({})
            return Result(detail=f"{name} was not put into standby by forewarn")
        self._take_back(name, mark, context)
        while not (node := self._pacemaker.cluster(context).node(name)).is_online:
            context.recheck(f"for {name} to be online")
        self._pacemaker.delete(name, Attribute(name=MARK), context)
        self._memo.keep({})
        if node.is_standby:
            return Result(
                detail=f"{name} stays in standby, which this handler did not set"
            )
        return Result(detail=f"{name} hosts resources again")

    def _wrong(self, context: RunContext) -> Iterator[str]:
        origin = "Pacemaker (pacemaker-cli-utils)"
        if missing := self._pacemaker.commands.missing(PROGRAMS, origin):
            yield from missing
            return
        name = self._pacemaker.name(context)
        cluster = self._pacemaker.cluster(context)
        cluster.node(name)
        self._pacemaker.query(name, MARK, context)
        if self._plan.mode == HEALTH:
            self._pacemaker.health_value(context)
        if not self._able(cluster, name, context) and self._plan.alone == REFUSE:
            yield (
                f"no other node than {name} can host resources now, so a preparation "
                "would fail"
            )

    # Moving resources away

    def _hold(
        self, name: str, mark: _Mark, context: RunContext
    ) -> tuple[tuple[Resource, ...], bool]:
        """Keep resources away from this node.

        Returns the resources that ran here, and whether no other node can host them.
        If all nodes released their resources at the same time, all resources would
        stop. Each node therefore checks again after its change, which the others can
        then see. If no node is left to host resources, it undoes its change. The first
        node by name tries again first.
        """
        while True:
            cluster = self._pacemaker.cluster(context)
            here = cluster.on(name, self._plan.leave)
            is_alone = bool(here) and not self._able(cluster, name, context)
            # If nothing has to move, problems of the cluster do not matter.
            why = trouble(cluster) if here else ""
            if not why and is_alone and self._plan.alone == REFUSE:
                why = f"no other node can host the resources: {ids_of(here)}"
            looks = 1
            if not why:
                # Record what must run elsewhere, for the next attempt.
                needs = self._needs() | {
                    need for resource in here if (need := resource.need)
                }
                self._memo.keep({"needs": sorted(needs)})
                attribute = Attribute(name=MARK, value=mark.text)
                self._pacemaker.update(name, attribute, context)
                self._pacemaker.update(name, mark.held, context)
                rivals = self._rivals(name, context) if here and not is_alone else ()
                if not rivals:
                    return here, is_alone
                self._take_back(name, mark, context)
                self._pacemaker.delete(name, Attribute(name=MARK), context)
                why = f"{', '.join(rivals)} released its resources at the same time"
                looks = 1 if name < min(rivals) else YIELD_LOOKS
            context.recheck(f"for the end of this problem: {why}", looks=looks)

    def _able(
        self, cluster: Cluster, name: str, context: RunContext
    ) -> tuple[str, ...]:
        """Return the other nodes that can host resources, by their state and health."""
        others = cluster.others(name)
        if self._plan.mode == STANDBY:
            return others
        attribute = self._plan.health_attribute
        return tuple(
            node
            for node in others
            if not _is_bad(self._pacemaker.query(node, attribute, context))
        )

    def _rivals(self, name: str, context: RunContext) -> tuple[str, ...]:
        """Return the other nodes with a mark of forewarn, if no node can host resources."""
        cluster = self._pacemaker.cluster(context)
        if self._able(cluster, name, context):
            return ()
        others = (node.name for node in cluster.nodes if node.name != name)
        return tuple(
            node for node in others if self._pacemaker.query(node, MARK, context)
        )

    def _wait_moved(
        self, name: str, needs: Collection[tuple[str, bool]], context: RunContext
    ) -> None:
        """Wait until nothing runs here and the needed resources run elsewhere."""
        while True:
            cluster = self._pacemaker.cluster(context)
            here = cluster.on(name, self._plan.leave)
            lacking = cluster.lacks(needs, name)
            if not here and not lacking:
                return
            if here and all(resource.will_stay for resource in here):
                stays = ", ".join(
                    f"{resource.id} ({resource.will_stay})" for resource in here
                )
                raise HandlerError(f"the cluster does not move all resources: {stays}")
            if here:
                context.recheck(f"for {ids_of(here)} to leave {name}")
            else:
                context.recheck(f"for {', '.join(lacking)} to run on another node")

    def _take_back(self, name: str, mark: _Mark, context: RunContext) -> None:
        if mark.before:
            # A rule may depend on the attribute.
            self._pacemaker.update(name, replace(mark.held, value=mark.before), context)
        else:
            self._pacemaker.delete(name, mark.held, context)

    def _needs(self) -> set[tuple[str, bool]]:
        """Return what must run elsewhere because this or an earlier attempt moved it."""
        return {
            (str(id_), bool(promoted))
            for id_, promoted in self._memo.read().get("needs", [])
            if id_ not in self._plan.leave
        }

    def _held(self, mark: _Mark | None, context: RunContext) -> Attribute:
        """Return the attribute to set; raises HandlerError if it would have no effect.

        An existing mark has priority over settings that have changed since.
        """
        plan = self._plan
        name = STANDBY if plan.mode == STANDBY else plan.health_attribute
        held = mark.held if mark else Attribute(name=name, lifetime=plan.lifetime)
        is_standby = held.name == STANDBY
        value = "on" if is_standby else self._pacemaker.health_value(context)
        return replace(held, value=value)


def _event(job: Job) -> str:
    """Return the ID of the event for a mark, without spaces."""
    return "-" if job.notice is None else "".join(job.notice.event_id.split())[:100]


def _is_bad(health: str) -> bool:
    return health == "red" or health.startswith("-")


def _faults(entry: Entry) -> Faults:
    if "health_attribute" in entry:
        if entry.get("mode", STANDBY) != HEALTH:
            yield "health_attribute", f'requires mode = "{HEALTH}"'
        elif not entry["health_attribute"].startswith("#health"):
            yield "health_attribute", "must start with #health, as Pacemaker requires"


KIND = HandlerKind(
    make=PacemakerWorker,
    keys={
        "node": Option(
            form=Forms.NAME,
            text="The name of this node in the cluster. Default: the output of "
            "`crm_node --name`.",
        ),
        "mode": Option(
            form=Forms.WORD,
            words=(STANDBY, HEALTH),
            text="How resources are moved away. `standby`: put the node into standby. "
            "`health`: set a health attribute, which requires a "
            "`node-health-strategy` in the cluster. Default: `standby`.",
        ),
        "lifetime": Option(
            form=Forms.WORD,
            words=(FOREVER, REBOOT),
            text="How long this lasts. `forever`: until recovery. `reboot`: until "
            "recovery, or until Pacemaker restarts on this node, so resources may "
            "return before the event is over. Default: `forever`.",
        ),
        "alone": Option(
            form=Forms.WORD,
            words=(REFUSE, STOP),
            text="What to do if no other node can host the resources. `refuse`: wait, "
            "and fail at the deadline. `stop`: let the cluster stop them. Default: "
            "`refuse`.",
        ),
        "leave": Option(
            form=Forms.NAMES,
            may_be_empty=True,
            text="IDs of resources that may stay. Default: none.",
        ),
        "health_attribute": Option(
            form=Forms.TEXT,
            text="The attribute that `health` sets. Default: `#health-forewarn`.",
        ),
    },
    faults=_faults,
    marks_there=True,
)
