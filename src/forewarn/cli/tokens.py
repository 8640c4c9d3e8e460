"""`token create`, `token list` and `token revoke`."""

import sys
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit
from forewarn.texts import printable


def create(call: Call) -> int:
    """Make a token; print its text, which nobody can ask for again."""
    body: dict[str, object] = {
        key: text for key in ("tenant", "name", "reason") if (text := call.text(key))
    }
    if call.flag("read_only"):
        body["read_only"] = True
    if call.text("expires_in"):
        body["expires_in"] = call.text("expires_in")
    with Client.of(call) as client:
        made = client.post("tokens", body)
    if call.flag("json"):
        output.document(made)
        return Exit.DONE
    # What is said about it must not come between it and whoever pipes it on.
    whose = f"tenant {made['tenant']}" if made["tenant"] else "an operator"
    until = f"until {made['expires']}" if made["expires"] else "until it is revoked"
    sys.stderr.write(
        printable(f"{made['id']} ({made['name']}) is for {whose}, {until}.")
        + "\nThis is the only time that it is shown:\n"
    )
    output.line(made["token"])
    return Exit.DONE


def list_tokens(call: Call) -> int:
    """List tokens."""
    tenant = call.text("tenant")
    asked = {"tenant": tenant} if tenant else {}
    with Client.of(call) as client:
        found = list(client.every("tokens", "tokens", asked))
    if call.flag("json"):
        output.document(found)
        return Exit.DONE
    output.table(
        "no tokens",
        ("ID", "NAME", "FOR", "MAY", "CREATED", "BY", "LAST USED", "EXPIRES"),
        (
            (
                each["id"],
                each["name"],
                f"tenant {each['tenant']}" if each["tenant"] else "operator",
                "read" if each["read_only"] else "order",
                each["created"],
                _maker(each),
                each["last_used"] or "never",
                _expiry(each["expires"], is_over=each["expired"]),
            )
            for each in found
        ),
    )
    return Exit.DONE


def revoke(call: Call) -> int:
    """Revoke a token."""
    body = {"id": call.text("token_id"), "reason": call.text("reason")}
    with Client.of(call) as client:
        gone = client.post("tokens/revoke", body)
    if call.flag("json"):
        output.document(gone)
    else:
        output.line(f"token {gone['id']} ({gone['name']}) is good for nothing now")
    return Exit.DONE


def _maker(token: Any) -> str:
    by = token["created_by"]
    return f"{by} (not authenticated)" if token["unauthenticated"] else by


def _expiry(expires: str | None, *, is_over: bool) -> str:
    if expires is None:
        return "never"
    return f"{expires} (expired)" if is_over else expires
