"""Compare the coming work of a tenant with what its viewers know.

It depends on windows, deferrals, the rollout and the time, and few changes of operations
show that it has changed. So all of it is read again, a page at a time. After the last page,
work that no page had is over.
"""

from collections.abc import Iterator, Sequence

from forewarn.admin import limits, topics
from forewarn.admin.selection import About
from forewarn.admin.topics import Change
from forewarn.instants import Micros


class ComingWork:
    """The position of one comparison, and the work that the last one found."""

    def __init__(self) -> None:
        """Begin without work, and with the first page."""
        self.after = ""
        """The place after which the next page begins."""
        self.due = 0.0
        """When the next page is read."""
        self._known: dict[str, About] = {}
        self._found: dict[str, About] = {}

    def sent(self, page: Sequence[Change]) -> None:
        """Note work that a viewer has got at the beginning of its stream.

        The comparison that runs can have passed its place.
        """
        for change in page:
            self._known[change.key] = self._found[change.key] = change.about

    def take(
        self, page: Sequence[Change], after: str, *, now: Micros
    ) -> Iterator[Change]:
        """Yield the changes that a page shows; `after` is the place of the next page."""
        yield from page
        self._found.update((change.key, change.about) for change in page)
        self.after = after
        if after:
            return
        for key in self._known.keys() - self._found.keys():
            yield topics.no_more_work(key, self._known[key], now=now)
        self._known, self._found = self._found, {}

    def wait(self, began: float, ended: float) -> None:
        """Set the time of the next page by how long one took."""
        pause = limits.UPCOMING_PAUSE * (ended - began)
        self.due = ended + max(pause, limits.RECHECK_SECONDS / 2)
