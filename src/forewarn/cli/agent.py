"""The command `agent` and its subcommands, which `forewarn.agent.commands` implements."""

import sys
from collections.abc import Callable
from pathlib import Path

from forewarn.agent import commands
from forewarn.agent.failure import CommandFailedError
from forewarn.agent.option_table import OPTIONS
from forewarn.agent.options import flag_help
from forewarn.agent.order import Order
from forewarn.cli.command_table import Call, CommandError, Exit, Option
from forewarn.settings.forms import flag_of


def options() -> tuple[Option, ...]:
    """Return a flag for every setting outside of arrays."""
    return tuple(
        Option(
            name=flag_of(name),
            metavar="VALUE",
            may_be_empty=True,
            help=f"S{flag_help(name, option)[1:]}.",
        )
        for name, option in OPTIONS.items()
    )


def run(call: Call) -> int:
    """Run the agent until it is stopped."""
    return _told(call, commands.run)


def check(call: Call) -> int:
    """Check the settings, the endpoint and the handlers."""
    return _told(call, commands.check)


def settings(call: Call) -> int:
    """Print the settings in effect."""
    return _told(call, commands.show_settings)


def try_document(call: Call) -> int:
    """Show what the agent would do with a document."""
    file, name, at = call.text("file"), call.text("vm"), call.text("at")
    return _told(
        call, lambda order: commands.try_document(order, file, name=name, at=at)
    )


def status(call: Call) -> int:
    """Show the agent's status."""
    return _told(call, commands.show_status)


def approve(call: Call) -> int:
    """Request the agent to approve an event now."""
    return _told(call, lambda order: commands.approve(order, call.text("event")))


def install(call: Call) -> int:
    """Print or write the service unit."""
    write = call.flag("write")
    return _told(call, lambda order: commands.install(order, write=write))


def _told(call: Call, do: Callable[[Order], int]) -> int:
    order = Order(
        say=lambda line: print(line, flush=True),
        environ=call.environ,
        flags={
            name: text
            for name in OPTIONS
            if (
                text := getattr(
                    call.arguments, flag_of(name)[2:].replace("-", "_"), None
                )
            )
            is not None
        },
        config=call.text("config"),
        is_json=call.flag("json"),
        program=(*_program(), "agent"),
    )
    try:
        return do(order)
    except CommandFailedError as error:
        raise CommandError(
            Exit(error.status), error.message, hint=error.hint
        ) from error


def _program() -> tuple[str, ...]:
    """Return the command that started this program, with absolute paths."""
    own = Path(sys.argv[0])
    if own.name == "__main__.py":
        return sys.executable, "-m", "forewarn"
    return (str(own.absolute()),)
