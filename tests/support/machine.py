"""The state machine that lives random lives, and what it may do at each turn."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from forewarn.control.rules.policy import Policy
from tests.support.fleets import CHANGES, FleetPlan, fleets
from tests.support.lives import POLICIES, Life, Step

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
"""Lives take long, and use many values."""

NUMBER = st.integers(0, 11)
SOME = st.lists(NUMBER, min_size=1, max_size=3)
FLAG = st.booleans()
SECONDS = st.one_of(
    st.sampled_from((0.25, 1, 5, 7, 30, 60, 61, 299, 300, 601, 900, 3600)),
    st.sampled_from((86_399, 86_401, 90_000, 7 * 86_400)),
)


def step_of(name: str, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(args).map(lambda chosen: Step(name, chosen))


MAINTAIN = step_of(
    "maintain",
    hosts=SOME,
    impact=st.integers(0, 3),
    wish=st.sampled_from((0, 0, 0, 2397, 2399, 3597, 3599, 3600, 4001, 400_000)),
    emergency=FLAG,
)
RESTART = step_of("restart", vms=SOME, redeploy=FLAG)
DELETE = st.one_of(step_of("evict", vms=SOME), step_of("terminate", vms=SOME))
RENEW = step_of("renew_image", vms=SOME, reimage=FLAG)
PREDICT = step_of("predict_failure", host=NUMBER, hours=st.sampled_from((1, 24, 168)))
FAIL = st.one_of(step_of("fail_host", host=NUMBER), step_of("fail_vm", vm=NUMBER))
RESTORE = st.one_of(
    step_of("restore_host", host=NUMBER), step_of("restore_vm", vm=NUMBER)
)
CLOSE = st.one_of(
    step_of("cordon", host=NUMBER, owner=st.integers(0, 1)),
    step_of("cordon", host=NUMBER, owner=st.integers(0, 1)),
    step_of("open_host", host=NUMBER, owner=st.integers(0, 1), by_all=FLAG),
)
WINDOW = step_of("set_window", scope=NUMBER, hours=st.sampled_from((0, 1, 8, 23)))
DRAIN = step_of("drain", hosts=SOME, at_once=st.integers(1, 3))
BLACKOUT = st.one_of(
    *3
    * (
        step_of(
            "set_blackout",
            which=st.integers(0, 1),
            begins=st.sampled_from((-60, 0, 5, 20, 60)),
            hours=st.sampled_from((1, 2, 9, 30)),
            host=st.integers(-3, 5),
            by_day=FLAG,
        ),
    ),
    step_of("remove_blackout", which=st.integers(0, 1)),
)
"""A blackout of the service, of the whole fleet or of a place."""
BRAKE = st.one_of(
    *2 * (step_of("put_brake_on", withdraw=FLAG),), step_of("take_brake_off")
)
CHOOSE = st.one_of(
    step_of("defer", vm=NUMBER, hours=st.sampled_from((1, 30)), by_scope=FLAG),
    step_of("expedite", vm=NUMBER),
)
CANCEL = step_of("cancel", number=NUMBER, whole=FLAG)
RESOLVE = step_of(
    "resolve", number=NUMBER, done=FLAG, down=st.lists(NUMBER, max_size=2)
)
CHANGE = step_of(
    "change_fleet", what=st.sampled_from(CHANGES), one=NUMBER, two=NUMBER, three=NUMBER
)
CHANGE_VIEWS = step_of(
    "change_fleet",
    what=st.sampled_from(
        ("change scope", "kind", "relabel vm", "relabel scope", "add vm", "remove vm")
    ),
    one=NUMBER,
    two=NUMBER,
    three=NUMBER,
)
"""A change of what VMs are shown together."""
GET = step_of("get", vm=NUMBER, version=st.integers(0, 6), tag=st.integers(0, 5))
APPROVE = step_of(
    "approve",
    vm=NUMBER,
    events=st.lists(st.integers(0, 39), min_size=1, max_size=3),
    version=st.integers(0, 6),
)
APPROVE_FOR = step_of("approve_for", number=NUMBER, as_vm=st.integers(-1, 11))
FAULT = step_of(
    "fault",
    kind=st.sampled_from((0, 1, 2, 3, 4, 5, 9, 10, 11, 12)),
    vm=st.integers(-1, 11),
    times=st.integers(1, 3),
    how=st.integers(0, 15),
)
LOSE_MEMORY = step_of("lose_memory")
SEE = step_of("see", vm=NUMBER, how=st.integers(0, 7), host=NUMBER)
SPARE = step_of(
    "fault", kind=st.just(0), vm=NUMBER, times=st.integers(1, 3), how=st.integers(8, 9)
)
"""A call fails for one VM, and is done for the others."""
ADVANCE = st.one_of(
    step_of("advance", seconds=SECONDS),
    step_of("advance_to_next", seconds=st.sampled_from((-1, 0, 0, 0, 1))),
)
STEP_CLOCK = step_of(
    "step_clock",
    seconds=st.sampled_from(
        (-0.25, 0.25, -6, 6, -20, 20, -600, 600, -3600, 3600, -90_000, 90_000)
    ),
    is_down=FLAG,
)
CLOCK_BACK = step_of(
    "step_clock", seconds=st.sampled_from((-6, -600, -90_000)), is_down=FLAG
)
LISTENERS = 4
"""The number of VMs that poll while steps run: most of a small fleet."""
THEN = st.sampled_from(
    ("", "", "", "advance_to_next", "approve_all", "approve_all_and_wait", "a quarter")
)
"""Steps that follow another at once, so that each kind of life has time and
approvals."""
ACTIONS = st.one_of(
    MAINTAIN, RESTART, DELETE, RENEW, PREDICT, FAIL, RESTORE, CLOSE, BRAKE, DRAIN, WINDOW,
    MAINTAIN, RESTART, DELETE, RENEW, PREDICT, FAIL, RESTORE, CLOSE, BRAKE, WINDOW, CHOOSE,
    BLACKOUT, CANCEL, RESOLVE, CHANGE, SEE, GET, APPROVE, APPROVE, APPROVE_FOR, ADVANCE, ADVANCE,
)  # fmt: skip


class Lives(RuleBasedStateMachine):
    """Lives in memory."""

    in_file = False
    life_type: type[Life] = Life

    def __init__(self) -> None:
        super().__init__()
        self.life: Life | None = None
        self.directory: tempfile.TemporaryDirectory[str] | None = None

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

    def _begin(
        self,
        plan: FleetPlan,
        policy: Policy,
        abort_share: float,
        listen: str,
        is_blind: bool,
    ) -> None:
        if self.in_file:
            self.directory = tempfile.TemporaryDirectory()
        self.life = self.life_type(
            plan,
            policy=policy,
            file=Path(self.directory.name) / "forewarn.db" if self.directory else None,
            abort_share=abort_share,
            is_blind=is_blind,
        )
        count = {"all": len(plan.vms), "none": 0, "first": 1}[listen]
        for vm in range(count):
            self._do(Step("get", {"vm": vm, "version": 6, "tag": 0}))

    def _do(self, step: Step) -> None:
        assert self.life is not None
        try:
            self.life.do(step)
        except BaseException:
            self.life.is_broken = True
            raise

    def _turn(self, step: Step, then: str) -> None:
        self._do(step)
        self._then(then)

    def _then(self, then: str) -> None:
        if then.startswith("approve_all"):
            self._do(Step("approve_all"))
        if then in {"advance_to_next", "approve_all_and_wait"}:
            self._do(Step("advance_to_next", {"seconds": 0}))
        elif then == "a quarter":
            self._do(Step("advance", {"seconds": 900}))

    @rule(step=st.one_of(MAINTAIN, MAINTAIN, MAINTAIN, DRAIN), then=THEN)
    def maintain(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=st.one_of(RESTART, RENEW), then=THEN)
    def renew(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=DELETE, then=THEN)
    def delete(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=PREDICT, then=THEN)
    def predict(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=FAIL, then=THEN)
    def fail(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(vm=NUMBER, is_restored=FLAG, then=THEN)
    def fail_both(self, vm: int, is_restored: bool, then: str) -> None:
        """Fail a VM and then its host, which may come back."""
        self._do(Step("fail_vm", {"vm": vm}))
        self._do(Step("fail_host_of", {"vm": vm}))
        if is_restored:
            self._do(Step("restore_host_of", {"vm": vm}))
        self._then(then)

    @rule(steps=st.lists(SEE, min_size=1, max_size=4), then=THEN)
    def see(self, steps: list[Step], then: str) -> None:
        """Something happens without a request, and perhaps is confirmed."""
        for step in steps:
            self._do(step)
        self._then(then)

    @rule(step=RESTORE, then=THEN)
    def restore(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(order=MAINTAIN, step=BRAKE, then=THEN)
    def brake(self, order: Step, step: Step, then: str) -> None:
        """Maintain hosts, and brake before they start."""
        self._do(order)
        self._turn(step, then)

    @rule(order=MAINTAIN, step=BLACKOUT, is_before=FLAG, then=THEN)
    def blackout(self, order: Step, step: Step, is_before: bool, then: str) -> None:
        """Maintain hosts, and set or remove a blackout before or after that."""
        for each_step in (step, order) if is_before else (order, step):
            self._do(each_step)
        self._then(then)

    @rule(order=MAINTAIN, step=CHOOSE, then=THEN)
    def choose(self, order: Step, step: Step, then: str) -> None:
        """Maintain hosts, and defer or expedite one of them."""
        self._do(order)
        self._turn(step, then)

    @rule(order=MAINTAIN, step=WINDOW, then=THEN)
    def window(self, order: Step, step: Step, then: str) -> None:
        """Maintain hosts, and set a window before or after they start."""
        self._do(step)
        self._turn(order, then)

    @rule(order=MAINTAIN, steps=st.lists(FAIL, min_size=2, max_size=4), then=THEN)
    def lose(self, order: Step, steps: list[Step], then: str) -> None:
        """Maintain hosts, and lose several hosts or VMs at once."""
        self._do(order)
        for step in steps:
            self._do(step)
        self._then(then)

    @rule(step=CLOSE, then=THEN)
    def close(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=CANCEL, then=THEN)
    def cancel(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=CHANGE, then=THEN)
    def change(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(steps=st.lists(GET, min_size=1, max_size=4))
    def get(self, steps: list[Step]) -> None:
        for step in steps:
            self._do(step)

    @rule(steps=st.lists(APPROVE, min_size=1, max_size=4))
    def approve(self, steps: list[Step]) -> None:
        for step in steps:
            self._do(step)

    @rule(step=APPROVE_FOR, then=THEN)
    def approve_for(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(step=st.one_of(FAULT, FAULT, SPARE, RESOLVE, LOSE_MEMORY), then=THEN)
    def disturb(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(steps=st.lists(ADVANCE, min_size=1, max_size=3))
    def advance(self, steps: list[Step]) -> None:
        for step in steps:
            self._do(step)

    @rule(step=STEP_CLOCK, then=THEN)
    def step_clock(self, step: Step, then: str) -> None:
        self._turn(step, then)

    @rule(
        order=MAINTAIN,
        steps=st.lists(
            st.one_of(CHANGE_VIEWS, CHANGE_VIEWS, CLOCK_BACK, STEP_CLOCK),
            min_size=1,
            max_size=3,
        ),
        then=THEN,
    )
    def meanwhile(self, order: Step, steps: list[Step], then: str) -> None:
        """Maintain hosts, and change what VMs are shown while all of them look."""
        self._do(order)
        self._all_look()
        for step in steps:
            self._do(step)
            self._all_look()
        self._then(then)

    def _all_look(self) -> None:
        for vm in range(LISTENERS):
            self._do(Step("get", {"vm": vm, "version": 6, "tag": 0}))

    @rule(
        step=ACTIONS,
        place=st.sampled_from(("committed", "published", "called")),
        count=st.integers(1, 5),
    )
    def crash(self, step: Step, place: str, count: int) -> None:
        if step.name == "advance_to_next":
            # Something must be waited for.
            self._do(Step("maintain", {"hosts": [count], "impact": count}))
        self._do(Step("crash", {"step": step, "place": place, "count": count}))

    @rule(
        step=st.one_of(MAINTAIN, RESTART),
        place=st.sampled_from(("committed", "published", "called")),
        count=st.integers(1, 3),
    )
    def repeat(self, step: Step, place: str, count: int) -> None:
        self._do(Step("repeat", {"step": step, "place": place, "count": count}))

    @rule(crash_after=st.sampled_from((0, 0, 1, 2, 3)))
    def restart_service(self, crash_after: int) -> None:
        self._do(Step("restart_service", {"crash_after": crash_after}))

    @invariant()
    @precondition(lambda self: self.life is not None)
    def is_served_as_it_is(self) -> None:
        assert self.life is not None
        try:
            self.life.check()
        except BaseException:
            self.life.is_broken = True
            raise

    def teardown(self) -> None:
        try:
            if self.life is not None and not self.life.is_broken:
                self.life.end()
        finally:
            if self.life is not None:
                self.life.close()
            if self.directory is not None:
                self.directory.cleanup()


class LivesInFile(Lives):
    """Lives in SQLite files: what a crash leaves is what was written."""

    in_file = True
