"""The base class of the handlers of all integrations, and the memo of a handler.

A memo records the changes of a handler, so that it undoes only those. It is a small JSON
object in a separate file next to the journal. It is replaced as a whole and flushed to
disk. A handler records a change before it makes it, and removes the record after it has
undone the change. So a crash in between can only undo a change that was never made, which
is harmless.

The file name contains the kind of the handler. If the settings give a handler's name to
another kind, that kind does not read a memo that it cannot understand. If the name is
given back, the first kind finds its memo again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from forewarn.agent.handlers.port import Forgetful, Ground, faults_of
from forewarn.agent.handlers.run_context import HandlerError, RunContext, context_for
from forewarn.agent.settings_model import HandlerSettings
from forewarn.settings import files

MEMO_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a memo, in bytes: a thousand names need 100,000."""


class Memo:
    """The memo of one handler."""

    def __init__(self, directory: str, handler: HandlerSettings) -> None:
        """Store the path; the file is created when something is recorded."""
        self._directory = directory
        # No kind contains a dot, so two handlers never share a file.
        self._path = os.path.join(directory, f"{handler.name}.{handler.kind}.json")

    def read(self) -> dict[str, Any]:
        """Return the recorded members; empty: none. Raises HandlerError."""
        try:
            memo: object = json.loads(files.begin_of(self._path, MEMO_BYTES_MAX))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HandlerError(
                f"cannot read the memo {self._path}: {error.strerror}: let the "
                "agent's user read it"
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        if not isinstance(memo, dict):
            raise self._damaged("it is not a JSON object")
        return cast("dict[str, Any]", memo)

    def _damaged(self, why: str) -> HandlerError:
        return HandlerError(
            f"cannot read the memo {self._path} ({why}): undo the handler's changes by "
            "hand if necessary, and remove the file"
        )

    def keep(self, members: Mapping[str, Any]) -> None:
        """Replace the recorded members; empty: remove the memo. Raises HandlerError."""
        try:
            if not members:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)
                return
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            fresh = f"{self._path}.new"
            with open(fresh, "wb") as file:
                file.write(json.dumps(members).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
            _flush_directory(self._directory)
        except OSError as error:
            raise HandlerError(
                f"cannot write the memo {self._path}, so nothing was changed: "
                f"{error.strerror}"
            ) from error

    # For each kind of change, groups of changed objects: their names by their IDs

    def groups(self, change: str) -> list[dict[str, str]]:
        """Return the groups of one kind of change, in the order of the changes.

        Raises HandlerError.
        """
        # Agents before 0.2 wrote a list of IDs.
        return [
            group if isinstance(group, dict) else dict.fromkeys(group, "")
            for group in self.read().get(change, ())
        ]

    def remember(self, change: str, names: Mapping[str, str]) -> None:
        """Add the objects that are not recorded yet as the last group; raises HandlerError."""
        groups = self.groups(change)
        known = {id_ for group in groups for id_ in group}
        if fresh := {id_: name for id_, name in names.items() if id_ not in known}:
            self.keep({**self.read(), change: [*groups, fresh]})

    def forget(self, change: str, ids: Collection[str]) -> None:
        """Remove objects from the record; raises HandlerError."""
        left = [
            {id_: name for id_, name in group.items() if id_ not in ids}
            for group in self.groups(change)
        ]
        members = {**self.read(), change: [group for group in left if group]}
        self.keep({key: group for key, group in members.items() if group})


def _flush_directory(path: str) -> None:
    """Make a rename durable, if the system supports it."""
    if (flag := getattr(os, "O_DIRECTORY", None)) is None:
        return
    opened = os.open(path, os.O_RDONLY | flag)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Integration(Forgetful):
    """One handler of the settings, with its memo.

    A subclass defines `prepare` and `recover`, and yields its problems in `_wrong`.
    """

    check_seconds = 5.0
    """Time for a whole check, in seconds: a person waits for it."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        self._name = settings.name
        self._clock = ground.clock
        self._environment = ground.environment
        self._memo = Memo(ground.memos, settings)

    def check(self, _vm: str = "", /) -> Sequence[str]:
        """Return the problems of the handler, one sentence each; changes nothing."""
        return faults_of(
            lambda: self._wrong(context_for(self.check_seconds, self._clock))
        )

    def _wrong(self, context: RunContext) -> Iterable[str]:
        """Return the problems of the handler, one sentence each; raises HandlerError."""
        raise NotImplementedError
