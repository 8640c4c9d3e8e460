"""Steps that let the simulated driver report unrequested changes of VMs."""

import asyncio
from dataclasses import replace

import pytest

from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.sim.scenario import casting, model
from forewarn.sim.scenario.model import Expected
from forewarn.sim.scenario.run import Result, Runner, summary
from forewarn.sim.scenario.setup import running_stage, setup_for
from forewarn.sim.scenario.time import RunningTime
from tests.support.played import run, scenario, sentences

_STOPS = """
[[step]]
sighting = { vms = "web_0", running = false, text = "signal 9" }
as = "crash"
"""


def test_vm_that_the_driver_sees_stop_fails_until_it_runs_again() -> None:
    messages: list[str] = []
    [result] = run(
        scenario(
            _STOPS
            + """
            [[step]]
            expect = { status = "Started", within = "30s" }
            [[step]]
            after = "5m"
            sighting = { vms = ["web_0"], running = true, host = "h0" }
            [[step]]
            expect = { recovered = true, within = "30s" }
            [[step]]
            sighting = { vms = "web_0", running = false }
            as = "second"
            [[step]]
            expect = { shown_to = "web_0", within = "1m" }
            """
        ),
        log=messages,
    )
    assert sentences(result)[:3] == [
        (True, "crash was Started after 0 s"),
        (True, "web_0 runs again after 5 m 30 s"),
        (True, "second is shown to web_0"),
    ]
    # 30 s for the confirmation, 5 min, and 30 s again.
    # 30 s to confirm, then 5 min and 30 s.
    assert [finding.at // SECOND for finding in result.findings][:2] == [30, 360]
    assert messages[0] == "the driver sees web_0 stop (failed), called crash"
    assert "the driver sees web_0 run on h0" in messages


def test_change_that_is_undone_in_time_or_by_a_user_fails_nothing() -> None:
    [result] = run(
        scenario(
            _STOPS
            + """
            [[step]]
            after = "20s"
            sighting = { vms = "web_0", running = true }
            [[step]]
            sighting = { vms = "web_1", running = false, cause = "shut-down" }
            [[step]]
            expect = { status = "Started", event = "crash", within = "10m" }
            """
        )
    )
    assert sentences(result) == [(False, "crash has no event")]


def test_vm_that_moved_gets_the_events_of_its_new_host() -> None:
    [result] = run(
        scenario(
            """
            [[step]]
            sighting = { vms = "web_0", running = true, host = "spare" }
            [[step]]
            after = "31s"
            maintain = "spare"
            impact = "reboot"
            [[step]]
            expect = { shown_to = "web_0" }
            """
        )
    )
    assert sentences(result) == [(True, "e1 is shown to web_0")]


def test_settings_of_the_driver_apply() -> None:
    [result] = run(
        scenario(
            f"""
            [settings]
            sighting_confirm = "2s"
            sightings_max = 1
            {_STOPS}
            [[step]]
            expect = {{ status = "Started", within = "2s" }}
            [[step]]
            sighting = {{ vms = ["web_1", "web_2"], running = false }}
            as = "mass"
            [[step]]
            expect = {{ status = "Started", event = "mass", within = "1h" }}
            """
        )
    )
    assert sentences(result) == [
        (True, "crash was Started after 0 s"),
        (False, "mass has no event"),
    ]
    assert result.findings[0].at == 2 * SECOND


def test_sightings_are_confirmed_on_the_clock_of_the_machine() -> None:
    wanted = scenario(
        f"""
        [settings]
        sighting_confirm = "1s"
        {_STOPS}
        [[step]]
        expect = {{ status = "Started", within = "1h" }}
        """
    )

    async def play() -> Result:
        stage = running_stage(setup_for([wanted], speed=600), clock=SystemClock())
        stage.begin()
        time = RunningTime(stage)
        result = await Runner(stage, time, expected=Expected.SCENARIO).run(wanted)
        await stage.end()
        return result

    result = asyncio.run(play())
    assert (True, "crash was Started") in {
        (passed, said.partition(" after ")[0]) for passed, said in sentences(result)
    }, summary(result)
    assert result.took >= SECOND


@pytest.mark.parametrize(
    ("vm", "host", "why"),
    [
        ("web_9", "h0", "there is no VM 'web_9'"),
        ("web_0", "h9", "there is no host 'h9'"),
    ],
)
def test_names_that_another_fleet_does_not_have_are_refused(
    vm: str, host: str, why: str
) -> None:
    own = scenario(_STOPS)
    see = model.See(vms=(vm,), is_running=False, host=host)
    [result] = run(replace(own, steps=(replace(own.steps[0], act=see),)))
    assert why in sentences(result)[0][1]
    assert not result.passed


def test_sighted_vms_and_hosts_are_roles() -> None:
    own = scenario(
        '[[step]]\nsighting = { vms = "web_1", running = true, host = "h0" }\n'
    )
    fleet = '[[scope]]\nname = "db"\nkind = "availability-set"\n' + "".join(
        f'[[host]]\nname = "n{n}"\n[[vm]]\nname = "db{n}"\nhost = "n{n}"\n'
        'scope = "db"\n'
        for n in range(2)
    )
    played = next(casting.casts(own, fleet, names=["db1", "db0"]))
    assert played.steps[0].act == model.See(vms=("db1",), is_running=True, host="n0")
    [result] = run(played, asked=("db0",))
    assert result.passed
