"""`patroni`: hands PostgreSQL's lead over before an event, where this VM has it.

Patroni's REST API is asked who leads; only where this member does, and another is fit
to, is a switchover ordered and waited for. The maintenance mode is never touched: a
cluster that is paused is somebody's work, and is left alone. After the event the lead
comes back if the settings say so and it was handed over by us. Who is fit is for
`cluster`.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.integrations.api import Api, ApiError, Ask, Shape
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kind import HandlerKind
from forewarn.agent.integrations.patroni.cluster import (
    LAG_MAX,
    UP,
    Cluster,
    Demands,
    Status,
    choose,
    contradiction,
    demands,
    hindrance,
    read_cluster,
    read_status,
)
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros, format_duration
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

URL = "http://127.0.0.1:8008"
"""Where Patroni is, if the settings do not say: its own default, in this VM."""

CANDIDATE_WAIT: Micros = MINUTE
"""For somebody who can take over, if the settings do not say: a replica that lags
catches up in seconds, and one that is broken is for people, who should hear of it."""

POLL_SECONDS = 1.0
"""Between two looks at the cluster: it changes by Patroni's loops, ten seconds each."""

AGAIN_SECONDS = 5.0
"""Before a switchover that was refused is asked for again."""

ORDER_SECONDS = 120.0
"""For the answer to a switchover: Patroni gives it twice ten seconds, or two loops."""

LAG_BOUND = 1 << 40
"""Of what the settings may say, in bytes: no log is longer."""

FAIL, LEAVE = "fail", "leave"
"""What becomes of the handler where the cluster is paused."""

PLAN_HORIZON: Micros = HOUR
"""After the deadline: a switchover to this VM that is planned so soon meets the event."""

_MAY_PASS = frozenset({412, 503})
"""Refusals of a switchover that end when the cluster has changed."""

_DENIED = frozenset({401, 403})

_NO_CONFIG = frozenset({404, 502})
"""What versions of Patroni answer where the cluster has none."""


@frozen_dataclass
class PatroniOptions:
    """The settings of one handler."""

    url: str = URL
    member: str = ""
    """This VM's member; empty: what Patroni calls itself."""
    candidates: tuple[str, ...] = ()
    candidate_wait: Micros = CANDIDATE_WAIT
    lag_max: int | None = None
    """Bytes; None: what the cluster allows."""
    replace_scheduled: bool = False
    paused: str = FAIL
    """What becomes of it where this member leads a cluster that is paused."""
    switch_back: bool = False
    secret_file: str = ""
    ca_file: str = ""


class _NotYetError(HandlerError):
    """Patroni could not be asked for something, and may be in a moment."""


@frozen_dataclass
class _Step:
    """How it stands after one look at the cluster."""

    why: str = ""
    """What is waited for."""
    is_owed: bool = False
    """Whether a switchover is under way, whose end must be seen."""
    pause: float = field(default_factory=lambda: POLL_SECONDS)
    result: Result | None = None
    """None: it goes on."""

    def told(self, doing: str) -> str:
        """Return what was done, and what is waited for if there was a look."""
        return f"{doing}: {self.why}" if self.why else doing


