"""`forewarn simulate` with a user's names, fleet, times and variables."""

import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from forewarn.cli.junit_file import NOT_ENDED
from forewarn.sim.playlist import CUT, NOT_BEGUN
from tests.support.processes import eventually
from tests.system.test_simulate import ANYWHERE, FAST, Start, client, start

__all__ = ["start"]

pytestmark = [pytest.mark.system, pytest.mark.slow]

SOLO = '[[host]]\nname = "box"\n[[vm]]\nname = "solo"\nhost = "box"\n'


def errors(file: Path) -> list[str]:
    """Return what a JUnit report has as errors."""
    elements = ET.parse(file).getroot().iter("error")
    return [str(element.get("message")) for element in elements]


@pytest.mark.long
def test_scenario_uses_the_vm_named_by_the_user(start: Start) -> None:
    arguments = ("spot-preemption", "user-reboot", "--name=zeus", "--name=web_0")
    simulator = start(*arguments, *FAST).wait_ready()
    assert list(simulator.urls)[:2] == ["zeus", "web_0"]
    with client(simulator.urls["zeus"], "true"):
        assert simulator.ended() == 0, simulator.log()
    assert "reboot zeus" in simulator.log()
    assert "evict zeus" in simulator.log()


def test_scenario_runs_on_the_vms_of_a_given_fleet(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "fleet.toml").write_text(SOLO, encoding="utf-8")
    simulator = start("user-reboot", "--fleet=fleet.toml", *FAST).wait_ready()
    with client(simulator.urls["solo"], "true"):
        assert simulator.ended() == 0, simulator.log()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SOLO,
            "live-migration cannot be played on this fleet: maintain (live-migrate)",
        ),
        ("", "the fleet file fleet.toml has no VMs"),
        ('[[host]]\nname = "box"\n', "the fleet file fleet.toml has no VMs"),
    ],
)
def test_unsuitable_fleet_is_refused_at_once(
    start: Start, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "fleet.toml").write_text(text, encoding="utf-8")
    simulator = start("live-migration", "--fleet=fleet.toml", *ANYWHERE)
    assert simulator.ended() == 2
    assert said in simulator.log()
    assert "hint: " in simulator.log()
    assert "serving" not in simulator.log()


def test_scenario_that_times_out_reports_what_it_waited_for(
    start: Start, tmp_path: Path
) -> None:
    arguments = ("user-reboot", "--timeout=1s", "--speed=1", "--junit=report.xml")
    simulator = start(*arguments, *ANYWHERE).wait_ready()
    simulator.document()
    assert simulator.ended() == 1
    [why] = errors(tmp_path / "report.xml")
    assert why.startswith("it did not end within 1 s (--timeout); it waited for: ")
    assert "web_0 approves each event that names it" in why
    assert "reboot of vm web_0 is Announced" in why
    assert why in simulator.log()


@pytest.mark.long
def test_next_scenario_is_played_after_a_timeout(
    start: Start,
) -> None:
    arguments = ("user-reboot", "mine.toml", "--timeout=1s", "--speed=1", "--wait=0s")
    simulator = start(*arguments, "--expect=none", *ANYWHERE)
    assert simulator.ended() == 1
    assert "scenarios 2, failed 2" in simulator.log()
    assert "a client that asks" not in simulator.log()


@pytest.mark.long
def test_start_after_delays_the_scenario(start: Start) -> None:
    arguments = ("user-reboot", "--start-after=1s", "--wait=0s", "--expect=none")
    simulator = start(*arguments, *FAST)
    assert simulator.ended() == 0, simulator.log()
    lines = simulator.log().splitlines()
    [waits] = [at for at, line in enumerate(lines) if "starts in 1 s" in line]
    [begins] = [at for at, line in enumerate(lines) if "begin  " in line]
    assert waits < begins


def test_interrupted_scenario_is_in_the_report(start: Start, tmp_path: Path) -> None:
    arguments = ("user-reboot", "--wait=0s", "--expect=none", "--junit=report.xml")
    simulator = start(*arguments, "--speed=1", *ANYWHERE).wait_ready()
    eventually(simulator.log, lambda log: "step " in log, what="a step")
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 128 + signal.SIGTERM
    assert errors(tmp_path / "report.xml") == [CUT]


@pytest.mark.long
def test_unfinished_scenarios_at_a_signal_are_in_the_report(
    start: Start, tmp_path: Path
) -> None:
    arguments = ("mine.toml", "user-reboot", "live-migration", "--junit=report.xml")
    simulator = start(
        *arguments, "--wait=0s", "--expect=none", "--speed=6000", *ANYWHERE
    )
    eventually(simulator.log, lambda log: "begin     user-" in log, what="the second")
    simulator.process.send_signal(signal.SIGTERM)
    assert simulator.ended() == 128 + signal.SIGTERM
    reported = errors(tmp_path / "report.xml")
    assert reported in ([CUT, NOT_BEGUN], [NOT_BEGUN]), "the second may be over by then"
    assert "a signal" in reported[0]
    names = [case.get("name") for case in ET.parse(tmp_path / "report.xml").getroot()]
    assert names == ["mine", "user-reboot", "live-migration"]
    assert f"not ended {len(reported)}, interrupted by a signal" in simulator.log()


@pytest.mark.long
def test_killed_run_leaves_no_report_of_an_earlier_run(
    start: Start, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuites tests='1' failures='0'/>", encoding="utf-8")
    arguments = ("user-reboot", "live-migration", "--junit=report.xml")
    simulator = start(*arguments, *ANYWHERE).wait_ready()
    eventually(lambda: errors(report), lambda listed: len(listed) == 2)
    simulator.process.kill()
    simulator.process.wait()
    [first, second] = errors(report)
    assert first == second == NOT_ENDED
    assert not list(tmp_path.glob(".report*"))


def test_run_that_does_not_start_leaves_no_report_of_an_earlier_run(
    start: Start, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuites tests='1' failures='0'/>", encoding="utf-8")
    simulator = start("user-rebot", "--junit=report.xml", *ANYWHERE)
    assert simulator.ended() == 2
    [why] = errors(report)
    assert "does not exist" in why
    assert "user-rebot" in why


def test_environment_variables_set_options(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SCENARIO": "user-reboot",
        "NAME": "my-host other-host",
        "WAIT": "0s",
        "EXPECT": "none",
        "SPEED": "1",
        "LISTEN": "127.0.0.1:0",
        "ADMIN": "127.0.0.1:0",
        "PLAIN": "yes",
        # A container platform's own, for a service of this name.
        "SERVICE_HOST": "10.0.0.1",
    }.items():
        monkeypatch.setenv(f"FOREWARN_SIMULATE_{name}", value)
    simulator = start("--speed=600")
    assert simulator.ended() == 0, simulator.log()
    assert "reboot my-host" in simulator.log()
    assert "at speed 600 (--speed)" in simulator.log()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SPED", "1", '(did you mean "FOREWARN_SIMULATE_SPEED"?)'),
        ("PROFILE", "harsh", "FOREWARN_SIMULATE_PROFILE: must be one of real, strict"),
        ("LOOP", "perhaps", "FOREWARN_SIMULATE_LOOP: must be one of 1, true, yes"),
        ("TIMEOUT", "0s", "--timeout: must be more than 0s"),
    ],
)
def test_wrong_variables_are_reported(
    start: Start, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"FOREWARN_SIMULATE_{name}", value)
    simulator = start(*ANYWHERE)
    assert simulator.ended() == 2
    assert said in simulator.log()
