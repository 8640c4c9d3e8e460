"""What a handler must remember of its own doing, so that it undoes only that.

A memo is a small JSON object in a file of its own beside the journal, replaced as a
whole and flushed. Whoever changes something outside writes down first that it is going
to, and removes that when it has undone it: after a crash in between, something is
undone that was not done, which does no harm.

Each kind of handler has a file of its own: where a name is given to another kind, that
one must not read what it cannot understand, and the first one finds its own again when
the name is given back.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from typing import Any, cast

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.settings_model import HandlerSettings
from forewarn.settings import files

MEMO_BYTES_MAX = 16 * 1024 * 1024
"""Of a memo, which has the names of what was changed: a thousand have 100,000."""


class Memo:
    """The memory of one handler."""

    def __init__(self, folder: str, handler: HandlerSettings) -> None:
        """Know where it is; nothing is made before there is something to remember."""
        self._folder = folder
        # No kind has a full stop in it, so that no two handlers have one file.
        self._path = os.path.join(folder, f"{handler.name}.{handler.kind}.json")

    def read(self) -> dict[str, Any]:
        """Return what was remembered; empty: nothing. Raises HandlerError."""
        try:
            found: object = json.loads(files.begin_of(self._path, MEMO_BYTES_MAX))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HandlerError(
                f"what it did before cannot be read from {self._path}: "
                f"{error.strerror}: let the agent's user read it"
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        if not isinstance(found, dict):
            raise self._damaged("it is no object")
        return cast("dict[str, Any]", found)

    def _damaged(self, why: str) -> HandlerError:
        return HandlerError(
            f"what it did before cannot be read from {self._path} ({why}): undo it by "
            "hand if it is not undone, and remove that file"
        )

    def keep(self, members: Mapping[str, Any]) -> None:
        """Remember this in the place of what was; empty: nothing. Raises HandlerError."""
        try:
            if not members:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)
                return
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            fresh = f"{self._path}.new"
            with open(fresh, "wb") as file:
                file.write(json.dumps(members).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
            _flush_folder(self._folder)
        except OSError as error:
            raise HandlerError(
                f"what it is going to do cannot be remembered in {self._path}: "
                f"{error.strerror}"
            ) from error

    # Groups of things, by what was done to them: each has names by ids

    def groups(self, deed: str) -> list[dict[str, str]]:
        """Return the groups of a deed, in the order in which it was done.

        Raises HandlerError.
        """
        # A list of ids is of an agent before 0.2.
        return [
            group if isinstance(group, dict) else dict.fromkeys(group, "")
            for group in self.read().get(deed, ())
        ]

    def remember(self, deed: str, names: Mapping[str, str]) -> None:
        """Add what is not remembered yet, as the last group; raises HandlerError."""
        groups = self.groups(deed)
        known = {each for group in groups for each in group}
        fresh = {each: name for each, name in names.items() if each not in known}
        if fresh:
            self.keep({**self.read(), deed: [*groups, fresh]})

    def forget(self, deed: str, ids: Collection[str]) -> None:
        """Remember these no longer; raises HandlerError."""
        left = [
            {each: name for each, name in group.items() if each not in ids}
            for group in self.groups(deed)
        ]
        members = {**self.read(), deed: [group for group in left if group]}
        self.keep({what: each for what, each in members.items() if each})


def _flush_folder(path: str) -> None:
    """Make a rename durable, where the system has a way."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    opened = os.open(path, os.O_RDONLY | flag)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
