"""The user's browser, for a page of the console."""

import html
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path

PAGE = "/console/"
"""The path of the first page at the address of the operator API."""

START_SECONDS = 3.0
"""Maximum seconds for which a command waits until a browser has started. One that runs in
the foreground returns only when the user closes it."""

LINK_FILE_SECONDS = 150.0
"""Seconds after which the file with a link is removed: a link works for two minutes."""

_SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables of which one is set where a browser can be opened."""

_WITHOUT_VARIABLES = frozenset({"darwin", "win32"})
"""Systems on which a browser needs none of them."""

_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>forewarn</title>
<a href="{url}">Open the console</a>
"""

_REMOVE = """\
import os, sys, time
time.sleep(float(sys.argv[1]))
os.unlink(sys.argv[2])
"""


def has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether a browser can show a page beside this terminal.

    Without a display, the only browsers are those that take the terminal over.
    """
    return sys.platform in _WITHOUT_VARIABLES or any(map(environ.get, _SCREENS))


def show(url: str, environ: Mapping[str, str], *, seconds: float) -> bool:
    """Have the browser open a page; return whether there is one.

    It is waited for at most `seconds`: a browser that still runs then shows the page.
    """
    if not has_browser(environ):
        return False
    done: list[bool] = []
    starter = threading.Thread(
        target=lambda: done.append(webbrowser.open(url)), daemon=True
    )
    starter.start()
    starter.join(seconds)
    return done != [False]


def show_link(url: str, environ: Mapping[str, str]) -> bool:
    """Have the browser open a link with a secret; return whether there is one.

    All users of a machine can read the arguments of a browser's process. The browser
    therefore gets a file that only this user can read, and that is removed when the link
    has ended.
    """
    if not has_browser(environ):
        return False
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="forewarn-console-",
        suffix=".html",
        dir=environ.get("XDG_RUNTIME_DIR") or None,
        delete=False,
    ) as file:
        file.write(_REDIRECT.format(url=html.escape(url)))
    is_shown = show(Path(file.name).as_uri(), environ, seconds=START_SECONDS)
    _remove_later(file.name, seconds=LINK_FILE_SECONDS if is_shown else 0)
    return is_shown


def _remove_later(file: str, *, seconds: float) -> None:
    """Remove a file, even if this process has ended by then."""
    if not seconds:
        Path(file).unlink()
        return
    # Without its own session, the process would end with the terminal.
    remover = subprocess.Popen(  # noqa: S603 - this interpreter, without a shell
        [sys.executable, "-I", "-S", "-c", _REMOVE, str(seconds), file],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=remover.wait, daemon=True).start()
