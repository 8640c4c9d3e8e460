"""The state machine that lives random lives with campaigns."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.support.campaign_lives import (
    BUDGETS,
    EMERGENCY,
    POLICIES,
    STAGES,
    VERBS,
    CampaignLife,
)
from tests.support.fleets import FleetPlan, fleets
from tests.support.lives import Life, Step
from tests.support.machine import (
    ACTIONS,
    ADVANCE,
    BLACKOUT,
    BRAKE,
    CHANGE,
    CHOOSE,
    CLOSE,
    FAIL,
    FLAG,
    NUMBER,
    SEE,
    STEP_CLOCK,
    THEN,
    WINDOW,
    Lives,
    step_of,
)

CAMPAIGN = step_of(
    "campaign",
    first=NUMBER,
    hosts=NUMBER,
    impact=st.integers(0, 4),
    at_once=st.integers(1, 3),
    budget=st.integers(0, len(BUDGETS) - 1),
    stages=st.integers(0, len(STAGES) - 1),
    hours=st.sampled_from((0, 0, 0, 1, 2, 3)),
    rank=st.integers(0, EMERGENCY),
    has_steps=FLAG,
)
STEER = step_of(
    "steer",
    which=st.integers(0, 1),
    verb=st.integers(0, len(VERBS) - 1),
    actor=st.integers(0, 1),
    number=NUMBER,
)
ROLLOUT = step_of(
    "maintain",
    hosts=st.lists(NUMBER, min_size=2, max_size=4, unique=True),
    impact=st.integers(0, 3),
)
"""Maintenance of several hosts, which a verb makes a campaign."""
STEP_FAULT = step_of(
    "fault_step",
    kind=st.integers(0, 5),
    step=st.integers(0, 4),
    times=st.integers(1, 3),
)
BESIDE = st.one_of(
    STEER,
    CHANGE,
    CHOOSE,
    FAIL,
    FAIL,
    STEP_CLOCK,
    BRAKE,
    CLOSE,
    SEE,
    WINDOW,
    BLACKOUT,
    ADVANCE,
)
"""Steps that happen while a campaign runs, except the approvals of tenants."""
FOLLOWED = st.sampled_from(("", "approve_all", "approve_all_and_wait", "a quarter"))
"""Steps that follow each of these at once, so that the campaign continues."""


class CampaignLives(Lives):
    """Lives with campaigns in memory."""

    life_type: type[Life] = CampaignLife

    @initialize(
        plan=fleets(),
        policy=st.sampled_from(range(len(POLICIES))),
        abort_share=st.sampled_from((1.0, 1.0, 0.0)),
        listen=st.sampled_from(("all", "all", "none", "first")),
        is_blind=FLAG,
    )
    def begin(
        self,
        plan: FleetPlan,
        policy: int,
        abort_share: float,
        listen: str,
        is_blind: bool,
    ) -> None:
        self._begin(plan, POLICIES[policy], abort_share, listen, is_blind)

    @rule(step=CAMPAIGN, steps=st.lists(ADVANCE, max_size=3), then=THEN)
    def campaign(self, step: Step, steps: list[Step], then: str) -> None:
        """Start a campaign, and let it run a little."""
        self._do(step)
        for each_step in steps:
            self._do(each_step)
        self._then(then)

    @rule(
        first=st.one_of(CAMPAIGN, CAMPAIGN, ROLLOUT),
        steps=st.lists(st.tuples(BESIDE, FOLLOWED), min_size=2, max_size=6),
    )
    def meanwhile_a_campaign(self, first: Step, steps: list[tuple[Step, str]]) -> None:
        """Start a campaign or a rollout, and let something happen while it runs."""
        self._do(first)
        self._all_look()
        for step, then in steps:
            self._turn(step, then)

    @rule(
        campaigns=st.lists(CAMPAIGN, min_size=2, max_size=3),
        steps=st.lists(st.tuples(STEER, FOLLOWED), min_size=1, max_size=4),
    )
    def share(self, campaigns: list[Step], steps: list[tuple[Step, str]]) -> None:
        """Start several campaigns, which share the hosts in flight, and steer them."""
        for step in campaigns:
            self._do(step)
        for step, then in steps:
            self._turn(step, then)

    @rule(steps=st.lists(st.one_of(STEER, STEER, ADVANCE), min_size=1, max_size=4))
    def steer(self, steps: list[Step]) -> None:
        """Steer campaigns, and let time pass in between."""
        for step in steps:
            self._do(step)

    @rule(
        step=CAMPAIGN,
        faults=st.lists(STEP_FAULT, min_size=1, max_size=2),
        steps=st.lists(st.one_of(STEER, ADVANCE, STEP_CLOCK), max_size=4),
    )
    def disturb_steps(self, step: Step, faults: list[Step], steps: list[Step]) -> None:
        """Start a campaign whose host steps fail, and steer it."""
        for each_step in (*faults, step, *steps):
            self._do(each_step)

    @rule(
        step=st.one_of(CAMPAIGN, STEER, ACTIONS),
        place=st.sampled_from(("committed", "published", "called")),
        count=st.integers(1, 5),
    )
    def crash_beside_a_campaign(self, step: Step, place: str, count: int) -> None:
        """Crash while a campaign is started, steered, or runs."""
        self._do(Step("crash", {"step": step, "place": place, "count": count}))


class CampaignLivesInFile(CampaignLives):
    """Lives in SQLite files: what a crash leaves is what was written."""

    in_file = True
