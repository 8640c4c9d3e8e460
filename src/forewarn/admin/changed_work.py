"""The changed operations that viewers of the stream get."""

from collections.abc import Iterable

from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.instants import Micros, cut_to_second
from forewarn.protocol.operations import Operation
from forewarn.store.port import Reader


class ChangedWork:
    """Finds changed operations, and tells a tenant once that it has left one.

    An operation that the tenant has left goes on for others. If its later changes were
    passed on, they would show when others act.
    """

    def __init__(self, since: Micros) -> None:
        """Tell of operations that a tenant has left since this time."""
        self._since = cut_to_second(since)
        self._told: set[str] = set()
        """Open operations that the tenant has left, and knows it."""

    def of(self, reader: Reader, ids: Iterable[str]) -> list[Operation]:
        """Return the operations that the viewers get, out of these real IDs."""
        names = tenant_reader.operations_among(reader, ids)
        operations = (reader.get(Operation, name) for name in names)
        return [
            operation
            for operation in operations
            if operation is not None
            and (
                not isinstance(reader, TenantReader) or self._is_news(reader, operation)
            )
        ]

    def _is_news(self, reader: TenantReader, operation: Operation) -> bool:
        name = operation.operation_id
        if not operation.ended_at or not reader.has_left(name):
            return True
        if operation.ended_at < self._since:
            return False
        is_told = name in self._told
        if reader.is_open(name):
            self._told.add(name)
        else:
            self._told.discard(name)
        return not is_told
