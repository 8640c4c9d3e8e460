"""The reference of the command line, generated from the commands."""

from collections.abc import Iterator

from forewarn.cli.command_table import GLOBAL, Command, Exit, Option
from forewarn.cli.commands import COMMANDS
from forewarn.cli.parser import ABOUT, load, options_of

ENDINGS = {
    Exit.DONE: "done",
    Exit.FAILED: "the command failed",
    Exit.USAGE: "invalid arguments, settings or file",
    Exit.UNREACHABLE: "the service cannot be reached or is busy",
    Exit.REFUSED: "the service refused the request",
}
"""The meaning of each exit status."""

_SETTINGS = {
    "service": "Settings of the service",
    "relay": "Settings of the relay",
    "agent": "Settings of the agent",
}
"""Headings for the options that are settings, by the program that they configure."""


def markdown() -> str:
    """Return `docs/reference/cli.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "<!-- Written by deploy/cli_reference.py; `pytest --rewrite` renews it. -->"
    yield ""
    yield ABOUT
    yield ""
    yield "| command | purpose |"
    yield "|---|---|"
    for command in COMMANDS:
        anchor = f"forewarn-{'-'.join(command.path)}"
        yield f"| [`{command.name}`](#{anchor}) | {command.summary} |"
    yield ""
    yield "## Global options"
    yield ""
    yield "You can write these options before or after a command that accepts them."
    yield ""
    yield from _table(GLOBAL)
    yield ""
    yield "`--help` describes any command; `--version` prints the version."
    yield "Empty values, for example from an unset variable, are refused. Exceptions:"
    yield "settings, `--url`, `--token`, `--reason` and `--description` can be empty."
    yield "`NO_COLOR` turns colors off; without a terminal there are none."
    yield ""
    yield "| exit status | meaning |"
    yield "|---|---|"
    for status, meaning in ENDINGS.items():
        yield f"| {status.value} | {meaning} |"
    for command in COMMANDS:
        yield ""
        yield from _page(command)
    for program, title in _SETTINGS.items():
        yield ""
        yield f"## {title}"
        yield ""
        commands = [
            command
            for command in COMMANDS
            if command.more and _program_of(command) == program
        ]
        names = ", ".join(f"`forewarn {command.name}`" for command in commands)
        if len(commands) == 1:
            yield f"{names} accepts all of these options."
        else:
            yield f"These commands accept all of these options: {names}."
        yield ""
        yield from _table(load(commands[0].more)())


def _program_of(command: Command) -> str:
    """Return the program that the settings of a command configure."""
    return command.path[0] if command.path[0] in _SETTINGS else "service"


def _page(command: Command) -> Iterator[str]:
    yield f"## forewarn {command.name}"
    yield ""
    yield command.text
    yield ""
    options = options_of(command)
    yield "```"
    yield f"forewarn {command.name}{usage(options)}"
    yield "```"
    yield ""
    own = tuple(option for option in command.options if option not in GLOBAL)
    if own:
        yield from _table(own)
        yield ""
    shared = [f"`{option.name}`" for option in options if option in GLOBAL]
    if shared:
        yield f"Common options: {', '.join(shared)}."
        yield ""
    if command.more:
        title = _SETTINGS[_program_of(command)]
        anchor = title.lower().replace(" ", "-")
        yield f"Each setting is also an option: see [{title}](#{anchor})."
        yield ""
    yield "```sh"
    yield from command.examples
    yield "```"


def usage(options: tuple[Option, ...]) -> str:
    """Return the words of a command after its name."""
    words = [
        f" [{option.usage}]" if option.is_optional else f" {option.usage}"
        for option in options
        if option.is_word
    ]
    needed = [f" {option.usage}" for option in options if option.is_needed]
    many = ["…" if option.many else "" for option in options if option.is_word]
    shown = "".join(word + dots for word, dots in zip(words, many, strict=True))
    return shown + "".join(needed) + " [OPTION…]"


def _table(options: tuple[Option, ...]) -> Iterator[str]:
    yield "| option | meaning |"
    yield "|---|---|"
    for option in options:
        usage = option.usage.replace("|", "\\|")
        yield f"| `{usage}` | {option.help} |"
