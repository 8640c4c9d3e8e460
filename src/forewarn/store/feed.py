"""The feed: the keys of the records that each transaction of the leader changed.

A follower reads a snapshot once, and then the records that the feed names. The rows are
written in the same transaction as the records, with the number of that transaction, so a
snapshot has all rows up to its number.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from forewarn.cluster.port import Cluster, Moment
from forewarn.fleet.model import Host, Scope, Vm
from forewarn.protocol.operations import Operation
from forewarn.protocol.views import View
from forewarn.store.port import Reader, Store
from forewarn.store.questions import Record
from forewarn.store.records import Token

T = TypeVar("T")

FOLLOWED: Mapping[str, type[Record]] = {
    kind.__name__: kind for kind in (View, Vm, Scope, Host, Token, Operation)
}
"""The kinds in the feed. A view changes whenever its document does, so events need no
rows of their own."""

FOLLOWED_KINDS = frozenset(FOLLOWED.values())

FEED_KEYS = 10_000
"""Maximum keys in a row. A larger change, as of a fleet file, makes followers read
everything again: that is faster than so many single records."""

Changes = tuple[tuple[str, str], ...]
"""Pairs of a kind and a key."""


def changes_of(written: Iterable[tuple[type[Record], str]]) -> Changes | None:
    """Return the changes for followers; None if there are more than FEED_KEYS."""
    changes = tuple(
        (kind.__name__, key) for kind, key in written if kind.__name__ in FOLLOWED
    )
    return changes if len(changes) <= FEED_KEYS else None


class FollowedCluster(Cluster, Protocol):
    """The port of the cluster, with the records that the leader has committed."""

    def follow(self, after: int | None, work: Callable[[Reader, Moment], T]) -> T:
        """Run `work` on a snapshot, with the rows of the feed after a number.

        With `after` None, no rows are read, and the moment has none.
        """
        ...


class LeaderStore(Store, Protocol):
    """The store of one term: `transact` raises NotLeaderError after a takeover."""

    @property
    def number(self) -> int:
        """Return the number of its last commit, at least that of the takeover."""
        ...

    def stop_waiting(self) -> None:
        """Wait no more for a database that does not answer, as at a stop; any thread."""
        ...
