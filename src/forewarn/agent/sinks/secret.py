"""Secrets of receivers: the first line of a file, read anew for each notification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forewarn.agent.handlers.secret import SecretError, exposure, read_secret, whole
from forewarn.agent.sinks.port import SinkError


def secret_in(file: str, *, parts: Callable[[str], Sequence[str]] = whole) -> str:
    """Return a secret; raises SinkError, which may pass: it may be put there.

    `parts` returns what of it is secret.
    """
    try:
        return read_secret(file, parts=parts)
    except SecretError as error:
        raise SinkError(error.message) from error


def secret_faults(
    file: str, *, parts: Callable[[str], Sequence[str]] = whole
) -> list[str]:
    """Return what is wrong with the file of a secret, one sentence each."""
    try:
        read_secret(file, parts=parts)
    except SecretError as error:
        return [error.message]
    exposed = exposure(file)
    return [exposed] if exposed else []
