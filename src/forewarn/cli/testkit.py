"""`testkit`: the channel of the test kit on standard input and output."""

import sys

from forewarn.cli.failure import Exit
from forewarn.cli.words import Call
from forewarn.testing.channel import serve


def testkit(call: Call) -> int:
    """Answer each line until there are no more."""
    del call
    # A line at a time: who waits for an answer has sent nothing after it.
    serve(iter(sys.stdin.readline, ""), _say)
    return Exit.DONE


def _say(line: str) -> None:
    print(line, flush=True)
