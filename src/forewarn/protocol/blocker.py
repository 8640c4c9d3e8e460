"""The base of all blockers."""

from __future__ import annotations

from forewarn.protocol.frozen import Tagged


class Blocker(Tagged):
    """A reason why an operation has not started or does not continue."""

    __slots__ = ()
