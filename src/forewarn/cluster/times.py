"""The durations that keep replicas apart, and the clock errors that they allow. Pure."""

from dataclasses import dataclass

LEASE = 2.4
"""Default seconds without a renewal after which another replica takes the lease.

After the leader was killed, no replica decides for about this time. A kill comes up to a third
of the lease after the last renewal, and a candidate sees that up to a fifteenth of the lease
late: nine of ten takeovers begin within one lease, and the last within 16/15 of it. 3 s are
promised, so the others are left for the takeover itself: 0.6 s, and 0.44 s for the last. It
took 0.1 to 0.3 s. A shorter lease would not survive pauses of a busy machine."""

READ_LEASE = 5.0
"""Seconds for which a replica may answer from the documents that it has, after the moment
at which they were complete. Longer than a takeover, so that no GET fails meanwhile."""

LOOKS_PER_LEASE = 15
"""Looks of a candidate at the lease while it lasts. A candidate counts from the look that
shows the last renewal, so it takes the lease later by up to the time between two looks."""

MARGIN_DIVISOR = 10
"""Divisor of the safety margin: a duration is shortened or lengthened by a tenth, so that
replicas cannot overlap."""

CLOCK_ERROR = 0.04
"""Maximum relative error of the rate of a monotonic clock. Quartz is a thousand times
better; the rest is for the time between a check and the act that it allows."""

TABLE_DIVISOR = 5
"""Divisor of the lease, or of a shorter read lease, for the longest wait of a schema step for
a table. The renewals of the leader wait meanwhile, and they are a third of the lease apart."""

ROW_LEASES = 2
"""Read leases for which a replica's row must be unchanged before the leader removes it."""

FEED_KEPT = 10_000
"""Maximum number of transactions that the feed keeps for a slow replica: ten seconds at
1,000 transactions a second. After that time, the row of a silent replica is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The lease of the cluster, with the durations that follow from it."""

    lease: float = LEASE
    """Seconds without a renewal after which another replica takes the lease."""

    @property
    def renew_every(self) -> float:
        """Return the seconds between two renewals.

        Two may fail before the lease ends. With a long lease, four may fail before the
        leader's documents end.
        """
        return min(self.lease / 3, READ_LEASE / 5)

    @property
    def look_every(self) -> float:
        """Return the seconds between two looks of a candidate at the lease."""
        return self.lease / LOOKS_PER_LEASE

    @property
    def table_wait(self) -> float:
        """Return the seconds for which a step of the schema may wait for a table."""
        return min(self.lease, READ_LEASE) / TABLE_DIVISOR

    @property
    def call_within(self) -> float:
        """Return the seconds after a renewal in which driver calls may begin."""
        return self.lease - self.lease / MARGIN_DIVISOR

    @property
    def documents_end(self) -> float:
        """Return the seconds after a commit when no replica has older documents."""
        return READ_LEASE + READ_LEASE / MARGIN_DIVISOR

    @property
    def row_ends(self) -> float:
        """Return the seconds without a change after which a replica's row is removed."""
        return READ_LEASE * ROW_LEASES
