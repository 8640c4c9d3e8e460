"""Read secrets from the first line of a file, each time, so that it can be changed.

Each secret is registered in `secrets`, which masks it in texts of servers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from forewarn.agent import secrets
from forewarn.agent.handlers.run_context import DeliveryError, HandlerError
from forewarn.settings import files

SECRET_BYTES_MAX = 4 * 1024
"""Maximum length of a secret, in bytes: four times the longest common token."""

_OTHERS = 0o077


class SecretError(HandlerError, DeliveryError):
    """The secret cannot be read; a later attempt may succeed."""


def read_secret(
    file: str,
    *,
    parts: Callable[[str], Sequence[str]] = lambda secret: (secret,),
    bytes_max: int = SECRET_BYTES_MAX,
) -> str:
    """Return the first line of a file; raises SecretError.

    `parts` returns the parts to mask: for a user and a password, the password. `bytes_max`
    is the maximum length of the line, in bytes.
    """
    try:
        data = files.begin_of(file, bytes_max + 1)
        line, end, _ = data.partition(b"\n")
        if not end and len(data) > bytes_max:
            why = f"its first line has more than {bytes_max} bytes"
            raise files.UnreadError(errno.EFBIG, why, file)
        secret = line.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SecretError(f"{file} cannot be read: {why}") from error
    if not secret:
        raise SecretError(f"the secret {file} is empty")
    secrets.hold(file, parts(secret))
    return secret


def read_token(file: str, *, bytes_max: int = SECRET_BYTES_MAX) -> str:
    """Return a secret that is sent unchanged in a header; raises SecretError."""
    token = read_secret(file, bytes_max=bytes_max)
    if not (token.isascii() and token.isprintable()):
        raise SecretError(f"the token in {file} must be printable ASCII")
    return token


def exposure(file: str) -> str:
    """Return a warning if other users can read a file; empty: they cannot."""
    try:
        mode = os.stat(file).st_mode
    except OSError:
        return ""
    if os.name != "posix" or not mode & _OTHERS:
        return ""
    return f"other users can read {file}: run chmod 600 on it"
