"""Refuse to start with an empty store next to a driver memory that has calls.

Such a store was lost, truncated or named by mistake. A service that accepted it would
know no VM, while programs that an earlier service started may still be running.
"""

import shlex

from forewarn.drivers import journal, records
from forewarn.service import components
from forewarn.service.settings import Settings
from forewarn.store import kinds
from forewarn.store.open import path_of
from forewarn.store.port import Reader, Store, StoreError


def refuse_empty_store(settings: Settings, store: Store) -> None:
    """Raise StoreError if `store` has no record, but the driver's memory has calls.

    Call it before the driver is opened, so that a refused start changes nothing. A
    store in memory is always empty at the start and is accepted.
    """
    path = path_of(settings.store.url)
    if path is None or not store.read(_is_empty):
        return
    if settings.driver.kind == "command":
        memory = components.records_of(settings)
        has_calls = records.has_calls(memory)
    else:
        memory = components.journal_of(path)
        has_calls = journal.has_calls(memory)
    if not has_calls:
        return
    old, new = shlex.quote(str(memory)), shlex.quote(f"{memory}.old")
    raise StoreError(
        f"the store {path} is empty, but the {settings.driver.kind} driver's memory"
        f" {memory} has calls of an earlier store",
        hint=f"Restore a backup of the store to {path}. If you want to start with an"
        f" empty store, check that no call is still running, then run: mv {old} {new}",
    )


def _is_empty(reader: Reader) -> bool:
    """Tell whether a store has no history, operation or fleet.

    Every store that a service has used has one of them: a call needs an operation,
    and a VM needs a host.
    """
    return not (
        reader.select(kinds.ALL_AUDIT, limit=1)
        or reader.select(kinds.ALL_OPERATIONS, limit=1)
        or reader.select(kinds.ALL_HOSTS, limit=1)
        or reader.select(kinds.ALL_SCOPES, limit=1)
        or reader.select(kinds.ALL_TENANTS, limit=1)
    )
