"""Host steps as values: how requests name them, and which arguments they may give."""

import pytest

from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.host_steps import (
    ARGUMENTS_MAX,
    NO_STEPS,
    HostStep,
    StepKind,
    StepRule,
    StepRules,
    arguments_problem,
    parse_step,
    step_name_problem,
)

RULE = StepRule(arguments=(("slot", "[01]?"), ("version", "[0-9.]+")))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("flash", ()),
        ("flash:version=2.19", (("version", "2.19"),)),
        ("flash:version=2.19,slot=1", (("slot", "1"), ("version", "2.19"))),
        ("flash:url=https://h/x?a=b", (("url", "https://h/x?a=b"),)),
        ("flash:slot=", (("slot", ""),)),
    ],
)
def test_step_is_read_from_text(
    text: str, arguments: tuple[tuple[str, str], ...]
) -> None:
    step = parse_step(StepKind.WORK, text)
    assert step == HostStep(kind=StepKind.WORK, name="flash", arguments=arguments)
    assert parse_step(StepKind.WORK, step.text) == step


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not the name of a host step"),
        ("Flash", "'Flash' is not the name of a host step"),
        ("/bin/sh", "'/bin/sh' is not the name of a host step"),
        ("a b:version=1", "'a b' is not the name of a host step"),
        ("flash:", "'' is not an argument"),
        ("flash:version", "'version' is not an argument"),
        ("flash:a=1,a=2", "argument a is given twice"),
        ("flash:A=1", "'A' is not the name of an argument"),
        (
            "flash:" + ",".join(f"a{n}=1" for n in range(ARGUMENTS_MAX + 1)),
            f"it has {ARGUMENTS_MAX + 1} arguments, more than {ARGUMENTS_MAX}",
        ),
    ],
)
def test_malformed_step_is_refused_with_its_option(text: str, message: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        parse_step(StepKind.VERIFY, text)
    assert refused.value.message.startswith(f"verify: {message}")
    assert "--verify flash:version=2.19" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("flash:version=2.19,slot=", ""),
        ("flash:slot=1", "host step flash needs the argument version"),
        (
            "flash:version=2.19,slot=2",
            "argument slot of host step flash must match '[01]?', not '2'",
        ),
        (
            "flash:version=2.19;reboot,slot=",
            (
                "argument version of host step flash must match '[0-9.]+', not "
                "'2.19;reboot'"
            ),
        ),
        (
            "flash:version=2.19,disk=a,slot=",
            "host step flash has no argument disk (it has: slot, version)",
        ),
        (
            "flash:version=-9",
            "argument version of host step flash must not begin with a hyphen: '-9'",
        ),
        (
            "flash:version=1\n",
            "argument version of host step flash contains control characters",
        ),
        (
            "flash:version=" + "1" * 201,
            "argument version of host step flash has 201 characters, more than 200",
        ),
    ],
)
def test_arguments_must_match_their_patterns(text: str, problem: str) -> None:
    step = parse_step(StepKind.WORK, text)
    assert arguments_problem(step, RULE, takes_any=False) == problem


def test_step_without_arguments_takes_none() -> None:
    step = parse_step(StepKind.WORK, "reset:hard=1")
    problem = "host step reset has no argument hard (it has: none)"
    assert arguments_problem(step, StepRule(), takes_any=False) == problem
    assert not arguments_problem(step, StepRule(), takes_any=True)


def test_rules_find_steps_by_name() -> None:
    rules = StepRules(rules=(("flash", RULE),))
    assert rules.find("flash") is RULE
    assert rules.find("reset") is None
    assert rules.names == ("flash",)
    assert StepRules(takes_any=True).find("reset") == StepRule()
    assert NO_STEPS.find("flash") is None


REBOOT = HostStep(kind=StepKind.WORK, name="reboot-host")
ANSWERS = HostStep(kind=StepKind.ANSWERS, name="host-answers")


def test_usual_steps_of_a_reboot_are_those_that_the_settings_have() -> None:
    both = StepRules(rules=(("host-answers", StepRule()), ("reboot-host", StepRule())))
    assert both.usual_steps(frozenset()) == (REBOOT, ANSWERS)
    assert both.usual_steps(frozenset({StepKind.WORK})) == (ANSWERS,)
    assert both.usual_steps(frozenset({StepKind.ANSWERS})) == (REBOOT,)
    only = StepRules(rules=(("host-answers", StepRule()),))
    assert only.usual_steps(frozenset()) == (), "nothing has been done to the host"
    assert only.usual_steps(frozenset({StepKind.WORK})) == (ANSWERS,)


def test_usual_step_that_needs_arguments_is_not_usual() -> None:
    rules = StepRules(rules=(("reboot-host", RULE), ("host-answers", RULE)))
    assert rules.usual_steps(frozenset({StepKind.WORK})) == ()
    assert rules.usual_steps(frozenset()) == ()
    assert StepRules(takes_any=True).usual_steps(frozenset()) == ()


def test_step_name_is_checked() -> None:
    assert not step_name_problem("flash-bios_2")
    assert "starting with a letter" in step_name_problem("2")
