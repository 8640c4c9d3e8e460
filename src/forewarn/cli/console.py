"""`console`: a link that begins a session of the web console."""

import html
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call, CommandError, Exit

PAGE = "/console/"

_SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables of which one is set where a browser can be opened."""

_WITHOUT_VARIABLES = ("darwin", "win32")
"""Systems on which a browser needs none of them."""

_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>forewarn</title>
<a href="{url}">Open the console</a>
"""


def console(call: Call) -> int:
    """Print a link to the console, and open it if there is a browser."""
    client = Client.of(call)
    caller = client.get("session")
    at = call.text("at")
    base = _base_of(at or client.url)
    if caller["identified_by"] == "nothing":
        made: dict[str, Any] = {"url": base + PAGE, "expires": None}
    else:
        given = client.post("session/links", {})
        # Perhaps another replica, which leads, has created the link.
        base = _base_of(at or client.url)
        made = {"url": base + given["path"], "expires": given["expires"]}
    if call.flag("json"):
        output.document(made)
        return Exit.DONE
    if made["expires"] is None:
        sys.stderr.write("No login is needed on this machine.\n")
    else:
        sys.stderr.write(
            f"The link begins one session of {caller['name']}, until "
            f"{made['expires']}:\n"
        )
    output.line(made["url"])
    if not call.flag("no_open") and _has_screen(call.environ):
        _open(made["url"], folder=call.environ.get("XDG_RUNTIME_DIR"))
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


def _has_screen(environ: Mapping[str, str]) -> bool:
    return sys.platform in _WITHOUT_VARIABLES or any(map(environ.get, _SCREENS))


def _open(url: str, *, folder: str | None) -> None:
    """Open a link through a file that only this user can read.

    All users of a machine can read the arguments of a browser's process, and the link
    has a secret.
    """
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="forewarn-console-",
        suffix=".html",
        dir=folder or None,
        delete=False,
    ) as file:
        file.write(_REDIRECT.format(url=html.escape(url)))
    if not webbrowser.open(Path(file.name).as_uri()):
        Path(file.name).unlink()
