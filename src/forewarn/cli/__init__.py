"""The command line: the only place that reads argv and the environment, and prints.

Commands are values (`commands`), and `parser` makes the parser from them. The module of
a command, and the packages of an extra, are imported only when the command is used. A
command returns its exit status or raises `CommandError`, which this module prints: no
traceback for any error of a user.
"""

import io
import os
import sys
from collections.abc import Sequence

from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.exec_agent import become_agent
from forewarn.texts import printable

INTERRUPTED = 130
"""The exit status after Ctrl-C, as in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`; return its exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        become_agent(arguments, program=sys.argv[0])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal cannot show must not stop the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        _print_error(error)
        return error.status
    except BrokenPipeError:
        # The reader of the pipe has closed it. Python would complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(raw_arguments: Sequence[str]) -> int:
    # Imported here, since the agent does not need it.
    from forewarn.cli import parser  # noqa: PLC0415

    try:
        raw_arguments = parser.completed(raw_arguments)
        arguments = parser.build(raw_arguments).parse_args(raw_arguments)
    except SystemExit as ended:
        # argparse has printed the help, the version or an error.
        return ended.code if isinstance(ended.code, int) else Exit.USAGE
    call = Call(command=arguments.chosen, arguments=arguments, environ=dict(os.environ))
    try:
        run = parser.load(call.command.run)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "forewarn":
            raise
        raise CommandError(
            Exit.USAGE,
            f"`forewarn {call.command.name}` needs {error.name}, which is not installed",
            hint="pip install 'forewarn[server]'",
        ) from error
    with call.exits:
        return int(run(call))


def _print_error(error: CommandError) -> None:
    for line in error.lines:
        print(printable(line), file=sys.stderr)
    for line in error.message.splitlines():
        print(f"forewarn: {printable(line)}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {printable(error.hint)}", file=sys.stderr)
