"""`forewarn-agent.pyz`, and `python -m forewarn.agent`: the agent's own command line.

It accepts the same commands as `forewarn agent`, without the modules of that command
line. To run an agent, it first reads the settings, unloads the modules for that, and
then loads the agent into the free memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from forewarn.agent.failure import INTERRUPTED, CommandFailedError
from forewarn.protocol.errors import ForewarnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forewarn.agent.settings_model import Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` or in the process's arguments; return its status."""
    try:
        return _obey(argv)
    except CommandFailedError as error:
        _complain(error)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _obey(argv: Sequence[str] | None) -> int:
    # Imported here, so that it can be unloaded.
    from forewarn.agent import front  # noqa: PLC0415

    outcome = front.obey(
        argv, say=lambda line: print(line, flush=True), environ=dict(os.environ)
    )
    if isinstance(outcome, int):
        return outcome
    del front
    _unload(argv)
    from forewarn.agent.running import run  # noqa: PLC0415

    return run(outcome, environ=dict(os.environ), again=lambda: _again(argv))


def _again(argv: Sequence[str] | None) -> Settings:
    """Read the settings again while the agent runs; raises CommandFailedError."""
    from forewarn.agent import front  # noqa: PLC0415 - as above

    try:
        return front.settings_again(argv, environ=dict(os.environ))
    finally:
        del front
        _unload(argv)


def _unload(argv: Sequence[str] | None) -> None:
    if argv is None:
        # Only if this process runs nothing else.
        from forewarn.agent.unload import unload  # noqa: PLC0415

        unload()


def _complain(error: ForewarnError) -> None:
    for line in error.message.splitlines():
        print(f"forewarn: {line}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {error.hint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
