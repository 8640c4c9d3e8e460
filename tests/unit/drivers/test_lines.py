"""The lines of programs that are asked about many VMs."""

import json

import pytest

from forewarn.drivers import lines
from forewarn.drivers.marks import HOST, Mark, MarkState, Reading, parse_mark
from forewarn.drivers.port import Call, CallVm, HostVms, Observation
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.operations import Action

CALL = Call(
    operation_id="op-1",
    generation=2,
    action=Action.REBOOT,
    host="h1",
    vms=(CallVm(vm="web_0"), CallVm(vm="web_1")),
    duration_seconds=-1,
)
STEP = Call(
    operation_id="vi-1",
    generation=3,
    action=Action.NONE,
    host="h1",
    vms=(),
    duration_seconds=-1,
    step=HostStep(kind=StepKind.WORK, name="flash"),
)


def test_program_is_asked_about_each_vm_with_its_mark() -> None:
    questions = [json.loads(line) for line in lines.questions_of(CALL).splitlines()]
    assert questions == [
        {"vm": "web_0", "hosts": ["h1"], "mark": "op-1.2.reboot"},
        {"vm": "web_1", "hosts": ["h1"], "mark": "op-1.2.reboot"},
    ]
    assert json.loads(lines.questions_of(STEP)) == {"host": "h1", "mark": "vi-1.3.work"}


def test_program_observes_many_vms_with_one_line_each() -> None:
    vms = [f"vm_{number}" for number in range(1000)]
    questions = [json.loads(line) for line in lines.questions_about(vms).splitlines()]
    assert questions == [{"vm": vm} for vm in vms]
    expected = {"vm_1": ["h2", "h1"]}
    [first, second] = lines.questions_about(vms[:2], expected).splitlines()
    assert json.loads(first) == {"vm": "vm_0"}
    assert json.loads(second) == {"vm": "vm_1", "hosts": ["h2", "h1"]}
    answers = [
        {"vm": "vm_0", "running": True, "host": "h1"},
        {"vm": "vm_1", "running": False, "host": "h1"},
        {"vm": "vm_2", "running": True},
        {"vm": "vm_3", "running": "yes", "host": "h1"},
        {"vm": "vm_4", "running": True, "host": "-h1"},
        {"vm": "vm_5", "running": True, "host": "h1"},
        {"vm": "vm_5", "running": True, "host": "h2"},
        {"vm": "other", "running": True},
        {"vm": ["vm_6"], "running": True},
        {"running": True},
        5,
    ]
    text = "\n".join(["{", *(json.dumps(line) for line in answers)])
    observations = lines.observations_in(text, vms)
    assert list(observations) == vms
    assert {
        vm: observation
        for vm, observation in observations.items()
        if observation != Observation()
    } == {
        "vm_0": Observation(running=True, host="h1"),
        "vm_1": Observation(running=False),
        "vm_2": Observation(running=True),
        "vm_4": Observation(running=True),
        "vm_5": Observation(running=True, host="h2"),
    }


def test_reading_has_the_mark_and_where_the_vm_runs() -> None:
    line = {
        "vm": "web_0",
        "mark": "op-1.2.reboot",
        "state": "done",
        "running": True,
        "host": "h2",
    }
    mark = Mark(operation_id="op-1", generation=2, work="reboot", state=MarkState.DONE)
    readings = lines.readings_in(json.dumps(line), CALL, ("web_0", "web_1"))
    assert readings == {"web_0": Reading(mark=mark, running=True, host="h2")}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[",
        "5",
        "[" * 100_000,
        '{"vm": "web_0"}',
        '{"vm": "web_2", "mark": null}',
        '{"vm": ["web_0"], "mark": null}',
        '{"host": "h1", "mark": null}',
        '{"vm": "web_0", "mark": "op-1"}',
        '{"vm": "web_0", "mark": 5}',
        '{"vm": "web_0", "mark": "op-1.2.reboot", "state": "half"}',
        '{"vm": "web_0", "mark": "op-1.2.reboot", "state": ["done"]}',
    ],
)
def test_invalid_line_tells_nothing(line: str) -> None:
    assert lines.readings_in(line, CALL, ("web_0", "web_1")) == {}


def test_missing_mark_is_another_answer_than_no_line() -> None:
    readings = lines.readings_in('{"vm": "web_0", "mark": null}', CALL, ("web_0",))
    assert readings == {"web_0": Reading()}


def test_host_is_named_by_its_own_line() -> None:
    line = '{"host": "h1", "mark": "vi-1.3.work"}'
    assert lines.readings_in(line, STEP, (HOST,))[HOST].mark == parse_mark(
        "vi-1.3.work", "begun"
    )
    other = line.replace("h1", "h2")
    assert lines.readings_in(other, STEP, (HOST,)) == {}


@pytest.mark.parametrize("host", ["-rf", 5, "", None])
def test_host_that_is_no_name_is_left_out(host: object) -> None:
    line = json.dumps({"vm": "web_0", "mark": None, "host": host, "running": "yes"})
    assert lines.readings_in(line, CALL, ("web_0",)) == {"web_0": Reading()}


HOSTS = (HostVms(host="h1", vms=("web_0", "web_1")), HostVms(host="h2", vms=()))


def abilities(*said: object) -> dict[str, tuple[Ability, ...]]:
    text = "\n".join(map(json.dumps, said))
    return lines.abilities_in(f"{text}\nnot JSON\n[1]\n", HOSTS)


def test_question_about_abilities_has_a_line_for_each_host() -> None:
    text = lines.questions_about_abilities(HOSTS).decode()
    assert [json.loads(line) for line in text.splitlines()] == [
        {"host": "h1", "vms": ["web_0", "web_1"]},
        {"host": "h2", "vms": []},
    ]


def test_line_about_several_actions_is_an_answer_about_each() -> None:
    line = {
        "host": "h1",
        "vm": "web_0",
        "actions": ["freeze", "live-migrate", "teleport", 7, "none"],
        "able": "no",
        "reason": "two\nlines",
    }
    reason = "two lines"
    assert abilities(line) == {
        "h1": tuple(
            Ability(able=Able.NO, action=action, vm="web_0", reason=reason)
            for action in (Action.FREEZE, Action.LIVE_MIGRATE)
        )
    }


@pytest.mark.parametrize(
    "line",
    [
        {"host": "h1"},
        {"host": "h1", "able": "maybe"},
        {"host": "h1", "able": ["no"]},
        {"host": "h9", "able": "no"},
        {"host": 1, "able": "no"},
        {"able": "no"},
        {"host": "h1", "vm": "db_0", "able": "no"},
        {"host": "h1", "vm": 1, "able": "no"},
        {"host": "h1", "able": "no", "actions": "freeze"},
    ],
)
def test_line_that_is_not_valid_or_about_others_tells_nothing(line: object) -> None:
    assert abilities(line) == {}


def test_last_line_about_the_same_counts_and_reasons_are_bounded() -> None:
    by_host = abilities(
        {"host": "h2", "able": "no"},
        {"host": "h2", "able": "yes", "reason": "x" * 1000},
        {"host": "h1", "able": "unknown", "reason": 5},
    )
    assert by_host["h1"] == (Ability(able=Able.UNKNOWN),)
    [found] = by_host["h2"]
    assert found.able is Able.YES
    assert len(found.reason) == lines.REASON_CHARACTERS_MAX
