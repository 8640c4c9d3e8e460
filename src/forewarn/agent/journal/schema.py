"""All SQL statements of the journal, each under its name.

The schema has a version number (`user_version`). A file with a lower number is upgraded
step by step, and one with a higher number is refused. Released steps never change.
"""

from __future__ import annotations

APPLICATION_ID = 0x46574A31
"""The application ID in the file's head: `FWJ1`."""

STEPS = (
    """
-- What is remembered besides tasks: one row each.
CREATE TABLE facts (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The events that decisions remember, in the order of `place`.
CREATE TABLE tasks (
    event_id TEXT NOT NULL PRIMARY KEY,
    place INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;

-- Sent notifications.
CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX history_of_event ON history (event_id, number);

-- Notifications that wait for their sink.
CREATE TABLE outgoing (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    sink TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX outgoing_of_sink ON outgoing (sink, number);

-- Approvals that an operator ordered, for the agent to take.
CREATE TABLE orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event_id TEXT NOT NULL
);
""",
    """
-- Stages follow the names in the code. A quotation mark in a text is escaped.
UPDATE tasks SET body = replace(
    replace(body, '"stage":"owed"', '"stage":"recovering"'),
    '"stage":"over"', '"stage":"finished"'
);
""",
)

PUT_FACT = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"

PUT_TASK = "INSERT OR REPLACE INTO tasks (event_id, place, body) VALUES (?, ?, ?)"
DROP_TASK = "DELETE FROM tasks WHERE event_id = ?"
ALL_TASKS = "SELECT place, body FROM tasks ORDER BY place"

ADD_HISTORY = "INSERT INTO history (at, event_id, body) VALUES (?, ?, ?)"
LATEST = "SELECT body FROM history ORDER BY number DESC LIMIT ?"
LATEST_OF_EVENT = """
SELECT body FROM history WHERE event_id = ? ORDER BY number DESC LIMIT ?
"""
# Only the oldest rows are read, never the whole table.
PURGE_HISTORY = """
DELETE FROM history WHERE number IN (
    SELECT number FROM (SELECT number, at FROM history ORDER BY number LIMIT :few)
    WHERE at < :oldest
        OR number <= (SELECT max(number) FROM history) - :rows
)
"""

ADD_OUTGOING = "INSERT INTO outgoing (at, sink, body) VALUES (?, ?, ?)"
OUTGOING_OF_SINK = """
SELECT number, at, sink, body FROM outgoing WHERE sink = ? ORDER BY number LIMIT ?
"""
COUNT_OUTGOING = "SELECT count(*) FROM outgoing WHERE sink = ?"
PURGE_OUTGOING = """
DELETE FROM outgoing WHERE number IN (
    SELECT number FROM outgoing WHERE sink = ? ORDER BY number LIMIT ?
)
"""
DROP_OUTGOING = "DELETE FROM outgoing WHERE number = ?"
SINKS_OF_OUTGOING = "SELECT DISTINCT sink FROM outgoing"
DROP_OUTGOING_OF_SINK = "DELETE FROM outgoing WHERE sink = ?"

ADD_ORDER = "INSERT INTO orders (at, event_id) VALUES (?, ?)"
ORDERS_AFTER = "SELECT number, event_id FROM orders WHERE number > ? ORDER BY number"
DROP_ORDERS = "DELETE FROM orders WHERE number <= ?"
