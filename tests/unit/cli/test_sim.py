"""`forewarn sim …`: every command against a simulator, in words and as JSON."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forewarn.service.listening import url_of
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.simulators import Simulation, simulation
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def running() -> Iterator[Simulation]:
    loop = LoopThread()
    with simulation(loop) as simulator:
        yield simulator
    loop.close()


@pytest.fixture
def sim(
    running: Simulation, forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Return a way to give a `sim` command to a simulator that has just begun."""
    address = running.simulator.admin_address
    assert address is not None
    monkeypatch.setenv("FOREWARN_URL", url_of(address))
    running.sim("reset", {})
    running.document()
    return lambda *words: forewarn("sim", *words)


def test_clock_is_shown_and_changed(sim: Run) -> None:
    assert ", speed 60; the next timer is at " in sim("clock").out
    assert ", paused" in sim("clock", "pause").out
    assert json.loads(sim("clock", "resume", "--json").out)["paused"] is False
    assert sim("clock", "step").status == 0
    assert sim("clock", "jump", "10m").status == 0
    wrong = sim("clock", "jump")
    assert (wrong.status, wrong.err) == (
        2,
        "forewarn: `jump` needs `by`\n  hint: Set `by`, such as 10m.\n",
    )
    assert "only `jump` does" in sim("clock", "step", "3s").err


def test_event_is_published_and_advanced(sim: Run, running: Simulation) -> None:
    ended = sim("event", "Freeze", "web_0", "--notice", "2h", "--duration", "5s")
    assert (ended.status, "Announced" in ended.out) == (0, True)
    [event] = running.events()
    assert (event["EventType"], event["DurationInSeconds"]) == ("Freeze", 5)
    moved = sim("move", event["EventId"], "started", "--json")
    assert json.loads(moved.out)["state"] == "Impacting"
    refused = sim("move", event["EventId"], "cancelled")
    assert (refused.status, refused.out) == (4, "")
    moving = sim("event", "Preempt", "web_1", "--migrate")
    assert (moving.status, moving.out) == (4, "")
    assert moving.err.startswith("forewarn: a Preempt cannot be a live migration\n")


def test_unreachable_simulator_is_reported_with_a_start_command(forewarn: Run) -> None:
    ended = forewarn("sim", "clock", "--url", "http://127.0.0.1:9")
    assert ended.status == 3
    assert "the simulator at http://127.0.0.1:9 cannot be reached" in ended.err
    assert "Check that it runs (`forewarn simulate`)" in ended.err


def test_approvals_are_withheld_and_released(sim: Run) -> None:
    assert sim("withhold", "web_0", "web_1").out == (
        "withheld: approvals of web_0, web_1\n"
    )
    assert sim("release", "web_0").out == "withheld: approvals of web_1\n"
    assert json.loads(sim("release", "web_1", "--json").out) == {
        "withheld": [],
        "refusals": [],
    }
    assert sim("withhold", "nix").status == 4


def test_vms_are_listed_added_and_removed(sim: Run) -> None:
    assert len(sim("vm").out.splitlines()) == 4
    added = json.loads(sim("vm", "add", "late", "--spot", "--json").out)
    assert (added["scope"], added["state"]) == ("web", "running")
    assert "late" in sim("vm", "list").out
    removed = sim("vm", "remove", "late")
    assert (removed.status, "late" in removed.out) == (0, False)
    assert sim("vm", "add").status == 2
    assert sim("vm", "list", "web_0").status == 2
    assert sim("vm", "add", "x", "--fault-domain", "two").status == 2


def test_error_of_a_new_vm_is_reported_without_a_file_name(sim: Run) -> None:
    wrong = sim("vm", "add", "bad name")
    assert wrong.err.startswith(
        'forewarn: "bad name" is not a valid name: it must not contain'
    )
    wrong = sim("vm", "add", "x", "--host", "nowhere")
    assert 'forewarn: there is no host "nowhere"' in wrong.err
    assert "the fleet:" not in wrong.err
    before = json.loads(sim("vm", "add", "y", "--json").out)["url"]
    assert sim("vm", "remove", "y").status == 0
    # A refused request takes no address.
    assert sim("vm", "add", "z", "--scope", "nix").status == 2
    assert json.loads(sim("vm", "add", "y", "--json").out)["url"] == before


