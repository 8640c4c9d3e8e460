"""The queries of a tenant's reader: a query that is not listed shows nothing."""

from collections.abc import Callable
from typing import Any

from forewarn.control.redaction.tenant_filter import TenantFilter
from forewarn.store import kinds
from forewarn.store.questions import Query


def _whenever(_share: TenantFilter, _value: str) -> bool:
    return True


OF_ALIASES = frozenset(
    {
        kinds.OPERATIONS_OF_REQUEST.name,
        kinds.OPEN_OPERATIONS_OF_REQUEST.name,
        kinds.EVENTS_OF_OPERATION.name,
        kinds.SPANS_OF_OPERATION.name,
    }
)
"""Queries whose value is the ID of an operation or a request."""

ONLY_OPEN = frozenset(
    {
        kinds.OPEN_OPERATIONS.name,
        kinds.OPEN_OPERATIONS_OF_SCOPE.name,
        kinds.OPEN_OPERATIONS_OF_VM.name,
        kinds.OPEN_OPERATIONS_OF_REQUEST.name,
    }
)
"""Queries for open operations. One that the tenant has left is open only for others."""

BY_SCOPE: dict[str, Query[Any]] = {
    "all_vms": kinds.VMS_OF_SCOPE,
    "vms_with_tag": kinds.VMS_OF_SCOPE,
    "all_operations": kinds.OPERATIONS_OF_SCOPE,
    "operations_in_state": kinds.OPERATIONS_OF_SCOPE,
    "open_operations": kinds.OPEN_OPERATIONS_OF_SCOPE,
    "live_events": kinds.LIVE_EVENTS_OF_SCOPE,
}
"""Queries for all records, or those with a state or tag, and the query for one scope that
replaces each."""

MAY_ASK: dict[str, Callable[[TenantFilter, str], bool]] = {
    "scopes_of_tenant": _whenever,
    "scopes_with_window": _whenever,
    "vms_of_scope": TenantFilter.had_scope,
    "views_of_scope": TenantFilter.had_scope,
    "open_operations_of_scope": TenantFilter.had_scope,
    "operations_of_scope": TenantFilter.had_scope,
    "open_operations_of_vm": TenantFilter.had_vm,
    "operations_of_vm": TenantFilter.had_vm,
    "operations_of_request": _whenever,
    "open_operations_of_request": _whenever,
    "events_of_operation": _whenever,
    "live_events_of_scope": TenantFilter.had_scope,
    "spans_of_vm": _whenever,
    "spans_of_scope": _whenever,
    "spans_of_tenant": _whenever,
    "spans_of_operation": _whenever,
    "open_spans_of_vm": _whenever,
}
"""Queries that are used unchanged if their value belongs to the tenant. Their results
are filtered one by one."""
