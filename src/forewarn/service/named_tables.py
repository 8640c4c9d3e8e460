"""The tables of forewarn.toml with chosen names: [host_step.flash], [check.errors].

These tables exist only in the file. Messages name the table, the key and the line.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.drivers.placeholders import STEP_PLACEHOLDERS, arguments_problem
from forewarn.instants import DAY, SECOND
from forewarn.protocol.host_steps import argument_name_problem, step_name_problem
from forewarn.service import settings_model
from forewarn.service.check_tables import CHECK, wrong_checks
from forewarn.service.options import Forms
from forewarn.settings.forms import Option

STEP_TIMEOUT_MAX = DAY
"""Maximum run time of a host step: a longer one hangs."""

GROUPS: Mapping[
    str, type[settings_model.HostStepSettings | settings_model.CheckSettings]
] = {
    "host_step": settings_model.HostStepSettings,
    "check": settings_model.CheckSettings,
}
"""The groups of tables, each with the class of its tables."""

_HOST_STEP: Mapping[str, Option] = {
    "program": Option(
        form=Forms.ARGUMENTS,
        is_needed=True,
        text="The program and its arguments, as a list. `{host}`, `{campaign}`, "
        "`{visit}`, `{step}`, and each argument of the step, such as `{version}`, are "
        "replaced.",
    ),
    "arguments": Option(
        form=Forms.PATTERNS,
        may_be_empty=True,
        text="Arguments that a request must give: a table of names and regular "
        'expressions, such as `{ version = "[0-9.]+" }`. The whole value must match.',
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=STEP_TIMEOUT_MAX,
        text="Maximum run time of the program. After it, the program is killed, which "
        "counts as a failure. `timing.speed` does not divide it.",
    ),
}

OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "host_step": _HOST_STEP,
    "check": CHECK,
}
"""The keys of the tables of each group, in the order of the file."""


def wrong(
    group: str, tables: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the full name and the problem of each key that conflicts with another one.

    `tables` has the valid keys of each table.
    """
    if group == "check":
        yield from wrong_checks(tables)
        return
    for name, table in tables.items():
        where = f"{group}.{name}"
        if problem := step_name_problem(name):
            yield where, problem
        names = tuple(argument for argument, _ in table.get("arguments", ()))
        for placeholder in names:
            if placeholder in STEP_PLACEHOLDERS:
                yield (
                    f"{where}.arguments.{placeholder}",
                    "is a placeholder with another meaning",
                )
            elif problem := argument_name_problem(placeholder):
                yield f"{where}.arguments.{placeholder}", problem
        command = table.get("program", ())
        placeholders = (*STEP_PLACEHOLDERS, *names)
        if command and (problem := arguments_problem(command, placeholders)):
            yield f"{where}.program", problem
