"""`testkit`: the channel of the test kit on standard input and output."""

import sys

from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit
from forewarn.testing.channel import serve


def testkit(call: Call) -> int:
    """Answer each line until there are no more.

    A world that is open then is judged as one that is closed: there is no answer that
    could tell it, so the status does.
    """
    del call
    # A line at a time: who waits for an answer has sent nothing after it.
    unseen = serve(iter(sys.stdin.readline, ""), _say)
    for sentence in unseen:
        print(sentence, file=sys.stderr)
    return Exit.FAILED if unseen else Exit.DONE


def _say(line: str) -> None:
    print(line, flush=True)
