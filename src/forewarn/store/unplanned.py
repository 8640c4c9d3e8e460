"""The record of the hosts of a rollout that have no operation yet."""

from dataclasses import dataclass

from forewarn.protocol.frozen import same_as


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedPage:
    """Some consecutive hosts of a rollout's list, which become operations together.

    A page is stored once, with the list, and removed when its operations are created.
    The cost of a page is therefore independent of the length of the list.
    """

    page_id: str
    """The ID of the first operation that the page had when it was stored. The pages of a
    rollout are in this order."""
    request: str
    hosts: tuple[tuple[str, str], ...]
    """The ID of each future operation, and its host."""
    revision: int = 0

    key = same_as("page_id")
    """The key in a store."""
