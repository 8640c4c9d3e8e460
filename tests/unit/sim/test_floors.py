"""At any speed, a client that polls once a second can react to every notice."""

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.requests import approvals
from forewarn.control.rules.policy import divided
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.sim.engine import START
from forewarn.sim.scenario import model
from forewarn.sim.scenario.doing import StepExecutor
from forewarn.sim.scenario.setup import running_stage, setup_for, virtual_stage
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.loops import in_loop
from tests.support.played import scenario

POLL: Micros = SECOND
PREPARATION: Micros = 3 * SECOND

FLEET = """
[[fleet.host]]
name = "h0"
[[fleet.host]]
name = "h1"
[[fleet.scope]]
name = "set"
tenant = "shop"
kind = "scale-set"
terminate_notice = "5m"
os_image_notice = "15m"
[[fleet.tenant]]
name = "shop"
[[fleet.vm]]
name = "web_0"
host = "h0"
scope = "set"
fault_domain = 0
memory_preserving = true
[[fleet.vm]]
name = "spot_0"
host = "h0"
scope = "set"
fault_domain = 0
spot = true
"""

STEPS = {
    "freeze": 'maintain = "h0"\nimpact = "freeze"',
    "live-migrate": 'maintain = "h0"\nimpact = "live-migrate"',
    "by hand": 'maintain = "h0"\nimpact = "freeze"\nnot_before = "+20m"',
    "reboot": 'reboot = "web_0"',
    "redeploy": 'redeploy = "web_0"',
    "evict": 'evict = "spot_0"',
    "terminate": 'terminate = "web_0"',
    "upgrade-os": 'upgrade-os = "web_0"',
    "predict-failure": 'predict-failure = "h0"\nin = "1h"',
    "event": 'event = { type = "Preempt", vms = "web_0", notice = "30s" }',
}


def live(stage: SimServer) -> list[Event]:
    return stage.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))


class Watch:
    """The machine's clock of a server, under the control of the test."""

    def __init__(self, *, step: str, speed: float) -> None:
        """Start with every view enabled, and run one step of a scenario."""
        self.clock = VirtualClock(START + SECOND // 3)
        parsed = scenario(FLEET + f"[[step]]\n{step}\n")
        self.stage = running_stage(setup_for([parsed], speed=speed), clock=self.clock)
        engine = self.stage.engine
        for vm in engine.read(lambda reader: list(every(reader, kinds.ALL_VMS))):
            engine.plane.enable(vm.name, now=engine.now)
        executor = StepExecutor(self.stage, reason="")
        executor.do(parsed.steps[0].act, name="e1")

    def wait(self, duration: Micros) -> None:
        """Let time pass in steps of 10 ms, like the timer task."""
        for _ in range(duration // (10 * 1000)):
            self.clock.advance_to(self.clock.now() + 10 * 1000)
            self.stage.engine.settle()

    def approve(self) -> None:
        for event in live(self.stage):
            self.stage.engine.order(
                lambda work, name=event.event_id: approvals.approve_for(work, name)
            )


@pytest.mark.parametrize("speed", [60, 600, 1_000_000])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@in_loop
async def test_client_polling_each_second_approves_in_time_and_sees_the_start(
    step: str, speed: float
) -> None:
    watch = Watch(step=step, speed=speed)
    # The previous poll came just before the request.
    watch.wait(POLL)
    events = live(watch.stage)
    assert events
    assert {event.status for event in events} == {EventStatus.SCHEDULED}
    watch.wait(PREPARATION)
    assert {event.status for event in live(watch.stage)} == {EventStatus.SCHEDULED}
    watch.approve()
    watch.wait(POLL)
    assert EventStatus.STARTED in {event.status for event in live(watch.stage)}
    await watch.stage.end()


@in_loop
async def test_short_notice_is_not_changed_by_the_speed() -> None:
    short = 'event = { type = "Preempt", vms = "web_0", notice = "2s" }'
    watch = Watch(step=short, speed=60)
    watch.wait(3 * SECOND)
    assert {event.status for event in live(watch.stage)} == {EventStatus.STARTED}
    await watch.stage.end()

    at_once = 'event = { type = "Preempt", vms = "web_0", notice = "0s" }'
    watch = Watch(step=at_once, speed=60)
    assert {event.status for event in live(watch.stage)} == {EventStatus.STARTED}
    await watch.stage.end()


@in_loop
async def test_virtual_clock_divides_without_a_floor() -> None:
    setup = setup_for([scenario('[[step]]\nsay = "hello"\n')], speed=60)
    exact, floored = virtual_stage(setup), running_stage(setup)
    assert exact.engine.policy.preempt_notice == SECOND // 2
    assert floored.engine.policy.preempt_notice == 5 * SECOND
    # Longer times are divided exactly.
    assert exact.engine.policy.freeze_notice == 15 * SECOND
    assert floored.engine.policy.freeze_notice == 15 * SECOND
    for stage in (exact, floored):
        await stage.end()


@pytest.mark.parametrize(
    ("duration", "speed", "floor", "found"),
    [
        (30, 60, 5, 5),
        (600, 60, 5, 10),
        (2, 60, 5, 2),
        (30, 1, 5, 30),
        (2, 0.5, 5, 4),
        (30, 60, 0, 0.5),
        (0, 60, 5, 0),
    ],
)
def test_speed_divides_a_duration_down_to_the_floor(
    duration: float, speed: float, floor: float, found: float
) -> None:
    assert divided(round(duration * MINUTE), speed, floor=round(floor * MINUTE)) == (
        round(found * MINUTE)
    )


def test_speed_of_the_file_and_of_an_alias_are_separate() -> None:
    text = 'aliases = [{ name = "Quick", speed = 9 }]\nspeed = 600\n'
    parsed = scenario(text + '[[step]]\nsay = "hello"\n')
    assert (parsed.own_speed, parsed.speed) == (600, None)
    assert parsed.aliases == (model.Alias(name="Quick", speed=9),)
