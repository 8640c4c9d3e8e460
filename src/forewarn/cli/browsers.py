"""The user's browser, for a page of the console."""

import os
import sys
import threading
import webbrowser
from collections.abc import Mapping

PAGE = "/console/"
"""The path of the first page at the address of the operator API."""

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether a browser can show a page beside this terminal.

    Without a display, the only browsers are those that take the terminal over.
    """
    return sys.platform in {"darwin", "win32"} or any(map(environ.get, _DISPLAYS))


def show(url: str) -> bool:
    """Have the browser open a page; return whether there is one. It is not waited for."""
    if not has_browser(os.environ):
        return False
    # A browser that is not running yet can stay in the foreground.
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    return True
