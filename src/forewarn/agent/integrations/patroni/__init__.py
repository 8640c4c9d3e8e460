"""`patroni`: switches over to another member before an event, if this one leads.

The handler asks Patroni's REST API for the leader. If this member leads and another one
can take over, it requests a switchover and waits for it. It never changes the maintenance
mode: a paused cluster belongs to an operator and is not changed. After the event it
switches back if the settings say so and it has switched over before. `cluster` decides
which members can take over.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
    Member,
    Plan,
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
"""Patroni's default address in this VM."""

CANDIDATE_WAIT: Micros = MINUTE
"""Default wait for a member that can take over. A replica that lags catches up in
seconds; a broken one needs people, who should be informed."""

POLL_SECONDS = 1.0
"""Seconds between two checks of the cluster; Patroni's loop takes ten seconds."""

AGAIN_SECONDS = 5.0
"""Seconds before a refused switchover is requested again."""

ORDER_SECONDS = 120.0
"""Maximum seconds for the response to a switchover; Patroni needs up to two loops."""

LAG_BOUND = 1 << 40
"""Maximum of `lag_max`, in bytes: no WAL is longer."""

FAIL, LEAVE = "fail", "leave"
"""Results of the handler if the cluster is paused."""

PLAN_HORIZON: Micros = HOUR
"""A switchover to this VM scheduled within this time after the deadline is refused."""

_MAY_PASS = frozenset({412, 503})
"""Statuses of temporary refusals of a switchover."""

_DENIED = frozenset({401, 403})

_NO_CONFIG = frozenset({404, 502})
"""Statuses of a cluster without a configuration, depending on the version."""


@frozen_dataclass
class PatroniOptions:
    """The keys of the settings."""

    url: str = URL
    member: str = ""
    """The name of this VM's member; empty: Patroni's own name."""
    candidates: tuple[str, ...] = ()
    candidate_wait: Micros = CANDIDATE_WAIT
    lag_max: int | None = None
    """Bytes; None: the limit of the cluster."""
    replace_scheduled: bool = False
    paused: str = FAIL
    """The result if this member leads a paused cluster."""
    switch_back: bool = False
    secret_file: str = ""
    ca_file: str = ""


class _NotYetError(HandlerError):
    """The handler must wait for something: a later check of the cluster can succeed."""

    def __init__(self, why: str, *, is_pending: bool = False, pause: float = 0) -> None:
        """Store the reason, and the seconds before the next check; 0: the usual ones.

        `is_pending`: a switchover was requested, and its end must be awaited.
        """
        super().__init__(why)
        self.is_pending = is_pending
        self.pause = pause


