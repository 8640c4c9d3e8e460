"""`pacemaker`: has the cluster move everything away from this node, and lets it back.

It promises to do so only where another node would take the resources, to be done when
nothing runs here any more and what ran here runs elsewhere, and to take back only what
it set: an attribute of the node in the cluster's own memory, `forewarn`, says what that
was, so it is known also when everything in this VM is lost. It knows Pacemaker by its
commands: `crm_node`, `crm_mon` and `crm_attribute`.

A crash leaves: the attribute without a standby, which is taken back without harm; or
both, and the next attempt waits on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.pacemaker.commands import (
    FOREVER,
    PROGRAMS,
    REBOOT,
    Attribute,
    Pacemaker,
)
from forewarn.agent.integrations.pacemaker.status import (
    Cluster,
    Resource,
    listed,
    trouble,
)
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

STANDBY, HEALTH = "standby", "health"
"""Modes; the first is also the name of Pacemaker's own attribute."""

REFUSE, STOP = "refuse", "stop"

MARK = "forewarn"
"""The attribute of a node that says what was set there, and by whom."""

HEALTH_ATTRIBUTE = "#health-forewarn"

YIELD_LOOKS = 4
"""Looks that the later of two nodes waits which gave way to each other."""


@frozen_dataclass
class Plan:
    """The settings of one such handler."""

    node: str = ""
    """This node's name in the cluster; empty: the cluster tells."""
    mode: str = STANDBY
    lifetime: str = FOREVER
    alone: str = REFUSE
    leave: tuple[str, ...] = ()
    health_attribute: str = HEALTH_ATTRIBUTE


@frozen_dataclass
class _Mark:
    """What the attribute of that name says: what was set, and why."""

    held: Attribute
    event: str = "-"
    before: str = ""
    """The value that the attribute had; empty: it was not there."""

    @property
    def text(self) -> str:
        held = self.held
        return f"{held.name} {held.lifetime} {self.event} {self.before}".rstrip()

    @staticmethod
    def read(text: str) -> _Mark | None:
        """Return what a mark says; one that somebody wrote by hand: a standby."""
        if not text:
            return None
        words = [*text.split(" "), "", "", ""]
        if words[1] not in {FOREVER, REBOOT}:
            return _Mark(held=Attribute(name=STANDBY))
        held = Attribute(name=words[0], lifetime=words[1])
        return _Mark(held=held, event=words[2], before=words[3])


