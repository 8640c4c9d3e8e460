"""The command `testkit`: the channel of the test kit on standard input and output."""

import sys

from forewarn.cli.command_table import Call, Exit
from forewarn.testing.channel import serve


def testkit(call: Call) -> int:
    """Answer each line until the end of the input.

    Worlds that are still open are then judged. There is no answer for the result, so the
    status reports it.
    """
    del call
    # Read single lines: a program that waits for an answer sends nothing more.
    unseen = serve(iter(sys.stdin.readline, ""), lambda line: print(line, flush=True))
    for sentence in unseen:
        print(sentence, file=sys.stderr)
    return Exit.FAILED if unseen else Exit.DONE
