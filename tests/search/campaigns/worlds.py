"""The small worlds whose campaigns are searched."""

from forewarn.instants import HOUR
from tests.search.campaigns.settings import Setting, StagePlan

STEERED = Setting(
    name="a campaign that two operators steer",
    stages=(StagePlan(hosts=1), StagePlan(hosts=3)),
    pauses=2,
    halts=True,
)
STAGES = Setting(
    name="stages with a soak and an approval",
    stages=(
        StagePlan(hosts=1, soak=1, approval=True),
        StagePlan(hosts=1, soak=1),
        StagePlan(hosts=2),
    ),
    recovery=1,
    aborts=True,
    skips=True,
)
APPROVALS = Setting(
    name="a stage that is approved before and after halts",
    stages=(StagePlan(hosts=1, soak=1, approval=True), StagePlan(hosts=3)),
    halts=True,
)
FAILURES = Setting(
    name="failed work, retries and a lost host",
    stages=(StagePlan(hosts=1), StagePlan(hosts=3)),
    work_fails=True,
    retries=True,
    hosts_fail=(1,),
)
BUDGETS = Setting(
    name="budgets of a rack and of the fleet",
    stages=(StagePlan(hosts=4),),
    rack_most=1,
    unavailable=2,
    work_fails=True,
)
BRAKES = Setting(
    name="the brake, and a lost host",
    stages=(StagePlan(hosts=4),),
    in_flight=1,
    brakes=True,
    hosts_fail=(0,),
)
WINDOWS = Setting(
    name="a window of twelve hours, and early approvals",
    stages=(StagePlan(hosts=1), StagePlan(hosts=3)),
    tick=6 * HOUR,
    opens=1,
    length=2,
    halts=True,
)
WORLDS = (STEERED, STAGES, APPROVALS, FAILURES, BUDGETS, BRAKES, WINDOWS)
