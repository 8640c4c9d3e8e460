"""Scenario files: their contents, and messages about problems."""

from pathlib import Path

import pytest

from forewarn.instants import DAY, MINUTE, SECOND
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.service.option_table import OPTIONS
from forewarn.sim.scenario import model
from forewarn.sim.scenario.file import (
    FLEET_BYTES_MAX,
    SCENARIO_BYTES_MAX,
    SETTING_TABLES,
    SETTINGS,
    UNHEEDED,
    ScenarioError,
    load_scenario,
    read_scenario,
)
from forewarn.sim.scenario.model import EventPhase, Expectation, Scenario, Step, Wanted
from forewarn.sim.staged import Stop

MESSAGES = Path(__file__).parent / "messages.txt"


def read(text: str, *, directory: Path | None = None) -> Scenario:
    return read_scenario(text, file="mine.toml", directory=directory)


def steps(text: str) -> list[Step]:
    return list(read(text).steps)


def acts(text: str) -> list[object]:
    return [step.act for step in steps(text)]


def test_file_with_one_step_is_valid() -> None:
    scenario = read('[[step]]\nreboot = "web_0"\n')
    assert scenario.name == "mine"
    assert scenario.steps == (
        Step(line=1, act=model.Order(verb="reboot", targets=("web_0",)), name="e1"),
    )
    assert scenario.fleet == model.Fleet()
    assert scenario.settings == {}


def test_step_times_count_from_the_start_or_the_previous_step() -> None:
    first, second, third = steps(
        """
        [[step]]
        say = "one"
        [[step]]
        at = "1h30m"
        say = "two"
        [[step]]
        after = "PT5S"
        say = "three"
        """
    )
    assert (first.at, first.after) == (None, 0)
    assert (second.at, second.after) == (90 * MINUTE, 0)
    assert (third.at, third.after) == (None, 5 * SECOND)


def test_requests_have_the_options_of_the_command_line() -> None:
    maintain, predict, evict, restore = acts(
        """
        [[step]]
        maintain = ["h0", "h1"]
        impact = "live-migrate"
        duration = "7s"
        not_before = "+20m"
        description = ""
        emergency = true
        [[step]]
        predict-failure = "h2"
        in = "3d"
        duration = -1
        [[step]]
        evict = "web_1"
        [[step]]
        restore = "h0"
        """
    )
    assert maintain == model.Order(
        verb="maintain",
        targets=("h0", "h1"),
        values={
            "impact": "live-migrate",
            "duration": 7,
            "not_before": 20 * MINUTE,
            "description": "",
            "emergency": True,
        },
    )
    assert predict == model.Order(
        verb="predict-failure", targets=("h2",), values={"in": 3 * DAY, "duration": -1}
    )
    assert evict == model.Order(verb="evict", targets=("web_1",))
    assert restore == model.Order(verb="restore", targets=("h0",))


def test_custom_event_can_be_a_table_or_inline() -> None:
    first, second = acts(
        """
        [[step]]
        event = { type = "Freeze", vms = ["web_0"], notice = "1m", migrate = true }
        [[step]]
        [step.event]
        type = "Reboot"
        source = "User"
        vms = "web_1"
        notice = "0s"
        duration = "30s"
        routine = true
        """
    )
    assert isinstance(first, model.Publish)
    assert first.wanted.event_type is EventType.FREEZE
    assert first.wanted.source is EventSource.PLATFORM
    assert first.wanted.notice == MINUTE
    assert first.wanted.migrates
    assert isinstance(second, model.Publish)
    assert second.wanted.source is EventSource.USER
    assert second.wanted.duration_seconds == 30
    assert second.wanted.routine


def test_later_steps_use_a_named_event_or_the_latest() -> None:
    parsed = steps(
        """
        [[step]]
        reboot = "web_0"
        [[step]]
        reboot = "web_1"
        as = "second"
        [[step]]
        approve = "e1"
        by = "web_0"
        [[step]]
        move = "second"
        to = "Recovering"
        [[step]]
        expect = { status = "Removed", within = "1h" }
        [[step]]
        cancel = "e1"
        may_be_refused = true
        """
    )
    assert [step.name for step in parsed] == ["e1", "second", "", "", "", ""]
    assert parsed[2].act == model.Approve(event="e1", by="web_0")
    assert parsed[3].act == model.MoveOn(event="second", stop=Stop.RECOVERING)
    assert parsed[4].act == model.Expect(
        expectation=Expectation(
            wanted=Wanted.STATUS,
            within=60 * MINUTE,
            event="second",
            phase=EventPhase.REMOVED,
        )
    )
    assert parsed[5].may_be_refused


def test_other_steps_and_expectations_are_parsed() -> None:
    parsed = acts(
        """
        [[step]]
        fault = "500 x2"
        vms = "web_0"
        [[step]]
        clear-faults = true
        [[step]]
        withhold = "web_0"
        [[step]]
        release = ["web_0"]
        [[step]]
        disable = "web_0"
        [[step]]
        jump = "10m"
        [[step]]
        fail = "web_0"
        [[step]]
        expect = { seen_by = "web_1", as = "Started", within = "5s" }
        [[step]]
        expect = { no_deviation = true }
        [[step]]
        expect = { not_approved = ["web_2"], within = "5s" }
        """
    )
    assert isinstance(parsed[0], model.SetFaults)
    assert parsed[0].playbook.vms == ("web_0",)
    assert parsed[1:6] == [
        model.ForVms(what="clear-faults", vms=()),
        model.ForVms(what="withhold", vms=("web_0",)),
        model.ForVms(what="release", vms=("web_0",)),
        model.ForVms(what="disable", vms=("web_0",)),
        model.Jump(by=10 * MINUTE),
    ]
    assert parsed[7:] == [
        model.Expect(
            expectation=Expectation(
                wanted=Wanted.SEEN_BY,
                within=5 * SECOND,
                vms=("web_1",),
                event="e1",
                status=EventStatus.STARTED,
            )
        ),
        model.Expect(expectation=Expectation(wanted=Wanted.NO_DEVIATION, within=0)),
        model.Expect(
            expectation=Expectation(
                wanted=Wanted.NOT_APPROVED,
                within=5 * SECOND,
                vms=("web_2",),
                event="e1",
            )
        ),
    ]


