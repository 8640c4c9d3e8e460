"""`explain`: where an operation stands, and every reason why it waits."""

from forewarn.cli import output
from forewarn.cli.client import Client, part
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit


def explain(call: Call) -> int:
    """Explain one operation."""
    with Client.of(call) as client:
        told = client.get(f"operations/{part(call.text('operation'))}/explain")
    if call.flag("json"):
        output.document(told)
        return Exit.DONE
    output.line(f"{told['operation']}, {told['what']}: {told['state']}")
    output.line(f"{told['standing']}{':' if told['blocked_by'] else ''}")
    for reason in told["blocked_by"]:
        output.line(f"  * {reason}")
    return Exit.DONE
