"""`forewarn-agent.pyz`, and `python -m forewarn.agent`: the agent's own front door.

It takes what `forewarn agent` takes, and needs nothing of the command line.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from forewarn import __version__
from forewarn.agent import commands
from forewarn.agent.commands import CommandFailedError, Order
from forewarn.agent.keys import OPTIONS
from forewarn.agent.options import environment_name, flag_of

INTERRUPTED = 130
_COMMANDS = ("run", "check", "settings", "try", "status", "approve", "install")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` gives; return its exit status."""
    arguments = _parser().parse_args(argv)
    flags = {
        name: text
        for name in OPTIONS
        if (text := getattr(arguments, flag_of(name)[2:].replace("-", "_"))) is not None
    }
    order = Order(
        say=lambda line: print(line, flush=True),
        environ=dict(os.environ),
        flags=flags,
        config=arguments.config,
        is_json=arguments.json,
        program=_program(),
    )
    try:
        return _run(order, arguments)
    except CommandFailedError as error:
        print(f"forewarn: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(order: Order, arguments: argparse.Namespace) -> int:
    word: str | None = arguments.word
    match arguments.command:
        case "check":
            return commands.check(order)
        case "settings":
            return commands.show_settings(order)
        case "try":
            return commands.try_document(
                order, _needed(word, "FILE"), name=arguments.vm, at=arguments.at
            )
        case "status":
            return commands.show_status(order)
        case "approve":
            return commands.approve(order, _needed(word, "EVENT_ID"))
        case "install":
            return commands.install(order, write=arguments.write)
        case _:
            return commands.run(order)


def _needed(word: str | None, what: str) -> str:
    if word is None:
        raise CommandFailedError(commands.USAGE, f"{what} is missing")
    return word


def _program() -> tuple[str, ...]:
    """Return the words by which this program was started, from any folder."""
    own = os.path.abspath(sys.argv[0])
    if own.endswith("__main__.py"):
        return sys.executable, "-m", "forewarn.agent"
    return sys.executable, own


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn-agent",
        description="Watches for maintenance of this VM, prepares, approves, recovers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", nargs="?", choices=_COMMANDS, default="run")
    parser.add_argument("word", nargs="?", metavar="FILE|EVENT_ID")
    parser.add_argument("--config", metavar="FILE", default="", help="the settings")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--vm", metavar="NAME", default="", help="try: as this VM")
    parser.add_argument("--at", metavar="TIME", default="", help="try: as if it was")
    parser.add_argument("--write", action="store_true", help="install: write the unit")
    for name in OPTIONS:
        parser.add_argument(
            flag_of(name),
            metavar="VALUE",
            help=f"setting {name}; or {environment_name(name)}",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