def test_faults_are_set_listed_and_cleared(sim: Run) -> None:
    message = sim("fault", "web_0", "500", "x2,", "timeout,", "empty").out
    assert "500 x2, timeout x1, empty x1" in message
    assert "all" in sim("fault", "--all", "delay", "3s").out
    assert len(json.loads(sim("fault", "--json").out)) == 2
    assert sim("fault", "web_0", "--clear").status == 0
    assert sim("fault", "--clear").out == "no faults are set\n"
    assert sim("fault", "web_0").status == 2
    assert sim("fault", "web_0", "nothing-like-it").status == 2


def test_the_journal_is_listed(sim: Run, running: Simulation) -> None:
    running.document("web_1")
    [line] = sim("journal", "--vm", "web_1").out.splitlines()
    assert line.endswith(
        "  web_1  GET /metadata/scheduledevents?api-version=2020-07-01  200"
    )
    assert json.loads(sim("journal", "--method", "POST", "--json").out) == []
    assert sim("journal", "--method", "POST").out == "no requests\n"
    assert "VM 'nix' does not exist" in sim("journal", "--vm", "nix").err
    running.approve("C7061BAC-AFDC-4513-B24B-AA5F13A16123")
    assert "!! No document has, or had, an event" in sim("journal", "--deviating").out


def test_reset_restarts_the_simulation(sim: Run) -> None:
    assert sim("reset").out == "restarted with 3 VMs\n"
    assert len(json.loads(sim("reset", "--json").out)) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--vms none", "--vms: must be 1 to"),
        ("--speed 0", "--speed: must be"),
        ("--listen 8301", "is not an address for VMs"),
        ("--admin 0.0.0.0:8200", "has no tokens"),
        ("--admin x", "is not a valid address"),
        ("--junit nowhere/report.xml", "cannot be written: No such file"),
        ("--junit tests", "tests cannot be written: Is a directory"),
        ("--wait soon", "--wait: 'soon' is not a duration"),
        ("--loop", "--loop needs a scenario"),
        ("--vms 5 spot-preemption", "--vms has no effect: spot-preemption has its"),
        (
            "--fleet FLEET spot-preemption terminate-one",
            "spot-preemption cannot be played on this fleet: no VM can be spot_0",
        ),
        ("--fleet FLEET --vms 5", "--vms cannot be combined with --fleet"),
        ("live-migratoin", "does not exist (did you mean"),
        ("live-migration +", "a + must be between two scenarios"),
        ("spot-preemption + platform-reboot", "cannot run at the same time"),
        ("nowhere.toml", "cannot be read"),
        ("/", "cannot be read: it is a directory"),
        ("--show ./nowhere.toml", "nowhere.toml cannot be read"),
        ("--show nothing-like-it", "does not exist"),
        ("--faults nowhere.toml", "cannot be read"),
    ],
)
def test_invalid_arguments_start_no_simulation(
    forewarn: Run, tmp_path: Path, words: str, said: str
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(fleets.fleet_text(), encoding="utf-8")
    ended = forewarn("simulate", *words.replace("FLEET", str(file)).split())
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_scenarios_are_listed_with_their_timelines(forewarn: Run) -> None:
    document = json.loads(forewarn("simulate", "--list", "--json").out)
    assert len(document) > 15
    for scenario in document:
        keys = {"name", "aliases", "description", "speed", "clients", "timeline"}
        assert set(scenario) == keys
        assert scenario["clients"], scenario["name"]
        assert scenario["timeline"], scenario["name"]
    plain = forewarn("simulate", "--list").out
    assert all(f"\n  {row['description']}\n" in plain for row in document)


def test_scenario_is_shown_as_toml(forewarn: Run) -> None:
    ended = forewarn("simulate", "--show", "live-migration")
    assert 'name = "live-migration"' in ended.out
    assert forewarn("simulate", "--show", "nix").status == 2