class PatroniWorker(Integration):
    """Switches over to another member, and back."""

    check_seconds = 4.0

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        self._options = options = PatroniOptions(**settings.more)
        self._api = Api(
            options.url,
            clock=ground.clock,
            headers=self._headers,
            ca_file=options.ca_file,
        )

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Switch over to another member if this one leads; raises HandlerError."""
        status = self._status(context)
        memo = self._memo.read()
        is_led = memo.get("leader") == self._me(status)
        return self._until_done(
            "switching over",
            lambda is_pending: self._before(
                status, job, context, is_pending=is_pending
            ),
            context,
            is_pending=is_led and not memo.get("is_settled"),
            patience=self._options.candidate_wait / SECOND,
        )

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Switch back, if the settings require it and the handler has switched over.

        Raises HandlerError; then it is retried later.
        """
        if not (memo := self._memo.read()):
            return Result(detail="this handler had not switched over")
        me, successor = str(memo.get("leader")), str(memo.get("to"))
        if not self._options.switch_back:
            self._memo.keep({})
            return Result(detail=f"{successor} stays the leader")
        result = self._until_done(
            "switching back", lambda _: self._after(me, successor, context), context
        )
        self._memo.keep({})
        return result

    def _until_done(
        self,
        doing: str,
        once: Callable[[bool], Result],
        context: RunContext,
        *,
        is_pending: bool = False,
        patience: float = math.inf,
    ) -> Result:
        """Check the cluster until a check has a result; raises HandlerError.

        `once` is called with whether a switchover is pending. If there is none, the
        handler fails after `patience` seconds.
        """
        left = context.timer(patience)
        activity = doing
        while True:
            with context.doing(activity):
                try:
                    return once(is_pending)
                except _NotYetError as error:
                    last = error
            is_pending, activity = last.is_pending, f"{doing}: {last.message}"
            if not is_pending and left() <= 0:
                raise HandlerError(last.message)
            context.pause(last.pause or POLL_SECONDS, activity)

    def _wrong(self, context: RunContext) -> Iterator[str]:
        status = self._status(context)
        me = self._me(status)
        cluster = self._cluster(context)
        if not self._is_left(cluster):
            self._raise_if_paused(cluster, status)
        if cluster.find(me) is None:
            yield f"the cluster {status.scope} has no member {me}"
        elif cluster.leader is not None and cluster.leader.name == me:
            demands_now = self._demands(status, context)
            name, why = choose(cluster, demands_now, self._options.candidates)
            if not name:
                yield f"no member could take over: {why}"
        yield from self._denied(context)

    # Before the event

    def _before(
        self, status: Status, job: Job, context: RunContext, *, is_pending: bool
    ) -> Result:
        """Check once, and request a switchover if needed; raises HandlerError."""
        me = self._me(status)
        cluster = self._cluster(context)
        leader, plan = cluster.leader, cluster.plan
        if leader is None:
            raise _NotYetError("the cluster has no leader", is_pending=is_pending)
        if leader.name != me:
            # The status of this node must be as recent as that of the cluster.
            why = contradiction(cluster, me, self._status(context))
            if is_pending and not why:
                why = _unsettled(cluster, leader, me)
            if why:
                raise _NotYetError(why, is_pending=is_pending)
            return self._handed_over(leader, plan, me, job)
        if self._is_left(cluster) and not is_pending:
            return _left(me, status)
        self._raise_if_paused(cluster, status)
        if plan is not None and self._is_due(plan, me, job):
            why = f"a switchover is due at {plan.at}"
            raise _NotYetError(why, is_pending=True)
        self._raise_if_planned(cluster)
        demands_now = self._demands(status, context)
        if job.notice is not None:
            demands_now = replace(demands_now, avoided=frozenset(job.notice.resources))
        name, why = choose(cluster, demands_now, self._options.candidates)
        if not name:
            raise _NotYetError(f"no member can take over: {why}")
        self._memo.keep({"leader": me, "to": name})
        raise self._order(me, name, context)

    def _handed_over(
        self, leader: Member, plan: Plan | None, me: str, job: Job
    ) -> Result:
        """Return the result when another member leads."""
        if (
            plan is not None
            and plan.target == me
            and plan.instant is not None
            and plan.instant <= job.stop_at + PLAN_HORIZON
        ):
            raise HandlerError(
                f"a switchover to this member is scheduled for {plan.at}, which may be "
                "during the event"
            )
        memo = self._memo.read()
        if memo.get("leader") != me:
            return Result(detail=f"nothing to do: {leader.name} leads, not {me}")
        if not memo.get("is_settled"):
            self._memo.keep({"leader": me, "to": leader.name, "is_settled": True})
        standby = ", in a standby cluster" if leader.role == "standby_leader" else ""
        return Result(detail=f"{leader.name} leads instead of {me}{standby}")

    def _is_due(self, plan: Plan, me: str, job: Job) -> bool:
        """Return whether a scheduled switchover will make another member lead in time."""
        return (
            plan.instant is not None
            and self._clock.now() <= plan.instant <= job.stop_at
            and plan.source in {me, ""}
            and plan.target != me
        )

    # After the event

    def _after(self, me: str, successor: str, context: RunContext) -> Result:
        """Check once, and request a switchover back if needed; raises HandlerError."""
        cluster = self._cluster(context)
        own, leader = cluster.find(me), cluster.leader
        if leader is None:
            raise _NotYetError("the cluster has no leader")
        if leader.name == me:
            if leader.is_promoted:
                return Result(detail=f"{me} is the leader again")
            raise _NotYetError(f"{me} is being promoted")
        if leader.name != successor:
            return Result(
                detail=f"not changed: {leader.name} leads, which is not the member that "
                "took over"
            )
        status = self._status(context)
        if self._is_left(cluster):
            return _left(leader.name, status)
        self._raise_if_paused(cluster, status)
        self._raise_if_planned(cluster)
        if own is None:
            raise _NotYetError(f"the cluster has no member {me}")
        streaming = {me} if status.is_streaming else ()
        demands_now = replace(self._demands(status, context), streaming=streaming)
        if why := hindrance(own, cluster, demands_now):
            raise _NotYetError(f"{me} cannot lead: {why}")
        raise self._order(leader.name, me, context)

    # Requests to Patroni

    def _order(self, leader: str, candidate: str, context: RunContext) -> _NotYetError:
        """Request a switchover, and return what to wait for then.

        Raises HandlerError if a retry is useless.
        """
        ask = Ask(
            method="POST",
            path="/switchover",
            json={"leader": leader, "candidate": candidate},
            again=False,
            seconds=ORDER_SECONDS,
            # The body is a sentence for people; the result is visible in the cluster.
            shape=Shape.ANY,
        )
        try:
            self._api.ask(ask, context)
        except HandlerError as error:
            is_refused = isinstance(error, ApiError)
            if is_refused and error.status not in _MAY_PASS:
                raise
            # Without a response, Patroni may have accepted the request: the cluster
            # will show it.
            why = f"a switchover to {candidate}: {error.message}"
            return _NotYetError(why, is_pending=not is_refused, pause=AGAIN_SECONDS)
        return _NotYetError("the leader has not changed yet", is_pending=True)

    def _status(self, context: RunContext) -> Status:
        return read_status(self._api.ask(Ask(method="GET", path="/patroni"), context))

    def _cluster(self, context: RunContext) -> Cluster:
        return read_cluster(self._api.ask(Ask(method="GET", path="/cluster"), context))

    def _demands(self, status: Status, context: RunContext) -> Demands:
        config: object = None
        ask = Ask(method="GET", path="/config", again=False)
        try:
            config = self._api.ask(ask, context)
        except HandlerError as error:
            # Without a configuration, the defaults apply.
            if not isinstance(error, ApiError) or error.status not in _NO_CONFIG:
                raise _NotYetError(error.message) from error
        demands_read = demands(config, self._options.lag_max)
        return replace(demands_read, streaming=status.streams_to)

    def _me(self, status: Status) -> str:
        if not (name := self._options.member or status.name):
            raise HandlerError(
                "this version of Patroni does not report its member's name: set `member`"
            )
        return name

    def _denied(self, context: RunContext) -> Iterator[str]:
        """Yield why Patroni would reject a request of the handler; changes nothing.

        Patroni checks the credentials before the request. It rejects an empty request
        with status 400.
        """
        ask = Ask(
            method="POST", path="/switchover", json={}, again=False, shape=Shape.ANY
        )
        try:
            self._api.ask(ask, context)
        except ApiError as error:
            if error.status in _DENIED:
                how = "is not valid" if self._options.secret_file else "is required"
                yield f"{error.message}; `secret_file` {how}"

    def _headers(self) -> Sequence[tuple[str, str]]:
        if not self._options.secret_file:
            return ()
        secret = read_secret(self._options.secret_file, parts=_password)
        if ":" not in secret:
            raise HandlerError(
                f"the secret in {self._options.secret_file} must have the form USER:PASSWORD"
            )
        coded = binascii.b2a_base64(secret.encode(), newline=False).decode()
        return (("Authorization", f"Basic {coded}"),)

    def _is_left(self, cluster: Cluster) -> bool:
        """Return whether the cluster is paused and the settings accept that."""
        return cluster.is_paused and self._options.paused == LEAVE

    def _raise_if_paused(self, cluster: Cluster, status: Status) -> None:
        if cluster.is_paused:
            raise HandlerError(
                f"the cluster {status.scope} is paused, so it is not changed: run "
                "patronictl resume"
            )

    def _raise_if_planned(self, cluster: Cluster) -> None:
        plan = cluster.plan
        if plan is not None and not self._options.replace_scheduled:
            target = f" to {plan.target}" if plan.target else ""
            raise HandlerError(
                f"a switchover{target} is scheduled for {plan.at}, and another one would "
                "cancel it"
            )


