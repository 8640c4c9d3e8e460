"""The argparse parser of the table of commands."""

import argparse
import importlib
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, TypeAlias, cast

from forewarn import __version__
from forewarn.cli.command_table import GLOBAL, Command, Option
from forewarn.cli.commands import COMMANDS, GROUPS
from forewarn.problems import did_you_mean

HELP_COLUMNS = 78
"""Columns of a help page, on every terminal."""

ABOUT = (
    "Notice of maintenance for virtual machines, as Azure Scheduled Events gives it: "
    "the service, and the commands of its operators."
)

EPILOG = """\
examples:
  forewarn serve --fleet fleet.toml
  forewarn maintain h1 --impact live-migrate --reason 'firmware 2.4'
  forewarn operations --watch
  forewarn explain op-w2147h2k9m4x3qa8

`forewarn COMMAND --help` says more about a command.

exit status: 0 done; 1 the work failed; 2 wrong usage, settings or file;
3 the service cannot be reached; 4 the service refused"""


class _Parser(argparse.ArgumentParser):
    """A parser with suggestions and the usage of the command in its errors."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; a command refuses unknown ones itself.

        argparse would refuse them with the usage of the whole program.
        """
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return cast("argparse.Namespace", parsed), rest

    def error(self, message: str) -> NoReturn:
        """Print an error with a suggestion, and exit; raises SystemExit."""
        known = list(self._option_string_actions)
        for action in self._actions:
            known += action.choices or ()
        wrong = (
            message.partition("arguments: ")[2].partition(" ")[0]
            or (message.partition("invalid choice: '")[2].partition("'")[0])
        )
        near = did_you_mean(wrong.partition("=")[0], known) if wrong else ""
        start, choices_follow, choices = message.partition(" (choose from ")
        if choices_follow and (near or choices.count(",") >= CHOICES_SHOWN_MAX):
            message = start if near else f"{start} (--help lists the choices)"
        super().error(message + near)


CHOICES_SHOWN_MAX = 12
"""Maximum choices that the error about an unknown one lists: they are on two lines."""

_AddParser: TypeAlias = Callable[..., argparse.ArgumentParser]
"""Adds a command to the program or to a group."""


def load(reference: str) -> Callable[..., Any]:
    """Return the function in `module:function`."""
    module, _, name = reference.partition(":")
    return cast("Callable[..., Any]", getattr(importlib.import_module(module), name))


def options_of(command: Command) -> tuple[Option, ...]:
    """Return all options of a command, including those that are imported late."""
    return (*command.options, *(load(command.more)() if command.more else ()))


def build(arguments: Collection[str]) -> argparse.ArgumentParser:
    """Return the parser of `arguments`; commands that they do not name get no options.

    The others are there for the list of commands and for suggestions.
    """
    parser = _Parser(
        prog="forewarn",
        description=_filled(ABOUT),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"forewarn {__version__}"
    )
    for option in GLOBAL:
        _add(parser, option)
    top = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="word", required=True
    )
    groups: dict[str, _AddParser] = {}
    known, listed = {*arguments}, set[str]()
    for command in COMMANDS:
        first, *rest = command.path
        if first not in known:
            if first not in listed:
                listed.add(first)
                about = GROUPS[first] if rest else command.summary
                top.add_parser(first, help=about, add_help=False)
            continue
        if rest and first not in groups:
            group = top.add_parser(first, help=GROUPS[first], description=GROUPS[first])
            groups[first] = _members(group, required=True)
        add = groups[first] if rest else top.add_parser
        if not known.issuperset(rest):
            add(command.path[-1], help=command.summary, add_help=False)
            continue
        subparser = _add_command(add, command, options_of(command))
        if not rest and first in GROUPS:
            # It is a command, and also a group of commands.
            groups[first] = _members(subparser, required=False)
    return parser


def _members(parser: argparse.ArgumentParser, *, required: bool) -> _AddParser:
    """Return the function that adds a command to a group."""
    return parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="second", required=required
    ).add_parser


def completed(arguments: Sequence[str]) -> Sequence[str]:
    """Return the words with a value for each switch of the agent without one."""
    valued = {option.name for option in GLOBAL if not option.is_flag}
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in valued else 1
    if arguments[place : place + 1] != ["agent"]:
        return arguments
    # Import this here, since only the agent's commands need it.
    from forewarn.agent.option_table import with_switches  # noqa: PLC0415

    return [*arguments[:place], *with_switches(arguments[place:])]


def _filled(text: str) -> str:
    """Wrap text here, since the examples below must keep their lines."""
    return textwrap.fill(text, HELP_COLUMNS)


def _add_command(
    add: _AddParser, command: Command, options: tuple[Option, ...]
) -> argparse.ArgumentParser:
    examples = "\n".join(f"  {example}" for example in command.examples)
    parser = add(
        command.path[-1],
        help=command.summary,
        description=_filled(command.text),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(chosen=command)
    for option in options:
        _add(parser, option)
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    # An option that is not given sets nothing, so --json can be at either place.
    keywords: dict[str, Any] = {
        "help": option.help.replace("%", "%%"),
        "default": option.default or argparse.SUPPRESS,
    }
    if not option.is_word:
        keywords["dest"] = option.key
        if option.is_needed:
            keywords["required"] = True
    if option.is_flag:
        parser.add_argument(option.name, action="store_true", **keywords)
        return
    if not option.may_be_empty:
        keywords["type"] = _not_empty
    if option.metavar:
        keywords["metavar"] = option.metavar
    if option.choices:
        keywords["choices"] = option.choices
        if option.is_word and option.is_optional:
            # argparse checks a default that is a string against the choices.
            keywords["default"] = option.default
    if option.many:
        keywords["nargs"] = "*" if option.is_optional else "+"
    elif option.is_optional:
        keywords["nargs"] = "?"
    if option.repeated:
        keywords["action"] = "append"
    parser.add_argument(option.name, **keywords)


def _not_empty(text: str) -> str:
    """Return a value unchanged; argparse prints the message of the error."""
    if not text:
        raise argparse.ArgumentTypeError(
            "the value is empty; check for an unset variable"
        )
    return text
