"""The command line of the single file, with the commands of `forewarn agent`.

It is unloaded before the agent starts (`unload`), so the running agent must not use it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from forewarn import __version__
from forewarn.agent.failure import USAGE, CommandFailedError
from forewarn.agent.option_table import OPTIONS, with_switches
from forewarn.agent.options import flag_help
from forewarn.agent.order import Order
from forewarn.agent.settings_model import Settings
from forewarn.problems import quoted
from forewarn.settings.forms import flag_of

HELP_COLUMNS = 78
"""Width of the help. Asking the terminal for it would load compression modules."""

_COMMANDS = {
    "run": "run the agent until it is stopped; the default",
    "check": "check the settings, the endpoint and the handlers",
    "settings": "print the settings and their origins",
    "try": "try FILE: show what the agent would do with a document",
    "status": "show the agent's status and history",
    "approve": "approve EVENT_ID: have the agent approve an event now",
    "install": "print or write the service unit for this system",
}

_WORDS = {"try": "FILE", "approve": "EVENT_ID"}
"""The commands with an argument, and its name in messages."""

_FLAGS = {
    "json": ("check", "settings", "try", "status"),
    "vm": ("try",),
    "at": ("try",),
    "write": ("install",),
}
"""The flags that only some commands accept, with those commands."""


def obey(
    argv: Sequence[str] | None, *, say: Callable[[str], None], environ: dict[str, str]
) -> int | Settings:
    """Run the command in `argv`, and return the exit status; raises CommandFailedError.

    For the command `run`, return the settings to run with.
    """
    order, arguments = _ordered(argv, say=say, environ=environ)
    if arguments.command == "run":
        return order.settings_to_run()
    return _done(order, arguments)


def settings_again(
    argv: Sequence[str] | None, *, environ: Mapping[str, str]
) -> Settings:
    """Return the current settings for the command `run`; raises CommandFailedError."""
    return _ordered(argv, say=lambda _: None, environ=environ)[0].settings()


def _ordered(
    argv: Sequence[str] | None,
    *,
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> tuple[Order, argparse.Namespace]:
    raw_arguments = sys.argv[1:] if argv is None else argv
    arguments = _parser().parse_intermixed_args(with_switches(raw_arguments))
    flags = {
        name: text
        for name in OPTIONS
        if (text := getattr(arguments, flag_of(name)[2:].replace("-", "_"))) is not None
    }
    _refuse_strays(arguments, flags)
    order = Order(
        say=say,
        environ=environ,
        flags=flags,
        config=arguments.config,
        is_json=arguments.json,
        program=_program(),
    )
    return order, arguments


def _refuse_strays(arguments: argparse.Namespace, settings: Mapping[str, str]) -> None:
    """Raise CommandFailedError for flags that the command does not accept."""
    command: str = arguments.command
    strays = [
        f"--{flag}"
        for flag, commands in _FLAGS.items()
        if getattr(arguments, flag) and command not in commands
    ]
    if arguments.word is not None and command not in _WORDS:
        strays.insert(0, quoted(arguments.word))
    if command == "install":
        # The unit contains the path of the file, but no other settings.
        strays += map(flag_of, settings)
    if strays:
        raise CommandFailedError(
            USAGE,
            f"`{command}` does not accept {', '.join(strays)}",
            hint="Run it with --help to see what each command accepts.",
        )


def _done(order: Order, arguments: argparse.Namespace) -> int:
    # Imported here, since a running agent does not need it.
    from forewarn.agent import commands  # noqa: PLC0415

    word: str = arguments.word or ""
    if not word and arguments.command in _WORDS:
        raise CommandFailedError(USAGE, f"{_WORDS[arguments.command]} is missing")
    do: Mapping[str, Callable[[], int]] = {
        "check": lambda: commands.check(order),
        "settings": lambda: commands.show_settings(order),
        "try": lambda: commands.try_document(
            order, word, name=arguments.vm, at=arguments.at
        ),
        "status": lambda: commands.show_status(order),
        "approve": lambda: commands.approve(order, word),
        "install": lambda: commands.install(order, write=arguments.write),
    }
    return do[arguments.command]()


def _program() -> tuple[str, ...]:
    """Return the command that started this program, with absolute paths."""
    own = os.path.abspath(sys.argv[0])
    if own.endswith("__main__.py"):
        return sys.executable, "-m", "forewarn.agent"
    return sys.executable, own


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn-agent",
        description="Watches for maintenance of this VM, prepares, approves, recovers.",
        epilog="commands:\n"
        + "\n".join(f"  {name:10}{text}" for name, text in _COMMANDS.items()),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, width=HELP_COLUMNS
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", nargs="?", choices=(*_COMMANDS,), default="run")
    parser.add_argument("word", nargs="?", metavar="FILE|EVENT_ID")
    parser.add_argument("--config", metavar="FILE", default="", help="settings file")
    parser.add_argument(
        "--json",
        action="store_true",
        help=f"{', '.join(_FLAGS['json'])}: print JSON",
    )
    parser.add_argument("--vm", metavar="NAME", default="", help="try: name of this VM")
    parser.add_argument("--at", metavar="TIME", default="", help="try: simulated time")
    parser.add_argument("--write", action="store_true", help="install: write the unit")
    for name, option in OPTIONS.items():
        parser.add_argument(
            flag_of(name), metavar="VALUE", help=flag_help(name, option)
        )
    return parser
