"""Secrets of receivers: the first line of a file, read anew for each notification."""

from __future__ import annotations

from forewarn.agent.handlers.secret import SecretError, exposure, read_secret
from forewarn.agent.sinks.port import SinkError


def secret_in(file: str) -> str:
    """Return a secret; raises SinkError, which may pass: it may be put there."""
    try:
        return read_secret(file)
    except SecretError as error:
        raise SinkError(error.message) from error


def secret_faults(file: str) -> list[str]:
    """Return what is wrong with the file of a secret, one sentence each."""
    try:
        secret_in(file)
    except SinkError as error:
        return [error.message]
    exposed = exposure(file)
    return [exposed] if exposed else []
