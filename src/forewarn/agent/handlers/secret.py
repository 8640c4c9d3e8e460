"""Secrets: the first line of a file, read anew each time, so that it can be changed.

Whatever is read here is held in `secrets`, so that no text of a server shows it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from forewarn.agent import secrets
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.settings import files

SECRET_BYTES_MAX = 4 * 1024
"""Of such a file: a token of the longest kind is a quarter of it."""

_OTHERS = 0o077


class SecretError(HandlerError):
    """The secret is not there; it may be put there the next moment."""


def whole(secret: str) -> Sequence[str]:
    """Return what no text may show of a secret: all of it."""
    return (secret,)


def read_secret(file: str, *, parts: Callable[[str], Sequence[str]] = whole) -> str:
    """Return the first line of a file; raises SecretError.

    `parts` returns what of it is secret: of a user and a password, the password.
    """
    try:
        lines = _first_line(file).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SecretError(f"the secret {file}: {why}") from error
    if not lines or not lines[0].strip():
        raise SecretError(f"the secret {file} is empty")
    secret = lines[0].strip()
    secrets.hold(file, parts(secret))
    return secret


def read_token(file: str, *, most: int = SECRET_BYTES_MAX) -> str:
    """Return a secret that goes into a header as it is; raises SecretError.

    `most` is how many bytes the first line may have.
    """
    try:
        token = _first_line(file, most).decode("ascii").strip()
    except OSError as error:
        raise SecretError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{file} has no token of plain letters") from error
    if not token:
        raise SecretError(f"{file} has nothing in it")
    if not token.isprintable():
        raise SecretError(f"{file} has no token of plain letters")
    secrets.hold(file, (token,))
    return token


def _first_line(file: str, most: int = SECRET_BYTES_MAX) -> bytes:
    """Return the first line of a file; raises OSError."""
    data = files.begin_of(file, most + 1)
    line, end, _ = data.partition(b"\n")
    if not end and len(data) > most:
        raise files.UnreadError(
            errno.EFBIG, f"its first line has more than {most} bytes", file
        )
    return line


def exposure(file: str) -> str:
    """Return that other users can read a file; empty: they cannot, or it is away."""
    try:
        mode = os.stat(file).st_mode
    except OSError:
        return ""
    if os.name != "posix" or not mode & _OTHERS:
        return ""
    return f"{file} can be read by other users: chmod 600"
