"""Options of a command from environment variables, as containers set them.

An argument on the command line overrides its variable.
"""

import argparse
from dataclasses import replace

from forewarn.cli.command_table import Call, CommandError, Exit, Option
from forewarn.problems import quoted
from forewarn.settings.tables import slips

YES = ("1", "true", "yes", "on")
NO = ("0", "false", "no", "off")


def with_variables(call: Call, prefix: str, *, without: tuple[str, ...]) -> Call:
    """Return the call with options from variables that were not given as arguments.

    `without` has the keys of options without a variable. Raises CommandError.
    """
    variables = {
        f"{prefix}{option.key.upper()}": option
        for option in call.command.options
        if option.key not in without
    }
    for slip in slips(call.environ, prefix, variables):
        raise CommandError(Exit.USAGE, slip)
    arguments = argparse.Namespace(**vars(call.arguments))
    for variable, option in variables.items():
        text = call.environ.get(variable, "")
        # The list of an optional argument exists and is empty.
        if text and not getattr(arguments, option.key, None):
            setattr(arguments, option.key, _value(variable, option, text))
    return replace(call, arguments=arguments)


def _value(variable: str, option: Option, text: str) -> object:
    if option.is_flag:
        if text.lower() not in (*YES, *NO):
            raise CommandError(
                Exit.USAGE,
                f"{variable}: must be one of {', '.join((*YES, *NO))}, not "
                f"{quoted(text)}",
            )
        return text.lower() in YES
    if option.choices and text not in option.choices:
        raise CommandError(
            Exit.USAGE,
            f"{variable}: must be one of {', '.join(option.choices)}, not "
            f"{quoted(text)}",
        )
    return text.split() if option.many or option.repeated else text
