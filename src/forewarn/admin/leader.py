"""The replica that decides, as values: without the web framework."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The replica that leads, as another one knows it."""

    name: str = ""
    """Empty: no replica leads now."""
    url: str = ""
    """Its operator API; empty: unknown."""


class Leading:
    """Whether this service decides; used on one event loop."""

    def __init__(self) -> None:
        """Begin as a service without replicas, which decides."""
        self.elsewhere: Leader | None = None
        """The replica that decides; None: this service does."""
