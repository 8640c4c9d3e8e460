"""The state of PostgreSQL for operators: its synchronous standby, and the length of the feed."""

from forewarn.cluster.port import Condition, StandbyState
from forewarn.store.postgres.connection import PostgresConnection

_ASK = """
SELECT current_setting('synchronous_standby_names') <> '',
  pg_has_role('pg_read_all_stats', 'USAGE'),
  EXISTS (
    SELECT FROM pg_stat_replication
    WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'
  ),
  (SELECT count(*) FROM feed)
"""
"""Without the role, the view shows the sessions of standbys, but not their states."""


def read(connection: PostgresConnection) -> Condition:
    """Return the condition of the database."""
    [(is_set, may_see, is_streaming, feed_rows)] = connection.raw(_ASK)
    return Condition(
        standby=_standby(is_set=is_set, may_see=may_see, is_streaming=is_streaming),
        feed_rows=feed_rows,
    )


def _standby(*, is_set: bool, may_see: bool, is_streaming: bool) -> StandbyState:
    if not is_set:
        return StandbyState.NOT_SET
    if not may_see:
        return StandbyState.UNKNOWN
    return StandbyState.STREAMING if is_streaming else StandbyState.MISSING