def test_settings_use_the_names_of_the_service() -> None:
    scenario = read(
        """
        [settings]
        recovery = "4m"
        reboot = "20s"
        disable_after = "1h"
        failure_event = "Redeploy"
        attempts = 2
        faults = ["reboot fail times=2"]
        [[step]]
        say = "hello"
        """
    )
    assert scenario.settings == {
        "timing.recovery": "4m",
        "driver.simulated.reboot": "20s",
        "metadata.disable_after": "1h",
        "timing.failure_event": "Redeploy",
        "driver.attempts": "2",
        "driver.simulated.faults": "reboot fail times=2",
    }


def test_each_setting_of_a_scenario_has_a_name_of_its_own() -> None:
    settable = {
        name
        for name in OPTIONS
        if name.rpartition(".")[0] in SETTING_TABLES and name not in UNHEEDED
    }
    assert set(SETTINGS.values()) == settable


def test_aliases_can_set_a_speed() -> None:
    scenario = read(
        """
        aliases = ["One", { name = "Two" }, { name = "Three", speed = 2.5 }]
        [[step]]
        say = "hello"
        """
    )
    assert scenario.aliases == (
        model.Alias(name="One"),
        model.Alias(name="Two"),
        model.Alias(name="Three", speed=2.5),
    )


FLEET = """\
[[tenant]]
name = "shop"
[[host]]
name = "h9"
[[vm]]
name = "db_0"
host = "h9"
"""


def test_fleet_can_be_in_a_separate_file(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "mine.toml").write_text(
        '[fleet]\nfile = "fleet.toml"\n[[step]]\nreboot = "db_0"\n'
    )
    assert load_scenario(tmp_path / "mine.toml").fleet.text == FLEET


def test_problem_in_the_fleet_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET.replace('host = "h9"', 'host = "h8"'))
    with pytest.raises(ScenarioError) as caught:
        read('[fleet]\nfile = "fleet.toml"\n[[step]]\nsay = "x"\n', directory=tmp_path)
    assert str(caught.value).startswith("fleet.toml:7: vm.host: there is no host")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff", "mine.toml:2: fleet.file: fleet.toml is not UTF-8"),
        (
            b"#" * (FLEET_BYTES_MAX + 1),
            "fleet.toml cannot be read: it has more than 16 MiB",
        ),
    ],
)
def test_unreadable_fleet_file_is_reported(
    content: bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / "fleet.toml").write_bytes(content)
    text = '[fleet]\nfile = "fleet.toml"\n[[step]]\nsay = "x"\n'
    with pytest.raises(ScenarioError, match=told):
        read(text, directory=tmp_path)
    with pytest.raises(
        ScenarioError, match="this scenario has no directory with a fleet file"
    ):
        read(text)


def test_number_of_reported_problems_is_limited() -> None:
    with pytest.raises(ScenarioError) as caught:
        read("[[step]]\nsay = 1\n" * 60)
    assert len(caught.value.problems) == 50
    assert str(caught.value).endswith("and more: these are the first 50")


def test_inline_fleet_equals_a_fleet_file() -> None:
    scenario = read('[[step]]\nreboot = "db_0"\n' + FLEET.replace("[[", "[[fleet."))
    assert scenario.fleet.text == FLEET


def cases() -> list[tuple[str, str]]:
    """Return the files in `messages.txt`, each with its messages."""
    parts = MESSAGES.read_text(encoding="utf-8").strip("\n").split("\n====\n")
    pieces = [f"{part}\n".partition("----\n") for part in parts]
    return [(text, told.strip("\n")) for text, _, told in pieces]


def said_of(text: str, directory: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        read(text, directory=directory)
    return str(caught.value)


def test_mistakes_are_reported_with_line_and_key(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    reported = [(text, said_of(text, tmp_path)) for text, _ in cases()]
    if request.config.getoption("--rewrite"):
        MESSAGES.write_text(
            "\n====\n".join(f"{text}----\n{told}" for text, told in reported) + "\n",
            encoding="utf-8",
        )
    assert reported == cases()


def test_unreadable_file_is_reported_with_its_name(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read"):
        load_scenario(missing)
    missing.write_bytes(b"name = 'x'\n\xff")
    with pytest.raises(ScenarioError, match=r"none\.toml:2: is not UTF-8"):
        load_scenario(missing)
    missing.write_bytes(b"#" * (SCENARIO_BYTES_MAX + 1))
    with pytest.raises(ScenarioError, match="cannot be read: it has more than 1 MiB"):
        load_scenario(missing)


def test_problem_hint_states_that_nothing_was_run() -> None:
    with pytest.raises(ScenarioError) as caught:
        read("")
    assert str(caught.value) == "mine.toml: step: is missing"
    assert caught.value.hint == "Fix the scenario file; nothing was run."
