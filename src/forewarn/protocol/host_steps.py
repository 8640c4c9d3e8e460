"""Host steps: the programs around the maintenance of a host, as values.

A *host step* is a named program of the operator, such as one that flashes firmware. Its
name, its arguments and its timeout are settings of the service. A request only names
the step and gives arguments that match the patterns of the settings. Pure.
"""

from __future__ import annotations

import re

from forewarn.instants import MINUTE, Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.frozen import frozen_dataclass

VALUE_CHARACTERS_MAX = 200
"""Maximum characters of an argument: it is a version or a name, not a document."""

ARGUMENTS_MAX = 20
"""Maximum arguments of a step: a program with more of them should read a file."""

STEP_TIMEOUT: Micros = 30 * MINUTE
"""Default maximum run time of a step: a firmware update with its reboots takes less."""

_STEP_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
ARGUMENT_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
"""The name of an argument of a step, in the settings and in campaign files."""


REBOOT_STEP = "reboot-host"
"""Name of the host step that reboots a host. If the settings have it, it is the usual
`work` of maintenance with the impact reboot."""


ANSWERS_STEP = "host-answers"
"""Name of the host step that checks whether a host answers. If the settings have it, it is
the usual step `answers` after the work of a reboot."""


class StepKind(Enumeration):
    """The place of a step in the maintenance of a host, in this order."""

    NEEDED = "needed"
    """Checks if the host needs the work; it runs before any notice."""
    ENTER = "enter"
    """Prepares the host, before its VMs are affected."""
    WORK = "work"
    """Does the work."""
    ANSWERS = "answers"
    """Checks if the host answers after the work. It runs until it has succeeded."""
    VERIFY = "verify"
    """Checks if the work succeeded. It can run several times."""
    EXIT = "exit"
    """Undoes `enter`, before the host takes VMs again."""


@frozen_dataclass
class HostStep:
    """One step of a request."""

    kind: StepKind
    name: str
    """Name of the step in the settings."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Names and values, sorted by name."""

    @property
    def text(self) -> str:
        """Return the step as the caller writes it: `flash:version=2.19`."""
        arguments = ",".join(f"{name}={value}" for name, value in self.arguments)
        return f"{self.name}:{arguments}" if arguments else self.name


@frozen_dataclass
class StepRule:
    """The settings of one step that decide about requests."""

    arguments: tuple[tuple[str, str], ...] = ()
    """The arguments of the step, each with the pattern of its whole value."""
    timeout: Micros = STEP_TIMEOUT
    """Maximum run time of the program."""


_USUAL = {StepKind.WORK: REBOOT_STEP, StepKind.ANSWERS: ANSWERS_STEP}
"""The usual steps of a reboot, in their order."""


@frozen_dataclass
class StepRules:
    """The steps that a driver can run."""

    rules: tuple[tuple[str, StepRule], ...] = ()
    takes_any: bool = False
    """Whether steps without a rule can run too, with any arguments: in a simulation,
    no program runs."""

    def find(self, name: str) -> StepRule | None:
        """Return the rule of a step; None: the driver cannot run it."""
        for rule_name, rule in self.rules:
            if rule_name == name:
                return rule
        return StepRule() if self.takes_any else None

    def usual_steps(self, kinds: frozenset[StepKind]) -> tuple[HostStep, ...]:
        """Return the usual steps of a reboot, except those of the given kinds.

        `work` reboots the host, and `answers` follows `work`. The driver can only do what
        has a rule. A step that needs arguments must be named by each request.
        """
        usual: list[HostStep] = []
        for kind, name in _USUAL.items():
            rule = dict(self.rules).get(name)
            has_work = StepKind.WORK in kinds or bool(usual)
            is_due = kind is StepKind.WORK or has_work
            if kind not in kinds and rule and not rule.arguments and is_due:
                usual.append(HostStep(kind=kind, name=name))
        return tuple(usual)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the steps with a rule."""
        return tuple(name for name, _ in self.rules)


NO_STEPS = StepRules()
"""The rules of a driver without host steps."""


def step_name_problem(name: str) -> str:
    """Return the problem of a step's name; empty if there is none."""
    if _STEP_NAME.fullmatch(name):
        return ""
    return (
        f"{name!r} is not the name of a host step: write up to 63 of a-z, 0-9, - and _, "
        "starting with a letter"
    )


def argument_name_problem(name: str) -> str:
    """Return the problem of an argument's name; empty if there is none."""
    if ARGUMENT_NAME.fullmatch(name):
        return ""
    return (
        f"{name!r} is not the name of an argument: write up to 63 of a-z, 0-9 and _, "
        "starting with a letter"
    )


def parse_step(kind: StepKind, text: str) -> HostStep:
    """Return the step that a request names: `flash:version=2.19,slot=1`.

    Raises BadRequestError.
    """
    name, colon, rest = text.partition(":")
    problem = step_name_problem(name)
    arguments: dict[str, str] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, value = pair.partition("=")
        if problem:
            break
        if not equals:
            problem = f"{pair!r} is not an argument: write NAME=VALUE"
        elif key in arguments:
            problem = f"argument {key} is given twice"
        else:
            problem = argument_name_problem(key)
        arguments[key] = value
    if not problem and len(arguments) > ARGUMENTS_MAX:
        problem = f"it has {len(arguments)} arguments, more than {ARGUMENTS_MAX}"
    if problem:
        raise BadRequestError(
            f"{kind.value}: {problem}",
            hint=f"Write STEP or STEP:NAME=VALUE,NAME=VALUE, such as --{kind.value} "
            "flash:version=2.19.",
        )
    return HostStep(kind=kind, name=name, arguments=tuple(sorted(arguments.items())))


def arguments_problem(step: HostStep, rule: StepRule, *, takes_any: bool) -> str:
    """Return the problem of a step's arguments; empty if there is none.

    `takes_any`: arguments without a pattern are accepted.
    """
    patterns, arguments = dict(rule.arguments), dict(step.arguments)
    for name, value in step.arguments:
        if name not in patterns and not takes_any:
            names = ", ".join(patterns) or "none"
            return f"host step {step.name} has no argument {name} (it has: {names})"
        if problem := _value_problem(value, patterns.get(name, ".*")):
            return f"argument {name} of host step {step.name} {problem}"
    missing = next((name for name in patterns if name not in arguments), "")
    return f"host step {step.name} needs the argument {missing}" if missing else ""


def _value_problem(value: str, pattern: str) -> str:
    if len(value) > VALUE_CHARACTERS_MAX:
        return f"has {len(value)} characters, more than {VALUE_CHARACTERS_MAX}"
    if not value.isprintable():
        return "contains control characters"
    if value.startswith("-"):
        # The program could take it for an option.
        return f"must not begin with a hyphen: {value!r}"
    if not re.fullmatch(pattern, value):
        return f"must match {pattern!r}, not {value!r}"
    return ""
