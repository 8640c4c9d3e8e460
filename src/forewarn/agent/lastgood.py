"""A copy of the settings' file with which the agent last began.

An agent whose file is refused at its start would leave its VM unprepared, which nobody
may notice before the next event. With the copy it goes on as before, and says so. It
is kept where the state of services is; who may not write there has none.
"""

from __future__ import annotations

import contextlib
import logging
import os
import zlib
from collections.abc import Mapping

logger = logging.getLogger("forewarn.agent")

USUAL_FOLDER = "/var/lib/forewarn"
"""Where it is, unless systemd names another folder for the service's state."""

FILE_BYTES_MAX = 1024 * 1024
"""Of a file of settings: what is longer is not kept."""

_OWNER_ONLY = 0o600
"""A header of a webhook may have a secret in it."""


def place_of(file: str, environ: Mapping[str, str]) -> str:
    """Return where the copy of a file is; another file has another place."""
    # systemd names several folders with colons between them.
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0] or USUAL_FOLDER
    mark = zlib.crc32(os.path.abspath(file).encode("utf-8", "surrogateescape"))
    return os.path.join(folder, f"settings-{mark:08x}.toml")


def keep(file: str, environ: Mapping[str, str]) -> None:
    """Copy a file that has proven good; where that cannot be, there is no copy."""
    if not file:
        return
    place = place_of(file, environ)
    with contextlib.suppress(OSError):
        with open(file, "rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX or _content_of(place) == content:
            return
        fresh = f"{place}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(fresh, flags, _OWNER_ONLY), "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(fresh, place)


def find(file: str, environ: Mapping[str, str]) -> str:
    """Return the copy of a file; empty: there is none."""
    place = place_of(file, environ)
    return place if file and _content_of(place) is not None else ""


def _content_of(place: str) -> bytes | None:
    try:
        with open(place, "rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
