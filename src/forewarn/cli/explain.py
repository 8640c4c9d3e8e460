"""`explain`: the state of any object, and every reason why it waits."""

from collections.abc import Iterable

from forewarn.cli import output
from forewarn.cli.client import Client, part
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit


def explain(call: Call) -> int:
    """Explain an operation, rollout, event, host or VM."""
    asked = {"kind": kind} if (kind := call.text("kind")) else {}
    with Client.of(call) as client:
        told = client.get(f"explain/{part(call.text('id'))}", asked)
    if call.flag("json"):
        output.document(told)
        return Exit.DONE
    title = (
        told["what"] if told["id"] in told["what"] else f"{told['id']}, {told['what']}"
    )
    output.line(f"{title}: {told['state']}")
    _reasons(told["standing"], told["blocked_by"], bullet="  * ")
    for each in told["operations"]:
        output.line()
        output.line(f"{each['operation']}, {each['what']}: {each['state']}")
        _reasons(each["standing"], each["blocked_by"], bullet="  * ")
    return Exit.DONE


def _reasons(standing: str, reasons: Iterable[str], *, bullet: str) -> None:
    found = list(reasons)
    output.line(f"{standing}{':' if found else ''}")
    for reason in found:
        output.line(f"{bullet}{reason}")
