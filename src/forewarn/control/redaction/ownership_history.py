"""The earlier owners of scopes, from the history.

When a scope changes its tenant or is removed, its history entry records the end of the
ownership. The entry is kept as long as the operations before it. A scope can change its
tenant only without open operations, so each operation is before or after the entry.
"""

from collections.abc import Iterator
from functools import cached_property

from forewarn.fleet.model import Scope, Span, SpanKind
from forewarn.instants import Micros
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry

_OF_SCOPE = "ownership-of:"
"""Prefix of the subject with the scope, to find its few entries."""

_OF_TENANT = "ownership-by:"
"""Prefix of the subject with the former tenant."""


def ending(before: object, after: object) -> tuple[str, ...]:
    """Return the subjects of a fleet change that ends an ownership; empty: it does not."""
    if not isinstance(before, Scope):
        return ()
    if isinstance(after, Scope) and after.tenant == before.tenant:
        return ()
    return f"{_OF_SCOPE}{before.name}", f"{_OF_TENANT}{before.tenant}"


class Past:
    """Current and earlier ownership of one tenant; cached for one read."""

    def __init__(self, reader: Reader, tenant: str) -> None:
        """Read the ownership of `tenant` from `reader`."""
        self._reader = reader
        self._tenant = tenant
        self._tenures: dict[str, list[tuple[Micros, str]]] = {}
        self._owners: dict[str, str] = {}
        """The current tenant of each scope; empty: the scope was removed."""
        self._lives: dict[str, list[Span]] = {}

    @cached_property
    def scopes(self) -> frozenset[str]:
        """Return the scopes that the tenant once owned; it can own some of them again."""
        lines = every(
            self._reader, kinds.AUDIT_OF_SUBJECT, f"{_OF_TENANT}{self._tenant}"
        )
        return frozenset(name for line in lines for name in _named(line, _OF_SCOPE))

    def had_scope_at(self, scope: str, at: Micros) -> bool:
        """Return whether the scope belonged to the tenant at a time."""
        if scope not in self._tenures:
            lines = every(self._reader, kinds.AUDIT_OF_SUBJECT, f"{_OF_SCOPE}{scope}")
            self._tenures[scope] = [
                (line.at, next(_named(line, _OF_TENANT), "")) for line in lines
            ]
        for until, tenant in self._tenures[scope]:
            if at < until:
                return tenant == self._tenant
        return self.owner_of(scope) == self._tenant

    def owner_of(self, scope: str) -> str:
        """Return the current tenant of a scope; empty if the scope was removed."""
        if scope not in self._owners:
            now = self._reader.get(Scope, scope)
            self._owners[scope] = now.tenant if now is not None else ""
        return self._owners[scope]

    def had_vm(self, vm: str) -> bool:
        """Return whether a VM of this name belongs or belonged to the tenant."""
        return bool(self._lives_of(vm))

    def had_vm_at(self, vm: str, at: Micros) -> bool:
        """Return whether the VM of this name belonged to the tenant at a time."""
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