class PatroniWorker(Integration):
    """Switches over in one cluster."""

    check_seconds = 4.0

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Ask nobody yet."""
        super().__init__(settings, ground)
        self._options = options = PatroniOptions(**settings.more)
        self._api = Api(
            options.url,
            clock=ground.clock,
            headers=self._headers,
            ca_file=options.ca_file,
        )

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Have another member lead, where this one does; raises HandlerError."""
        status = self._status(context)
        memo = self._memo.read()
        is_owed = memo.get("leader") == self._me(status) and not memo.get("is_settled")
        left = context.timer(self._options.candidate_wait / SECOND)
        step = _Step(is_owed=is_owed)
        while step.result is None:
            with context.doing(step.told("switching over")):
                step = self._before(status, job, context, is_owed=step.is_owed)
            if step.result is None:
                if not step.is_owed and left() <= 0:
                    raise HandlerError(step.why)
                context.pause(step.pause, step.told("switching over"))
        return step.result

    def recover(self, job: Job, context: RunContext) -> Result:
        """Take the lead back, if it is wished and was handed over by us.

        Raises HandlerError; then it is tried again later.
        """
        del job
        memo = self._memo.read()
        if not memo:
            return Result(detail="it had not switched over")
        me, successor = str(memo.get("leader")), str(memo.get("to"))
        if not self._options.switch_back:
            self._memo.keep({})
            return Result(detail=f"{successor} stays the leader")
        step = _Step()
        while step.result is None:
            with context.doing(step.told("switching back")):
                step = self._after(me, successor, context)
            if step.result is None:
                context.pause(step.pause, step.told("switching back"))
        self._memo.keep({})
        return step.result

    def _wrong(self, context: RunContext) -> Iterator[str]:
        status = self._status(context)
        me = self._me(status)
        cluster = self._cluster(context)
        if not self._is_left(cluster):
            self._raise_if_paused(cluster, status)
        if cluster.find(me) is None:
            yield f"the cluster {status.scope} has no member {me}"
        elif cluster.leader is not None and cluster.leader.name == me:
            asked = self._demands(status, context)
            name, why = choose(cluster, asked, self._options.candidates)
            if not name:
                yield f"nobody could take over: {why}"
        yield from self._denied(context)

    # Before the event

    def _before(
        self, status: Status, job: Job, context: RunContext, *, is_owed: bool
    ) -> _Step:
        """Look once, and do what is next; raises HandlerError where nothing helps."""
        me = self._me(status)
        cluster = self._cluster(context)
        leader = cluster.leader
        if leader is None:
            return _Step(why="the cluster has no leader", is_owed=is_owed)
        if leader.name != me:
            # What this node says of itself must be as new as what the cluster says.
            why = contradiction(cluster, me, self._status(context))
            if is_owed and not why:
                why = _unsettled(cluster, me)
            if why:
                return _Step(why=why, is_owed=is_owed)
            return _Step(result=self._handed_over(cluster, me, job))
        if self._is_left(cluster) and not is_owed:
            return _Step(result=_left(me, status))
        self._raise_if_paused(cluster, status)
        if self._is_due(cluster, me, job):
            assert cluster.plan is not None
            return _Step(why=f"a switchover is due at {cluster.plan.at}", is_owed=True)
        try:
            return self._hand_over(cluster, status, job, context)
        except _NotYetError as error:
            return _Step(why=error.message)

    def _hand_over(
        self, cluster: Cluster, status: Status, job: Job, context: RunContext
    ) -> _Step:
        """Order a switchover; raises HandlerError where nothing helps."""
        me = self._me(status)
        self._raise_if_planned(cluster)
        asked = self._demands(status, context)
        if job.notice is not None:
            asked = replace(asked, avoided=frozenset(job.notice.resources))
        name, why = choose(cluster, asked, self._options.candidates)
        if not name:
            return _Step(why=f"nobody can take over: {why}")
        self._memo.keep({"leader": me, "to": name})
        return self._order(me, name, context)

    def _handed_over(self, cluster: Cluster, me: str, job: Job) -> Result:
        """Return what is said when another leads."""
        leader, plan = cluster.leader, cluster.plan
        assert leader is not None
        if (
            plan is not None
            and plan.target == me
            and plan.instant is not None
            and plan.instant <= job.stop_at + PLAN_HORIZON
        ):
            raise HandlerError(
                f"a switchover to this member is scheduled for {plan.at}, when the "
                "event may be under way"
            )
        memo = self._memo.read()
        if memo.get("leader") != me:
            return Result(detail=f"nothing to do: {leader.name} leads, not {me}")
        if not memo.get("is_settled"):
            self._memo.keep({"leader": me, "to": leader.name, "is_settled": True})
        standby = ", in a standby cluster" if leader.role == "standby_leader" else ""
        return Result(detail=f"{leader.name} leads in the place of {me}{standby}")

    def _is_due(self, cluster: Cluster, me: str, job: Job) -> bool:
        """Tell whether somebody's plan will do the work in time."""
        plan = cluster.plan
        return (
            plan is not None
            and plan.instant is not None
            and self._clock.now() <= plan.instant <= job.stop_at
            and plan.source in {me, ""}
            and plan.target != me
        )

    # After the event

    def _after(self, me: str, successor: str, context: RunContext) -> _Step:
        """Look once, and do what is next; raises HandlerError where nothing helps."""
        cluster = self._cluster(context)
        leader = cluster.leader
        if leader is None:
            return _Step(why="the cluster has no leader")
        if leader.name == me:
            if leader.is_promoted:
                return _Step(result=Result(detail=f"{me} is the leader again"))
            return _Step(why=f"{me} is being promoted")
        if leader.name != successor:
            detail = (
                f"left as it is: {leader.name} leads, to whom it was not handed over"
            )
            return _Step(result=Result(detail=detail))
        try:
            return self._take_back(cluster, me, context)
        except _NotYetError as error:
            return _Step(why=error.message)

    def _take_back(self, cluster: Cluster, me: str, context: RunContext) -> _Step:
        """Order a switchover to this member, once it is fit; raises HandlerError."""
        status = self._status(context)
        mine, leader = cluster.find(me), cluster.leader
        assert leader is not None
        if self._is_left(cluster):
            return _Step(result=_left(leader.name, status))
        self._raise_if_paused(cluster, status)
        self._raise_if_planned(cluster)
        if mine is None:
            return _Step(why=f"the cluster has no member {me}")
        streaming = {me} if status.is_streaming else ()
        asked = replace(self._demands(status, context), streaming=streaming)
        why = hindrance(mine, cluster, asked)
        if why:
            return _Step(why=f"{me} is not fit to lead: {why}")
        return self._order(leader.name, me, context)

    # Asking Patroni

    def _order(self, leader: str, candidate: str, context: RunContext) -> _Step:
        """Ask for a switchover; raises HandlerError where it is no use to ask again."""
        ask = Ask(
            method="POST",
            path="/switchover",
            json={"leader": leader, "candidate": candidate},
            again=False,
            seconds=ORDER_SECONDS,
            # A sentence for people: what came of it is seen in the cluster.
            shape=Shape.ANY,
        )
        try:
            self._api.ask(ask, context)
        except ApiError as error:
            if error.status not in _MAY_PASS:
                raise
            why = f"a switchover to {candidate}: {error.message}"
            return _Step(why=why, pause=AGAIN_SECONDS)
        except HandlerError as error:
            # It may have been taken all the same: the cluster will tell.
            why = f"a switchover to {candidate}: {error.message}"
            return _Step(why=why, is_owed=True, pause=AGAIN_SECONDS)
        return _Step(why="the lead has not changed", is_owed=True)

    def _status(self, context: RunContext) -> Status:
        return read_status(self._api.get("/patroni", context))

    def _cluster(self, context: RunContext) -> Cluster:
        return read_cluster(self._api.get("/cluster", context))

    def _demands(self, status: Status, context: RunContext) -> Demands:
        config: object = None
        ask = Ask(method="GET", path="/config", again=False)
        try:
            config = self._api.ask(ask, context)
        except HandlerError as error:
            # Where nobody has written one, its defaults hold.
            if not isinstance(error, ApiError) or error.status not in _NO_CONFIG:
                raise _NotYetError(error.message) from error
        found = demands(config, self._options.lag_max)
        return replace(found, streaming=status.streams_to)

    def _me(self, status: Status) -> str:
        name = self._options.member or status.name
        if not name:
            raise HandlerError(
                "this Patroni does not tell its member's name: write `member`"
            )
        return name

    def _denied(self, context: RunContext) -> list[str]:
        """Return why orders are not taken from us; nothing is ordered.

        Patroni looks at who asks before it looks at what is asked: an empty order is
        refused with 400, and does nothing.
        """
        ask = Ask(
            method="POST", path="/switchover", json={}, again=False, shape=Shape.ANY
        )
        try:
            self._api.ask(ask, context)
        except ApiError as error:
            if error.status in _DENIED:
                how = (
                    "is not what it takes" if self._options.secret_file else "is needed"
                )
                return [f"{error.message}; a `secret_file` {how}"]
        return []

    def _headers(self) -> Sequence[tuple[str, str]]:
        if not self._options.secret_file:
            return ()
        secret = read_secret(self._options.secret_file, parts=_password)
        if ":" not in secret:
            raise HandlerError(
                f"the secret {self._options.secret_file} must be USER:PASSWORD"
            )
        coded = binascii.b2a_base64(secret.encode(), newline=False).decode()
        return (("Authorization", f"Basic {coded}"),)

    def _is_left(self, cluster: Cluster) -> bool:
        """Tell whether the cluster is paused, and the handler is content with that."""
        return cluster.is_paused and self._options.paused == LEAVE

    def _raise_if_paused(self, cluster: Cluster, status: Status) -> None:
        if cluster.is_paused:
            raise HandlerError(
                f"the cluster {status.scope} is paused, and is left to who paused it: "
                "patronictl resume"
            )

    def _raise_if_planned(self, cluster: Cluster) -> None:
        plan = cluster.plan
        if plan is not None and not self._options.replace_scheduled:
            target = f" to {plan.target}" if plan.target else ""
            raise HandlerError(
                f"a switchover{target} is scheduled for {plan.at}, which another one "
                "would undo"
            )


