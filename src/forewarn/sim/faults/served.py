"""The documents that each VM was served lately, for faults that serve an old one."""

from collections.abc import Sequence

from forewarn.metadata.http import Response

LISTS_MAX = 1_000
"""Kinds of request (VM and query) whose documents are remembered; a program sends
one or two."""


class Served:
    """The last few documents of each VM and query."""

    def __init__(self, *, kept: int) -> None:
        """Remember `kept` documents before the present one."""
        self._kept = kept
        self._lists: dict[tuple[str, str], list[Response]] = {}

    def note(self, vm: str, query: str, document: Response) -> None:
        """Remember a genuine document; one that is served again is the same."""
        known = self._lists.get((vm, query))
        if known is not None and (
            known[-1] is document or known[-1].payload == document.payload
        ):
            return
        if known is None:
            if len(self._lists) >= LISTS_MAX:
                del self._lists[next(iter(self._lists))]
            known = self._lists[vm, query] = []
        known.append(document)
        del known[: -self._kept - 1]

    def all(self, vm: str, query: str) -> Sequence[Response]:
        """Return what is remembered, the present document last."""
        return self._lists.get((vm, query), ())

    def clear(self) -> None:
        """Forget everything."""
        self._lists.clear()
