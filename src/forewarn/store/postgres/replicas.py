"""The rows of the replicas in PostgreSQL."""

from forewarn.cluster.port import BEAT_BITS, ReplicaRow, Role
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.lease import CHANNEL


def read(connection: PostgresConnection) -> tuple[ReplicaRow, ...]:
    """Return the rows of all replicas, in the order of their keys."""
    rows = connection.raw(
        "SELECT key, name, url, position, beat, role, version, led_for, lease"
        " FROM replicas ORDER BY key"
    )
    return tuple(
        ReplicaRow(
            key=key,
            name=name,
            url=url,
            position=position,
            beat=beat,
            role=Role(role),
            version=version,
            led_for=led_for,
            lease=seconds,
        )
        for key, name, url, position, beat, role, version, led_for, seconds in rows
    )


def write(connection: PostgresConnection, row: ReplicaRow) -> None:
    """Write the row of a replica and count its heartbeat, and notify the others."""
    connection.write_alone(
        "WITH written AS (INSERT INTO replicas"
        " (key, name, url, position, beat, role, version, led_for, lease)"
        " VALUES (%s, %s, %s, %s, nextval('replica_rows') << %s, %s, %s, %s, %s)"
        " ON CONFLICT (key) DO UPDATE SET name = EXCLUDED.name, url = EXCLUDED.url,"
        " position = greatest(replicas.position, EXCLUDED.position),"
        " beat = replicas.beat + 1, role = EXCLUDED.role,"
        " version = EXCLUDED.version, led_for = EXCLUDED.led_for,"
        " lease = EXCLUDED.lease)"
        " SELECT pg_notify(%s, '')::text",
        (
            *(row.key, row.name, row.url, row.position, BEAT_BITS),
            *(row.role.value, row.version, row.led_for, row.lease, CHANNEL),
        ),
    )


def remove(connection: PostgresConnection, row: ReplicaRow) -> bool:
    """Remove a row if it still has the beat of `row`, and notify the others."""
    [(removed, _)] = connection.write_alone(
        "WITH removed AS (DELETE FROM replicas WHERE key = %s AND beat = %s RETURNING 1)"
        " SELECT (SELECT count(*) FROM removed), pg_notify(%s, '')::text",
        (row.key, row.beat, CHANNEL),
    )
    return removed == 1
