"""Replacement of `forewarn agent` by the agent's program, which needs 25 % less memory.

The command line has loaded modules that an agent never uses, and Python does not free
their memory. So the process executes another program, with the same process ID, before
it loads more. This happens only for a plain start. This process handles all other
arguments, and reports their errors. On systems without exec (Windows), it handles all.
"""

import os
import sys
from collections.abc import Sequence

_CONFIG = "--config"


def become_agent(arguments: Sequence[str], *, program: str) -> None:
    """Execute the agent if `arguments` start it; else return.

    `program` is `sys.argv[0]`.
    """
    if len(arguments) > 1 and arguments[0] == "agent":
        # Imported here, since it is not needed without flags.
        from forewarn.agent.option_table import with_switches  # noqa: PLC0415

        arguments = with_switches(arguments)
    if not is_run(arguments) or os.name != "posix" or not sys.executable:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, *_switches(program), "-m", "forewarn.agent"]
    os.execv(sys.executable, [*command, *arguments[1:]])  # noqa: S606 - ourselves


def is_run(arguments: Sequence[str]) -> bool:
    """Return whether the words are `agent` and known flags with their values."""
    if arguments[:1] != ["agent"]:
        return False
    rest = list(arguments[1:])
    while rest:
        flag, has_value, _ = rest.pop(0).partition("=")
        if not _is_known(flag):
            return False
        if not has_value and (not rest or rest.pop(0).startswith("-")):
            return False
    return True


def _is_known(flag: str) -> bool:
    if flag == _CONFIG:
        return True
    # Imported here, since other flags are rare.
    from forewarn.agent.option_table import OPTIONS  # noqa: PLC0415
    from forewarn.settings.forms import flag_of  # noqa: PLC0415

    return flag in map(flag_of, OPTIONS)


def _switches(program: str) -> list[str]:
    """Return the command that starts Python with the same modules."""
    switches = ["-O"] * sys.flags.optimize
    if sys.flags.isolated:
        return [*switches, "-I"]
    if sys.flags.ignore_environment:
        switches.append("-E")
    if sys.flags.no_user_site:
        switches.append("-s")
    if sys.flags.safe_path or not program.endswith("__main__.py"):
        # A command with that name does not search the current directory.
        switches.append("-P")
    return switches
