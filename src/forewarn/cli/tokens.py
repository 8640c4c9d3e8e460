"""`token create`, `token list` and `token revoke`."""

import sys
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.selecting import selectors
from forewarn.cli.tables import second
from forewarn.texts import printable

_COLUMNS = ("ID", "NAME", "FOR", "MAY", "EXPIRES", "LAST USED", "BY", "CREATED")


def create(call: Call) -> int:
    """Create a token, and print its text, which is shown only once."""
    body = {
        **call.given("tenant", "relay", "name", "reason", "expires_in"),
        **call.flags("read_only"),
        **({"roles": roles} if (roles := call.texts("role")) else {}),
    }
    token = Client.of(call).post("tokens", body)
    return output.shown(call, token, _print_new)


def _print_new(token: Any) -> None:
    # Only the token goes to standard output, so that it can be piped.
    whose = _holder(token, otherwise="an operator")
    until = (
        f"until {second(token['expires'])}"
        if token["expires"]
        else "until it is revoked"
    )
    sys.stderr.write(
        printable(f"{token['id']} ({token['name']}) is for {whose}, {until}.")
        + "\nIt is shown only now:\n"
    )
    output.line(token["token"])


def list_tokens(call: Call) -> int:
    """List tokens."""
    tokens = list(Client.of(call).every("tokens", "tokens", selectors(call)))
    rows = (
        (
            token["id"],
            token["name"],
            _holder(token, otherwise="operator"),
            _rights(token),
            _expiry(token["expires"], is_over=token["expired"]),
            token["last_used"] or "never",
            _maker(token),
            token["created"],
        )
        for token in tokens
    )
    return output.listed(call, tokens, "no tokens", _COLUMNS, rows)


def revoke(call: Call) -> int:
    """Revoke a token."""
    gone = Client.of(call).post(
        "tokens/revoke", {"id": call.text("token_id"), "reason": call.text("reason")}
    )
    return output.said(call, gone, f"token {gone['id']} ({gone['name']}) is revoked")


def _holder(token: Any, *, otherwise: str) -> str:
    if token["relay"]:
        return f"relay of {token['relay']}"
    return f"tenant {token['tenant']}" if token["tenant"] else otherwise


def _rights(token: Any) -> str:
    """Return the roles besides `view`, which all have; `view` if there is no other.

    The token of a relay has no role.
    """
    if token["relay"]:
        return "relay"
    return ", ".join(token["roles"][1:]) or "view"


def _maker(token: Any) -> str:
    by = token["created_by"]
    return f"{by} (not authenticated)" if token["unauthenticated"] else by


def _expiry(expires: str | None, *, is_over: bool) -> str:
    if expires is None:
        return "never"
    return f"{expires} (expired)" if is_over else expires
