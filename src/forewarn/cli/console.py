"""`console`: a link that begins a session of the web console."""

import sys
from typing import Any

from forewarn.cli import browsers, output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call, CommandError, Exit


def console(call: Call) -> int:
    """Print a link to the console, and open it if there is a browser."""
    client = Client.of(call)
    caller = client.get("session")
    at = call.text("at")
    base = _base_of(at or client.url)
    if caller["identified_by"] == "nothing":
        address: dict[str, Any] = {"url": base + browsers.PAGE, "expires": None}
    else:
        link = client.post("session/links", {})
        # Perhaps another replica, which leads, has created the link.
        base = _base_of(at or client.url)
        address = {"url": base + link["path"], "expires": link["expires"]}
    if call.flag("json"):
        output.document(address)
        return Exit.DONE
    if address["expires"] is None:
        sys.stderr.write("No login is needed on this machine.\n")
    else:
        sys.stderr.write(
            f"The link begins one session of {caller['name']}, until "
            f"{address['expires']}:\n"
        )
    output.line(address["url"])
    if not call.flag("no_open"):
        browsers.show_link(address["url"], call.environ)
    return Exit.DONE


def _base_of(url: str) -> str:
    """Return the root of a URL; raises CommandError for a Unix socket."""
    if not url.startswith(("http://", "https://")):
        raise CommandError(
            Exit.USAGE,
            f"a browser cannot open {url}",
            hint="Forward a port (ssh -L 8200:/run/forewarn/api SERVER) and open "
            "http://localhost:8200/console/, or name the address of a proxy with --at.",
        )
    return url.rstrip("/")
