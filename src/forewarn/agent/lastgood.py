"""A copy of the settings' file with which the agent last began.

An agent whose file is refused at its start would leave its VM unprepared, which nobody
may notice before the next event. With the copy it goes on as before, and says so. It
is kept in the folder that systemd names for the service's state, else beside the
journal; who may not write there has none. A file without a setting is never kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import zlib
from collections.abc import Iterator, Mapping

from forewarn.agent.settings_model import Settings, WatchSettings
from forewarn.settings import files

logger = logging.getLogger("forewarn.agent")

FILE_BYTES_MAX = 1024 * 1024
"""Of a file of settings: what is longer is not kept."""

_STATE = re.compile(r"""^[ \t]*state[ \t]*=[ \t]*(["'])(.+?)\1""", re.MULTILINE)
"""Where a file that cannot be read as TOML has its journal."""

_OWNER_ONLY = 0o600
"""A header of a webhook may have a secret in it."""


def place_of(file: str, environ: Mapping[str, str], *, state: str) -> str:
    """Return where the copy of a file is; another file has another place.

    `state` is the journal that the file names.
    """
    # systemd names several folders with colons between them.
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    folder = folder or os.path.dirname(os.path.realpath(state))
    mark = zlib.crc32(os.path.abspath(file).encode("utf-8", "surrogateescape"))
    return os.path.join(folder, f"settings-{mark:08x}.toml")


def keep(settings: Settings, environ: Mapping[str, str]) -> None:
    """Copy a file that has proven good; where that cannot be, there is no copy."""
    file = settings.file
    if not file or settings.is_copy or settings.is_blank:
        return
    if settings.watch.dry_run and not environ.get("STATE_DIRECTORY"):
        # It leaves nothing behind where the journal would be.
        return
    place = place_of(file, environ, state=settings.watch.state)
    with contextlib.suppress(OSError):
        content = files.begin_of(file, FILE_BYTES_MAX + 1)
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


def find(file: str, environ: Mapping[str, str], flags: Mapping[str, str]) -> str:
    """Return the copy of a file that may be spoiled; empty: there is none."""
    if not file:
        return ""
    for state in _states(file, environ, flags):
        place = place_of(file, environ, state=state)
        if _content_of(place) is not None:
            return place
    return ""


def _states(
    file: str, environ: Mapping[str, str], flags: Mapping[str, str]
) -> Iterator[str]:
    """Yield where the journal may be, by whoever still says so."""
    # A running agent keeps nothing of what reads settings.
    from forewarn.agent.options import environment_name  # noqa: PLC0415

    named = flags.get("state") or environ.get(environment_name("state"))
    if named:
        yield named
        return
    text = (_content_of(file) or b"").decode("utf-8", "replace")
    for found in _STATE.finditer(text):
        yield found[2]
    yield WatchSettings().state


def _content_of(place: str) -> bytes | None:
    try:
        return files.begin_of(place, FILE_BYTES_MAX + 1)
    except OSError:
        return None
