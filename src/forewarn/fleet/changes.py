"""What applying a fleet file changes, and how a person is told.

`+` is new, `~` changes, `-` goes; a line without a sign is a note: nothing is
done, but the author should know. An adopted object only remembers that the file
speaks of it, which is worth no line.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import Record
from forewarn.fleet.model import Scope, Vm, VmState


class Action(enum.Enum):
    """What becomes of an object."""

    ADD = "add"
    CHANGE = "change"
    ADOPT = "adopt"
    """Write it, though nobody sees a difference: the remembered wish is new."""
    REMOVE = "remove"
    NOTE = "note"
    """Do nothing, but say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs, as a person reads it."""

    name: str
    """Its key in the file."""
    before: str
    """Of a note: what the file says."""
    after: str
    """Of a note: what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one object."""

    kind: Kind
    action: Action
    name: str
    before: Record | None
    """As it is now; None if it is new."""
    after: Record | None
    """As it is to be written; None if it goes."""
    fields: tuple[FieldChange, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what a person is told of it: mostly one line, sometimes none."""
        subject = f"{self.kind.value} {self.name}"
        if self.action is Action.ADD and not _is_implied(self.after):
            yield f"+ {subject}{_described(self.after)}"
        elif self.action is Action.REMOVE and not _is_implied(self.before):
            yield f"- {subject}"
        elif self.action is Action.CHANGE:
            if not (_is_implied(self.before) and _is_implied(self.after)):
                differences = (f"{f.name} {f.before} → {f.after}" for f in self.fields)
                yield f"~ {subject}: {', '.join(differences)}"
        elif self.action is Action.NOTE:
            yield from self._notes(subject)

    def _notes(self, subject: str) -> Iterator[str]:
        if isinstance(self.before, Vm) and self.before.state is VmState.DELETED:
            yield f"{subject} was deleted by a request; drop it from the file"
            return
        for each in self.fields:
            if each.name == "host":
                yield (
                    f"{subject} stays on {each.after}, where a migration moved it"
                    f" (the file says {each.before})"
                )
            else:
                yield (
                    f"{subject} keeps {each.name} {each.after}"
                    f" (the file says {each.before})"
                )


def _is_implied(record: Record | None) -> bool:
    """Tell whether it is a scope that its author did not write."""
    return isinstance(record, Scope) and record.implied


def _described(record: Record | None) -> str:
    if isinstance(record, Vm):
        own = record.scope == record.name
        scope = "a scope of its own" if own else f"scope {record.scope}"
        return f" on {record.host} ({scope})"
    if isinstance(record, Scope):
        return f" ({record.kind.value} of {record.tenant})"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What applying a file does, in an order in which it can be done."""

    changes: tuple[Change, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether the fleet is as the file wants it, but for notes."""
        seen = {Action.ADD, Action.CHANGE, Action.REMOVE}
        return not any(change.action in seen for change in self.changes)

    def writes(self) -> Iterator[Change]:
        """Yield what has to be written, also what nobody sees."""
        return (each for each in self.changes if each.action is not Action.NOTE)

    def lines(self) -> Iterator[str]:
        """Yield the plan for a person, a line each."""
        for change in self.changes:
            yield from change.lines()
