"""The check of a store, which reports each violation as a sentence.

It works on an unused store, on a backup, and on the store of a running service: it reads
one moment and changes nothing. The rules of the records are in `fleet_rules`,
`work_rules`, `overlap_rules`, `brake_rules`, `campaign_rules` and `visit_rules`. This
module reads the whole store, and compares the tables of links with their records.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from forewarn.fleet.model import Span
from forewarn.store import (
    brake_rules,
    campaign_rules,
    fleet_rules,
    overlap_rules,
    queries,
    visit_rules,
    whole,
    work_rules,
)
from forewarn.store.codec import CODECS
from forewarn.store.connection import Connection
from forewarn.store.contents import Contents
from forewarn.store.file_target import integrity_faults
from forewarn.store.port import StoreError
from forewarn.store.records import AuditEntry, Choice, OrderKey, OutboxMessage, Token
from forewarn.store.rows import schema
from forewarn.store.snapshot import Source
from forewarn.store.whole import WholeReader

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


def check(source: Source) -> list[str]:
    """Return the violations of the store's invariants; raises StoreError.

    It raises if there is no store, or if it belongs to another program, or to a newer or
    older version of forewarn.
    """
    with whole.reading(source) as connection:
        if isinstance(connection, Connection) and (
            damaged := integrity_faults(connection)
        ):
            return damaged
        return list(islice(_violations(connection), VIOLATIONS_MAX))


def _violations(connection: WholeReader) -> Iterator[str]:
    contents = Contents()
    yield from _read(connection, contents)
    # Unreadable records would cause many false reports.
    if contents.is_whole:
        for rule in RULES:
            yield from rule(contents)
    yield from _links(connection)


def _read(connection: WholeReader, contents: Contents) -> Iterator[str]:
    """Read all tables; yield the problems of single rows."""
    decoders = schema().decoders
    for codec in CODECS:
        decode = decoders[codec.kind]
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


def _links(connection: WholeReader) -> Iterator[str]:
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
