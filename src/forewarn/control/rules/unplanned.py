"""The hosts of rollouts that have no operation yet."""

from collections.abc import Collection, Iterator, Mapping

from forewarn.store import kinds
from forewarn.store.port import Reader, every


def hosts_of(reader: Reader, request_id: str) -> Iterator[tuple[str, str]]:
    """Yield the future operations of a rollout in order: the ID of each, and its host."""
    for page in every(reader, kinds.UNPLANNED_OF_REQUEST, request_id):
        yield from page.hosts


def last_of(reader: Reader, hosts: Collection[str]) -> Mapping[str, str]:
    """Return the last future operation on any of these hosts, by the ID of the rollout.

    Other hosts are not read, however many there are.
    """
    last: dict[str, str] = {}
    if not reader.select(kinds.REQUESTS_UNPLANNED, limit=1):
        return last
    for name in hosts:
        for page in every(reader, kinds.UNPLANNED_OF_HOST, name):
            for operation_id, host in page.hosts:
                if host == name:
                    before = last.get(page.request, "")
                    last[page.request] = max(before, operation_id)
    return last
