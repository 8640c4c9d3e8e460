"""The runner: steps at their times, together, on both clocks; reports of the results."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import DAY, MINUTE, SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.sim.engine import START
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.junit import report
from forewarn.sim.scenario.model import Expected
from forewarn.sim.scenario.run import Result, Runner, summary
from forewarn.sim.scenario.setup import running_stage, setup_for
from forewarn.sim.scenario.time import RunningTime
from tests.support.played import approve, run, scenario, sentences

JUNIT = Path(__file__).with_name("junit.xml")

_SAY = '[[step]]\nsay = "hello"\n'


def test_steps_run_at_their_times_or_later() -> None:
    messages: list[str] = []
    [result] = run(
        scenario(
            """
            [[step]]
            at = "10m"
            maintain = "h0"
            impact = "reboot"
            [[step]]
            expect = { status = "Started", within = "1h" }
            [[step]]
            at = "11m"
            say = "as late as that"
            [[step]]
            after = "1m"
            expect = { shown_to = "web_0" }
            """
        ),
        log=messages,
    )
    assert [finding.at for finding in result.findings] == [25 * MINUTE, 26 * MINUTE]
    assert result.took == 36 * MINUTE
    assert messages == [
        "maintain h0 (reboot), called e1",
        "as expected: e1 was Started after 15 m",
        "as late as that",
        "as expected: e1 is shown to web_0",
    ]


def test_refused_step_fails_the_scenario_and_later_steps_run() -> None:
    [result] = run(
        scenario(
            """
            [[step]]
            evict = "web_0"
            [[step]]
            expect = { approved = true, within = "1s" }
            [[step]]
            may_be_refused = true
            restore = "h0"
            """
        )
    )
    assert sentences(result) == [
        (
            False,
            "evict web_0, called e1 was refused: VM web_0 is not a Spot VM",
        ),
        (False, "e1 has no event"),
    ]
    assert [finding.line for finding in result.findings] == [2, 4]
    assert not result.passed
    assert summary(result) == "mine: 2 failures, in 0 s"


def test_every_kind_of_step_has_its_effect() -> None:
    messages: list[str] = []
    [result] = run(
        scenario(
            """
            [[step]]
            withhold = "web_0"
            [[step]]
            event = { type = "Reboot", vms = ["web_0", "web_1"], notice = "1h" }
            [[step]]
            approve = "e1"
            by = "web_0"
            [[step]]
            expect = { approved_by = "web_0", within = "1s" }
            [[step]]
            move = "e1"
            to = "Recovering"
            [[step]]
            jump = "10m"
            [[step]]
            expect = { status = "Removed", within = "0s" }
            [[step]]
            release = "web_0"
            [[step]]
            disable = "web_0"
            [[step]]
            fault = "500 x2"
            vms = "web_0"
            [[step]]
            clear-faults = ["web_0"]
            [[step]]
            clear-faults = true
            [[step]]
            approve = "e1"
            may_be_refused = true
            """
        ),
        log=messages,
    )
    assert sentences(result) == [
        (True, "web_0 approved e1 after 0 s"),
        (True, "e1 was Removed after 10 m"),
    ]
    assert messages[-1] == (
        "refused, which is allowed: e1 has no event that waits for an approval"
    )
    assert "fault 500 x2" in messages
    assert "clear faults of all" in messages


def test_speed_divides_platform_times_and_not_client_times() -> None:
    [result] = run(
        scenario(
            """
            [[step]]
            event = { type = "Freeze", vms = "web_0", notice = "10m", duration = "9s" }
            [[step]]
            expect = { approved = true, within = "5s" }
            [[step]]
            expect = { status = "Started", within = "10m" }
            [[step]]
            at = "30m"
            say = "half a minute"
            """
        ),
        speed=60,
    )
    assert sentences(result) == [
        (False, "no client approved e1 within 5 s"),
        (True, "e1 was Started after 10 s"),
    ]
    assert result.took == 30 * SECOND


def test_unrestored_failure_is_not_waited_for() -> None:
    [result] = run(scenario('[[step]]\nfail = "h0"\n'))
    assert result.took == 0
    assert summary(result) == "mine: a client asked, in 0 s"


def test_run_stops_waiting_for_operations_that_never_end() -> None:
    messages: list[str] = []
    [result] = run(
        scenario(
            """
            [[step]]
            fail = "h0"
            [[step]]
            maintain = "h1"
            impact = "reboot"
            """
        ),
        speed=1000,
        log=messages,
    )
    # One extra second for each operation, because NotBefore is on a full second.
    assert result.took == 8 * DAY // 1000 + 2 * SECOND
    assert (
        messages[-1] == "the remaining operations take too long; not waiting any longer"
    )


def test_parallel_scenarios_start_together() -> None:
    messages: list[str] = []
    run(
        scenario('[[step]]\nat = "5m"\nsay = "5"\n[[step]]\nat = "9m"\nsay = "9"\n'),
        scenario('[[step]]\nat = "7m"\nsay = "7"\n', name="other"),
        log=messages,
    )
    assert messages == ["5", "7", "9"]


def test_parallel_scenarios_share_one_clock() -> None:
    first = scenario(
        '[[step]]\nat = "5m"\nreboot = "web_0"\n'
        '[[step]]\nexpect = { status = "Started", within = "16m" }\n'
    )
    second = scenario(
        '[[step]]\nat = "7m"\nreboot = "web_1"\n'
        '[[step]]\nexpect = { status = "Started", within = "16m" }\n',
        name="other",
    )
    results = run(first, second, asked=("web_0", "web_1"))
    assert [result.findings[0].at for result in results] == [20 * MINUTE, 22 * MINUTE]
    assert [result.scenario.name for result in results] == ["mine", "other"]
    assert all(result.passed for result in results)


@pytest.mark.parametrize(
    ("first", "other", "what"),
    [
        ("live-migration", "spot-preemption", "another fleet"),
        ("live-migration", "one-host-three-vms", "another fleet"),
        ("two-events", "Canceled Maintenance Dev Timing", "another speed"),
    ],
)
def test_conflicting_scenarios_are_refused(first: str, other: str, what: str) -> None:
    with pytest.raises(RefusedError, match=what) as caught:
        setup_for([builtin.find(first), builtin.find(other)])
    assert "Run them one after the other" in (caught.value.hint or "")


def test_parallel_scenarios_use_the_shorter_duration() -> None:
    short, long = builtin.find("live-migration"), builtin.find("user-reboot")
    for scenarios in ([short, long], [long, short]):
        assert setup_for(scenarios).settings["timing.recovery"] == "4m55s"
    other = replace(short, settings={"timing.recovery": "soon"})
    with pytest.raises(RefusedError, match=r"another timing\.recovery"):
        setup_for([short, other])


def test_setup_has_the_requested_number_of_vms() -> None:
    plain = builtin.find("two-events")
    assert setup_for([plain]).fleet.count("[[vm]]") == 3
    assert setup_for([plain], vms=7).fleet.count("[[vm]]") == 7
    five = replace(plain, fleet=replace(plain.fleet, vms=5))
    assert setup_for([plain, five]).fleet.count("[[vm]]") == 5
    assert setup_for([plain], speed=5).speed == 5
    assert setup_for([plain], usual_speed=60).speed == 60
    assert setup_for([builtin.find("Spot Eviction")], usual_speed=60).speed == 2


def test_speed_is_taken_from_option_name_file_or_default() -> None:
    own = scenario('aliases = [{ name = "Quick", speed = 9 }]\nspeed = 600\n' + _SAY)
    named = replace(own, name="quick", speed=9)
    assert setup_for([named], speed=5, usual_speed=60).speed == 5
    assert setup_for([named], usual_speed=60).speed == 9
    assert setup_for([own], usual_speed=60).speed == 600
    assert setup_for([scenario(_SAY)], usual_speed=60).speed == 60
    # On a virtual clock there is no waiting, so times of a file are exact.
    assert setup_for([own]).speed == 1
    assert setup_for([named]).speed == 9


def test_scenarios_with_different_speeds_need_an_explicit_speed() -> None:
    both = [scenario(_SAY), scenario("speed = 600\n" + _SAY, name="other")]
    with pytest.raises(RefusedError, match="it needs another speed") as refused:
        setup_for(both, usual_speed=60)
    assert "use --speed" in (refused.value.hint or "")
    assert setup_for(both, speed=60, usual_speed=60).speed == 60


def test_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(RefusedError, match='did you mean "rollout"'):
        builtin.find("rolout")


def test_runner_works_on_the_system_clock() -> None:
    async def play() -> Result:
        wanted = scenario(
            """
            [[step]]
            reboot = "web_0"
            [[step]]
            after = "1m"
            say = "a tenth of a second later"
            [[step]]
            jump = "1h"
            [[step]]
            expect = { status = "Removed", within = "1h" }
            """
        )
        stage = running_stage(setup_for([wanted], speed=600), clock=SystemClock())
        stage.begin()
        result = await Runner(stage, RunningTime(stage), expected=Expected.NONE).run(
            wanted
        )
        await stage.end()
        return result

    result = asyncio.run(play())
    assert not result.failures
    # The jump counts as elapsed time.
    assert result.took >= 6 * SECOND


def test_results_are_written_as_junit_xml(request: pytest.FixtureRequest) -> None:
    results = [
        *run(
            scenario(
                """
                [[step]]
                maintain = "h0"
                impact = "freeze"
                [[step]]
                expect = { approved_by = "web_0", within = "30s" }
                [[step]]
                expect = { approved_by = "web_1", within = "30s" }
                [[step]]
                reboot = "web_0"
                [[step]]
                reboot = "web_0"
                """
            ),
            actions={12: approve("web_0")},
        ),
        *run(scenario('[[step]]\nsay = "<&>"\n', name="other")),
        *run(
            scenario(
                """
                [[client]]
                vm = "web_0"
                sees = "Scheduled"
                approves = true
                [[client]]
                vm = "web_1"
                [[client]]
                vm = "web_2"
                optional = true
                [[step]]
                reboot = "web_0"
                """,
                name="clients",
            )
        ),
        *run(scenario('[[step]]\nreboot = "web_0"\n', name="nobody"), asked=()),
        *run(
            scenario('[[step]]\nreboot = "web_0"\n', name="none"),
            expected=Expected.NONE,
        ),
    ]
    if request.config.getoption("--rewrite"):
        JUNIT.write_text(report(results), encoding="utf-8")
    assert report(results) == JUNIT.read_text(encoding="utf-8")


def test_jump_advances_steps_and_pause_delays_them() -> None:
    async def play() -> None:
        clock = VirtualClock(START)
        stage = running_stage(setup_for([builtin.find("rollout")]), clock=clock)
        time = RunningTime(stage)

        stage.advance(10 * MINUTE)
        assert time.now() == START + 10 * MINUTE

        stage.pause()
        clock.advance_to(START + 5 * MINUTE)
        assert time.now() == START + 10 * MINUTE

        stage.resume()
        clock.advance_to(START + 6 * MINUTE)
        assert time.now() == START + 11 * MINUTE
        await stage.end()

    asyncio.run(play())
