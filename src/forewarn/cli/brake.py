"""`brake on`, `off` and `show`."""

from forewarn.cli import dry_runs, output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call


def put_on(call: Call) -> int:
    """Put the brake on."""
    return _set(call, is_on=True, withdraw=call.flag("withdraw"))


def take_off(call: Call) -> int:
    """Take the brake off."""
    return _set(call, is_on=False)


def _set(call: Call, *, is_on: bool, withdraw: bool = False) -> int:
    body = {"on": is_on, "reason": call.text("reason"), "withdraw": withdraw}
    if call.flag("dry_run"):
        return dry_runs.send(call, "brake", body)
    answer = Client.of(call).post("brake", body)
    return output.said(call, answer, _line(answer))


def show(call: Call) -> int:
    """Print whether the brake is on."""
    answer = Client.of(call).get("brake")
    return output.said(call, answer, _line(answer))


def _line(brake: Json) -> str:
    if not brake["on"]:
        return "the brake is off"
    parts = [brake["text"], f"it came on at {brake['since']}"]
    if brake["withdraws"]:
        parts.append("announced planned work is withdrawn")
    if brake["ends"]:
        parts.append(f"unless more is lost, it ends at {brake['ends']}")
    return "; ".join(parts)
