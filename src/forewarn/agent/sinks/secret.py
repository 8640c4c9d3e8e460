"""Secrets of receivers: the first line of a file, read anew for each notification."""

import os

from forewarn.agent.handlers.posting import PostError, read_secret
from forewarn.agent.sinks.port import SinkError

_OTHERS = 0o077


def secret_in(file: str) -> str:
    """Return a secret; raises SinkError, which may pass: it may be put there."""
    try:
        return read_secret(file)
    except PostError as error:
        raise SinkError(error.message) from error


def secret_faults(file: str) -> list[str]:
    """Return what is wrong with the file of a secret, one sentence each."""
    try:
        secret_in(file)
    except SinkError as error:
        return [error.message]
    if os.name == "posix" and os.stat(file).st_mode & _OTHERS:
        return [f"{file} can be read by other users: chmod 600"]
    return []