class PacemakerWorker(Integration):
    """Sends the resources of one node away, and lets them back."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Ask nobody yet."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        self._pacemaker = Pacemaker(self._plan.node, ground.environment)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Send everything away from this node; raises HandlerError."""
        name = self._pacemaker.name(context)
        cluster = self._pacemaker.cluster(context)
        is_standby = cluster.node(name).is_standby
        mark = _Mark.read(self._pacemaker.query(name, MARK, context))
        held = self._held(mark, context)
        before = "" if is_standby else self._before(name, held, context)
        if mark is None and (is_standby or _is_bad(before)):
            # An operator's, and it stays so.
            self._wait_moved(name, (), context)
            how = "in standby" if is_standby else "ill"
            return Result(detail=f"{name} was {how} already; nothing runs here")
        mark = _Mark(
            held=held,
            event=_event(job),
            before=before if mark is None else mark.before,
        )
        here, is_alone = self._hold(name, mark, context)
        self._wait_moved(name, () if is_alone else self._needs(), context)
        if not here:
            return Result(detail=f"{name} takes no resources, and nothing runs here")
        how = "stopped here and taken by nobody" if is_alone else "moved away"
        return Result(detail=f"{how}: {listed(here)}")

    def recover(self, job: Job, context: RunContext) -> Result:
        """Let resources back, if they were sent away here; raises HandlerError."""
        del job
        name = self._pacemaker.name(context)
        mark = _Mark.read(self._pacemaker.query(name, MARK, context))
        if mark is None:
            self._memo.keep({})
            return Result(detail=f"{name} was not put into standby by forewarn")
        self._take_back(name, mark, context)
        while not (node := self._pacemaker.cluster(context).node(name)).is_online:
            context.recheck(f"for {name} to be online")
        self._pacemaker.delete(name, Attribute(name=MARK), context)
        self._memo.keep({})
        if node.is_standby:
            return Result(detail=f"{name} stays in standby, which somebody else set")
        return Result(detail=f"{name} takes resources again")

    def _wrong(self, context: RunContext) -> Iterator[str]:
        missing = self._pacemaker.commands.missing(
            PROGRAMS, "Pacemaker (pacemaker-cli-utils)"
        )
        if missing:
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
                f"no node but {name} could take resources now: a preparation would be "
                "refused"
            )

    # Sending away

    def _hold(
        self, name: str, mark: _Mark, context: RunContext
    ) -> tuple[tuple[Resource, ...], bool]:
        """Keep resources off this node; return what was there, and if nobody takes it.

        Two nodes that do this at the same moment would stop everything. So each looks
        once more when it has done so, after the other can see it, and gives way if
        there is nobody left; the first of them by name tries again first.
        """
        while True:
            cluster = self._pacemaker.cluster(context)
            here = cluster.on(name, self._plan.leave)
            is_alone = bool(here) and not self._able(cluster, name, context)
            # Where nothing would have to move, nothing is in the way.
            why = trouble(cluster) if here else ""
            if not why and is_alone and self._plan.alone == REFUSE:
                why = f"no other node would take the resources: {listed(here)}"
            looks = 1
            if not why:
                self._remember(here)
                told = Attribute(name=MARK, value=mark.text)
                self._pacemaker.update(name, told, context)
                self._pacemaker.update(name, mark.held, context)
                rivals = self._rivals(name, context) if here and not is_alone else ()
                if not rivals:
                    return here, is_alone
                self._take_back(name, mark, context)
                self._pacemaker.delete(name, Attribute(name=MARK), context)
                why = f"{', '.join(rivals)} gave up its resources at the same moment"
                looks = 1 if name < min(rivals) else YIELD_LOOKS
            context.recheck(f"for this to pass: {why}", looks=looks)

    def _able(
        self, cluster: Cluster, name: str, context: RunContext
    ) -> tuple[str, ...]:
        """Return the other nodes that could take resources, by their health too."""
        others = cluster.others(name)
        if self._plan.mode == STANDBY:
            return others
        attribute = self._plan.health_attribute
        return tuple(
            each
            for each in others
            if not _is_bad(self._pacemaker.query(each, attribute, context))
        )

    def _rivals(self, name: str, context: RunContext) -> tuple[str, ...]:
        """Return the nodes that forewarn keeps off too, where none is left."""
        cluster = self._pacemaker.cluster(context)
        if self._able(cluster, name, context):
            return ()
        others = (each.name for each in cluster.nodes if each.name != name)
        return tuple(
            each for each in others if self._pacemaker.query(each, MARK, context)
        )

    def _wait_moved(
        self, name: str, needs: Collection[tuple[str, bool]], context: RunContext
    ) -> None:
        """Return when nothing runs here, and what is needed elsewhere; or raise."""
        while True:
            cluster = self._pacemaker.cluster(context)
            here = cluster.on(name, self._plan.leave)
            lacking = cluster.lacks(needs, name)
            if not here and not lacking:
                return
            if here and all(each.will_stay for each in here):
                stays = ", ".join(f"{each.id} ({each.will_stay})" for each in here)
                raise HandlerError(f"the cluster does not move everything: {stays}")
            if here:
                context.recheck(f"for {listed(here)} to leave {name}")
            else:
                context.recheck(f"for {', '.join(lacking)} to run on another node")

    def _take_back(self, name: str, mark: _Mark, context: RunContext) -> None:
        if mark.before:
            # A rule may need the attribute to be there.
            self._pacemaker.update(name, replace(mark.held, value=mark.before), context)
        else:
            self._pacemaker.delete(name, mark.held, context)

    def _before(self, name: str, held: Attribute, context: RunContext) -> str:
        """Return the value of the attribute that will be set; a standby has none."""
        return (
            ""
            if held.name == STANDBY
            else self._pacemaker.query(name, held.name, context)
        )

    def _remember(self, here: Collection[Resource]) -> None:
        """Keep in mind what must run elsewhere, for the attempt after this one."""
        needs = self._needs() | {need for each in here if (need := each.need)}
        self._memo.keep({"needs": sorted(needs)})

    def _needs(self) -> set[tuple[str, bool]]:
        """Return what must run elsewhere, since this or an earlier attempt moved it."""
        return {
            (str(id_), bool(promoted))
            for id_, promoted in self._memo.read().get("needs", [])
            if id_ not in self._plan.leave
        }

    def _held(self, mark: _Mark | None, context: RunContext) -> Attribute:
        """Return what is to be set; raises HandlerError where that has no effect.

        What was begun in one way goes on in that way, though the settings have changed.
        """
        plan = self._plan
        held = Attribute(
            name=STANDBY if plan.mode == STANDBY else plan.health_attribute,
            lifetime=plan.lifetime,
        )
        held = held if mark is None else mark.held
        if held.name == STANDBY:
            return replace(held, value="on")
        return replace(held, value=self._pacemaker.health_value(context))


def _event(job: Job) -> str:
    """Return the event's id as a word of a mark."""
    return "-" if job.notice is None else "".join(job.notice.event_id.split())[:100]


def _is_bad(health: str) -> bool:
    return health == "red" or health.startswith("-")


def _faults(entry: Entry) -> Faults:
    if "health_attribute" in entry:
        if entry.get("mode", STANDBY) != HEALTH:
            yield "health_attribute", f'means something only with mode = "{HEALTH}"'
        elif not entry["health_attribute"].startswith("#health"):
            yield "health_attribute", "must begin with #health, as Pacemaker wants it"


_KEYS: Mapping[str, Option] = {
    "node": Option(
        form=Forms.NAME,
        text="This node's name in the cluster. Default: as `crm_node --name` says.",
    ),
    "mode": Option(
        form=Forms.WORD,
        words=(STANDBY, HEALTH),
        text="How resources are sent away. `standby`: the node is put into standby. "
        "`health`: an attribute says that it is ill, which needs the cluster's "
        "`node-health-strategy`. Default: `standby`.",
    ),
    "lifetime": Option(
        form=Forms.WORD,
        words=(FOREVER, REBOOT),
        text="How long that lasts if nobody takes it back. `forever`: until recovery. "
        "`reboot`: until Pacemaker is started again on this node, so that resources "
        "may come back before the event is over. Default: `forever`.",
    ),
    "alone": Option(
        form=Forms.WORD,
        words=(REFUSE, STOP),
        text="What to do where nobody would take the resources. `refuse`: nothing, and "
        "the preparation fails if that does not pass in its time. `stop`: they are "
        "stopped. Default: `refuse`.",
    ),
    "leave": Option(
        form=Forms.NAMES,
        may_be_empty=True,
        text="Resources that may stay, by their ids. Default: none.",
    ),
    "health_attribute": Option(
        form=Forms.TEXT,
        text="The attribute that `health` sets. Default: `#health-forewarn`.",
    ),
}

KIND = HandlerKind(make=PacemakerWorker, keys=_KEYS, faults=_faults, marks_there=True)
