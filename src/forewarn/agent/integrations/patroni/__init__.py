"""Handing PostgreSQL's lead over before an event: the handler `patroni`.

Here are its keys; `worker` does the work.
"""

from __future__ import annotations

from forewarn.agent.handlers.ground import Ground
from forewarn.agent.integrations.kind import HandlerKind
from forewarn.agent.integrations.memo import Memo
from forewarn.agent.integrations.patroni.cluster import LAG_MAX
from forewarn.agent.integrations.patroni.worker import (
    CANDIDATE_WAIT,
    FAIL,
    LEAVE,
    URL,
    PatroniOptions,
    PatroniWorker,
)
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, format_duration
from forewarn.settings.forms import Option

LAG_BOUND = 1 << 40
"""Of what the settings may say, in bytes: no log is longer."""


def _make(settings: HandlerSettings, ground: Ground) -> PatroniWorker:
    more = settings.more
    wishes = PatroniOptions(
        url=more.get("url", URL),
        member=more.get("member", ""),
        candidates=more.get("candidates", ()),
        candidate_wait=more.get("candidate_wait", CANDIDATE_WAIT),
        lag_max=more.get("lag_max"),
        replaces_plan=more.get("replace_scheduled", False),
        paused=more.get("paused", FAIL),
        switches_back=more.get("switch_back", False),
        secret_file=more.get("secret_file", ""),
        ca_file=more.get("ca_file", ""),
    )
    return PatroniWorker(wishes, memo=Memo(ground.memos, settings), clock=ground.clock)


KIND = HandlerKind(
    make=_make,
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
