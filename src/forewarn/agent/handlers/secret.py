"""Secrets: the first line of a file, read anew each time, so that it can be changed."""

from __future__ import annotations

import os

from forewarn.agent.handlers.port import HandlerError

SECRET_BYTES_MAX = 4 * 1024
"""Of such a file: a token of the longest kind is a quarter of it."""

_OTHERS = 0o077


class SecretError(HandlerError):
    """The secret is not there; it may be put there the next moment."""


def read_secret(file: str) -> str:
    """Return the first line of a file; raises SecretError."""
    try:
        with open(file, "rb") as opened:
            lines = opened.read(SECRET_BYTES_MAX).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SecretError(f"the secret {file}: {why}") from error
    if not lines or not lines[0].strip():
        raise SecretError(f"the secret {file} is empty")
    return lines[0].strip()


def read_token(file: str) -> str:
    """Return a secret that goes into a header as it is; raises SecretError."""
    try:
        with open(file, "rb") as opened:
            token = opened.readline(SECRET_BYTES_MAX).decode("ascii").strip()
    except OSError as error:
        raise SecretError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{file} has no token of plain letters") from error
    if not token:
        raise SecretError(f"{file} has nothing in it")
    if not token.isprintable():
        raise SecretError(f"{file} has no token of plain letters")
    return token


def exposure(file: str) -> str:
    """Return that other users can read a file; empty: they cannot, or it is away."""
    try:
        mode = os.stat(file).st_mode
    except OSError:
        return ""
    if os.name != "posix" or not mode & _OTHERS:
        return ""
    return f"{file} can be read by other users: chmod 600"
