"""`forewarn agent` becomes the agent's own program, which needs a quarter less memory.

The command line has loaded what an agent never uses, and Python gives no memory back.
So the process takes another program, under the same number, before it has loaded
more. Whatever is not plainly an order to run goes the usual way, which also says what
is wrong with it; so does all of it where a process cannot do that (Windows).
"""

import os
import sys
from collections.abc import Sequence

_CONFIG = "--config"


def become_agent(words: Sequence[str], *, program: str) -> None:
    """Become the agent where `words` order it to run; else return.

    `program` is what was started: `sys.argv[0]`.
    """
    if len(words) > 1 and words[0] == "agent":
        # Not above: without flags there are none to be looked at.
        from forewarn.agent.option_table import with_switches  # noqa: PLC0415

        words = with_switches(words)
    if not is_run(words) or os.name != "posix" or not sys.executable:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, *_switches(program), "-m", "forewarn.agent"]
    os.execv(sys.executable, [*command, *words[1:]])  # noqa: S606 - ourselves


def is_run(words: Sequence[str]) -> bool:
    """Tell whether all of it is `agent` and flags that it knows, with their values."""
    if words[:1] != ["agent"]:
        return False
    rest = list(words[1:])
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
    # Not above: few give other flags.
    from forewarn.agent.option_table import OPTIONS  # noqa: PLC0415
    from forewarn.settings.forms import flag_of  # noqa: PLC0415

    return flag in map(flag_of, OPTIONS)


def _switches(program: str) -> list[str]:
    """Return how Python is to be started, so that it finds the same modules."""
    switches = ["-O"] * sys.flags.optimize
    if sys.flags.isolated:
        return [*switches, "-I"]
    if sys.flags.ignore_environment:
        switches.append("-E")
    if sys.flags.no_user_site:
        switches.append("-s")
    if sys.flags.safe_path or not program.endswith("__main__.py"):
        # A command of that name does not look into the folder where it is given.
        switches.append("-P")
    return switches
