"""A copy of the settings file with which the agent last started.

If an agent could not start with a broken file, its VM would be unprepared, perhaps
unnoticed until the next event. With the copy, it continues as before and reports it.
The copy is in the state directory of the systemd service, or else next to the journal.
If that is not writable, there is no copy. An empty file is never copied.
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
"""Maximum size of a settings file that is copied."""

_STATE = re.compile(r"""^[ \t]*state[ \t]*=[ \t]*(["'])(.+?)\1""", re.MULTILINE)
"""Finds the journal in a file that is not valid TOML."""

_OWNER_ONLY = 0o600
"""The header of a webhook may contain a secret."""


def place_of(file: str, environ: Mapping[str, str], *, state: str) -> str:
    """Return the path of a file's copy, which is different for each file.

    `state` is the journal that the file names.
    """
    # systemd separates several directories with colons.
    directory = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    directory = directory or os.path.dirname(os.path.realpath(state))
    mark = zlib.crc32(os.path.abspath(file).encode("utf-8", "surrogateescape"))
    return os.path.join(directory, f"settings-{mark:08x}.toml")


def keep(settings: Settings, environ: Mapping[str, str]) -> None:
    """Copy a file that has worked, if the directory is writable."""
    file = settings.file
    # A dry run leaves no files next to the journal.
    leaves_none = settings.watch.dry_run and not environ.get("STATE_DIRECTORY")
    if not file or settings.is_copy or settings.is_blank or leaves_none:
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
    """Return the path of the copy of a broken file; empty: there is none."""
    if not file:
        return ""
    states = _states(file, environ, flags)
    places = (place_of(file, environ, state=state) for state in states)
    return next((place for place in places if _content_of(place) is not None), "")


def _states(
    file: str, environ: Mapping[str, str], flags: Mapping[str, str]
) -> Iterator[str]:
    """Yield the possible paths of the journal."""
    # A running agent has unloaded the modules for settings.
    from forewarn.agent.options import environment_name  # noqa: PLC0415

    named = flags.get("state") or environ.get(environment_name("state"))
    if named:
        yield named
        return
    text = (_content_of(file) or b"").decode("utf-8", "replace")
    for match in _STATE.finditer(text):
        yield match[2]
    yield WatchSettings().state


def _content_of(place: str) -> bytes | None:
    try:
        return files.begin_of(place, FILE_BYTES_MAX + 1)
    except OSError:
        return None