def _password(secret: str) -> Sequence[str]:
    """Return what is secret of USER:PASSWORD; where it is none, nobody knows what is."""
    user, colon, password = secret.partition(":")
    return (password,) if colon else (user,)


def _left(leader: str, status: Status) -> Result:
    """Return what is said where a paused cluster is left as it is."""
    detail = f"left as it is: the cluster {status.scope} is paused, and {leader} leads"
    return Result(detail=detail)


def _unsettled(cluster: Cluster, me: str) -> str:
    """Return what is missing of a switchover away from this member; empty: nothing."""
    leader, mine = cluster.leader, cluster.find(me)
    assert leader is not None
    if mine is None or mine.state not in UP:
        state = "no member" if mine is None else mine.state or "in no state"
        return f"{leader.name} leads, and {me} is {state}"
    return ""


KIND = HandlerKind(
    make=PatroniWorker,
    keys={
        "url": Option(
            form=Forms.WEB,
            text=f"Where the REST API of this VM's Patroni is. Default: `{URL}`.",
        ),
        "member": Option(
            form=Forms.TEXT,
            text="This VM's member. Default: what Patroni says it is, which old ones do "
            "not.",
        ),
        "candidates": Option(
            form=Forms.NAMES,
            text="The only members that may take over, the best first. Default: all, "
            "synchronous standbys first, then by `failover_priority`, then who is least "
            "behind.",
        ),
        "candidate_wait": Option(
            form=Forms.DURATION,
            most=DAY,
            text="How long to wait for a member that can take over, before that is a "
            f"failure. Default: `{format_duration(CANDIDATE_WAIT)}`.",
        ),
        "lag_max": Option(
            form=Forms.COUNT,
            most=LAG_BOUND,
            text="How many bytes a candidate may be behind. Default: the cluster's "
            f"`maximum_lag_on_failover`, which is {LAG_MAX} if nobody says.",
        ),
        "replace_scheduled": Option(
            form=Forms.SWITCH,
            text="Whether a switchover that somebody has scheduled may be lost, as it "
            "is when another one is ordered. Default: `false`, and such a plan fails "
            "the handler unless it comes in time.",
        ),
        "paused": Option(
            form=Forms.WORD,
            words=(FAIL, LEAVE),
            text="What becomes of the handler where this member leads a cluster that is "
            "paused, in which nothing is switched over: `fail` withholds the approval; "
            "`leave` is content with it, and the leader goes with the event. Default: "
            "`fail`.",
        ),
        "switch_back": Option(
            form=Forms.SWITCH,
            text="Whether this member leads again after the event, if it did before. "
            "Default: `false`.",
        ),
        "secret_file": Option(
            form=Forms.TEXT,
            text="A file with `USER:PASSWORD` of the REST API on its first line. "
            "Default: none is sent.",
        ),
        "ca_file": CA_FILE,
    },
)