def _password(secret: str) -> Sequence[str]:
    """Return the parts of USER:PASSWORD to mask; all of it if it has another form."""
    user, colon, password = secret.partition(":")
    return (password,) if colon else (user,)


def _left(leader: str, status: Status) -> Result:
    """Return the result if a paused cluster is not changed."""
    return Result(
        detail=f"not changed: the cluster {status.scope} is paused, and {leader} leads"
    )


def _unsettled(cluster: Cluster, leader: Member, me: str) -> str:
    """Return why a switchover away from this member is not complete; empty: it is."""
    own = cluster.find(me)
    if own is not None and own.state in UP:
        return ""
    state = "no member" if own is None else own.state or "in no state"
    return f"{leader.name} leads, but {me} is {state}"


KIND = HandlerKind(
    make=PatroniWorker,
    keys={
        "url": Option(
            form=Forms.WEB,
            text=f"The URL of this VM's Patroni REST API. Default: `{URL}`.",
        ),
        "member": Option(
            form=Forms.TEXT,
            text="The name of this VM's member. Default: the name that Patroni reports; "
            "old versions do not report it.",
        ),
        "candidates": Option(
            form=Forms.NAMES,
            text="The only members that may take over, in order of preference. Default: "
            "all members, ordered by synchronous standby, `failover_priority` and lag.",
        ),
        "candidate_wait": Option(
            form=Forms.DURATION,
            most=DAY,
            text="How long to wait for a member that can take over before the handler "
            f"fails. Default: `{format_duration(CANDIDATE_WAIT)}`.",
        ),
        "lag_max": Option(
            form=Forms.COUNT,
            most=LAG_BOUND,
            text="Maximum lag of a candidate, in bytes. Default: the cluster's "
            f"`maximum_lag_on_failover`, which is {LAG_MAX} by default.",
        ),
        "replace_scheduled": Option(
            form=Forms.SWITCH,
            text="Whether the handler may request a switchover that cancels a scheduled "
            "one. Default: `false`: the handler fails, unless the scheduled switchover "
            "is in time.",
        ),
        "paused": Option(
            form=Forms.WORD,
            words=(FAIL, LEAVE),
            text="The result if this member leads a paused cluster, in which nothing can "
            "be switched over. `fail`: the handler fails, which withholds the approval. "
            "`leave`: it succeeds, and the event affects the leader. Default: `fail`.",
        ),
        "switch_back": Option(
            form=Forms.SWITCH,
            text="Whether to switch back to this member after the event, if it led "
            "before. Default: `false`.",
        ),
        "secret_file": Option(
            form=Forms.TEXT,
            text="A file with `USER:PASSWORD` of the REST API on its first line. "
            "Default: no credentials.",
        ),
        "ca_file": CA_FILE,
    },
)
