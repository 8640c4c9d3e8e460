"""Whose a scope was: the lines of the trail that end a tenant's time with it.

A scope that changes its tenant, or goes, leaves such a line, which is kept as long as
what was told of the operations before it. With nothing open in it a scope cannot
change its tenant, so each operation lies on one side of the line.
"""

from collections.abc import Iterator
from functools import cached_property

from forewarn.fleet.model import Scope, Span, SpanKind
from forewarn.instants import Micros
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.port import Reader, every

_OF_SCOPE = "ownership-of:"
"""How the line names the scope, so that its few lines are found among all others."""

_OF_TENANT = "ownership-by:"
"""How the line names the tenant whose the scope was."""


def ending(before: object, after: object) -> tuple[str, ...]:
    """Return what the line of a fleet change is about, if it ends a tenure."""
    if not isinstance(before, Scope):
        return ()
    if isinstance(after, Scope) and after.tenant == before.tenant:
        return ()
    return f"{_OF_SCOPE}{before.name}", f"{_OF_TENANT}{before.tenant}"


class Past:
    """What was a tenant's, and when; remembered for the length of one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Look through `reader` for what was the tenant's."""
        self._reader = reader
        self._tenant = tenant
        self._tenures: dict[str, list[tuple[Micros, str]]] = {}
        self._lives: dict[str, list[Span]] = {}

    @cached_property
    def scopes(self) -> frozenset[str]:
        """Return the scopes that were the tenant's; some may be so again."""
        by = f"{_OF_TENANT}{self._tenant}"
        lines = every(self._reader, kinds.AUDIT_OF_SUBJECT, by)
        return frozenset(name for line in lines for name in _named(line, _OF_SCOPE))

    def had_scope_at(self, scope: str, at: Micros) -> bool:
        """Tell whether the scope was the tenant's at an instant."""
        if scope not in self._tenures:
            lines = every(self._reader, kinds.AUDIT_OF_SUBJECT, f"{_OF_SCOPE}{scope}")
            self._tenures[scope] = [
                (line.at, next(_named(line, _OF_TENANT), "")) for line in lines
            ]
        for until, tenant in self._tenures[scope]:
            if at < until:
                return tenant == self._tenant
        now = self._reader.get(Scope, scope)
        return now is not None and now.tenant == self._tenant

    def had_vm(self, vm: str) -> bool:
        """Tell whether a VM of this name is, or was, the tenant's."""
        return bool(self._lives_of(vm))

    def had_vm_at(self, vm: str, at: Micros) -> bool:
        """Tell whether the VM of this name was the tenant's at an instant."""
        return any(
            (span.began <= at or not span.is_exact)
            and (span.is_open or at <= span.ended)
            for span in self._lives_of(vm)
        )

    def _lives_of(self, vm: str) -> list[Span]:
        if vm not in self._lives:
            self._lives[vm] = [
                span
                for span in every(self._reader, kinds.SPANS_OF_VM, vm)
                if span.kind is SpanKind.EXISTENCE and span.tenant == self._tenant
            ]
        return self._lives[vm]


def _named(line: AuditEntry, prefix: str) -> Iterator[str]:
    for subject in line.subjects:
        if subject.startswith(prefix):
            yield subject.removeprefix(prefix)
