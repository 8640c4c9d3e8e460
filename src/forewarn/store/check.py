"""The check of a store's file, which reports each violation as a sentence.

It works on an unused file, on a backup, and on the file of a running service: it reads
one moment and changes nothing. The rules of the records are in `fleet_rules`,
`work_rules`, `overlap_rules`, `brake_rules`, `campaign_rules` and `visit_rules`. This
module reads the whole file, and compares the tables of links with their records.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from forewarn.fleet.model import Span
from forewarn.store import (
    brake_rules,
    campaign_rules,
    fleet_rules,
    overlap_rules,
    queries,
    visit_rules,
    work_rules,
)
from forewarn.store.backup import integrity_faults
from forewarn.store.codec import CODECS
from forewarn.store.connection import Connection
from forewarn.store.contents import Contents
from forewarn.store.migrate import count_done, load_steps, tables_of
from forewarn.store.port import StoreError
from forewarn.store.records import AuditEntry, Choice, OrderKey, OutboxMessage, Token
from forewarn.store.rows import Schema

VIOLATIONS_MAX = 1_000
"""Maximum number of reported violations: with more, the file is lost anyway."""

RULES: tuple[Callable[[Contents], Iterator[str]], ...] = (
    fleet_rules.references,
    fleet_rules.fleet,
    fleet_rules.capacities,
    fleet_rules.abilities,
    fleet_rules.relay_links,
    fleet_rules.view_assignments,
    fleet_rules.enablings,
    fleet_rules.incarnations,
    fleet_rules.marks,
    fleet_rules.started_lists,
    fleet_rules.announced_outages,
    work_rules.references,
    work_rules.operations,
    work_rules.events,
    work_rules.timers,
    overlap_rules.migrations,
    work_rules.requests,
    visit_rules.visits,
    campaign_rules.campaigns,
    overlap_rules.calls,
    overlap_rules.moved,
    overlap_rules.failures,
    overlap_rules.announced_domains,
    fleet_rules.open_spans,
    brake_rules.brake,
    brake_rules.blackouts,
    brake_rules.tallies,
)

WRONG: Mapping[type, Callable[[Any, Contents], str]] = {
    AuditEntry: work_rules.wrong_entry,
    OutboxMessage: work_rules.wrong_message,
    Span: fleet_rules.wrong_span,
    Token: overlap_rules.wrong_token,
    OrderKey: work_rules.wrong_order_key,
    Choice: work_rules.wrong_choice,
}
"""The checks of single records. The records of earlier kinds were read before, such as
the term of the store and the tenants."""


def check(path: Path) -> list[str]:
    """Return the violations of the file's invariants; raises StoreError.

    It raises if there is no file, or if it belongs to another program, or to a newer or
    older version of forewarn.
    """
    if not path.is_file():
        raise StoreError(
            f"there is no store {path}",
            hint="Name its file, or its settings with --config.",
        )
    with contextlib.closing(Connection(path, read_only=True)) as connection:
        connection.begin()
        steps = load_steps()
        done = count_done(connection, path, steps)
        if not tables_of(connection):
            raise StoreError(
                f"{path} is empty: no service has used it yet",
                hint="Name another file, or the settings with --config.",
            )
        if done < len(steps):
            raise StoreError(
                f"{path} was written by an older forewarn (its schema is {done}, "
                f"this version has {len(steps)})",
                hint="Check it with that version, or start this version on a copy.",
            )
        if damaged := integrity_faults(connection):
            return damaged
        return list(islice(_violations(connection), VIOLATIONS_MAX))


def _violations(connection: Connection) -> Iterator[str]:
    contents = Contents()
    yield from _read(connection, contents)
    # Unreadable records would cause many false reports.
    if contents.is_whole:
        for rule in RULES:
            yield from rule(contents)
    yield from _links(connection)


def _read(connection: Connection, contents: Contents) -> Iterator[str]:
    """Read all tables; yield the problems of single rows."""
    schema = Schema(connection)
    for codec in CODECS:
        decode = schema.decoders[codec.kind]
        wrong = WRONG.get(codec.kind)
        for row in connection.each(codec.every):
            try:
                record = decode(row)
            except StoreError as error:
                contents.is_whole = False
                yield error.message
                continue
            contents.add(record)
            if wrong and (sentence := wrong(record, contents)):
                yield sentence


def _links(connection: Connection) -> Iterator[str]:
    """Yield a problem for each record without its links, and for each link without a
    record."""
    statements = queries.parse(queries.read_sql("check.sql"))
    for codec in CODECS:
        for links in codec.links:
            noun = links.noun.replace("_", " ")
            wanted = statements[links.noun].removesuffix(";")
            for what, sql in links.differences(wanted).items():
                for key, name in connection.each(sql):
                    yield f"the link {noun} of {key} and {name} is {what}"
