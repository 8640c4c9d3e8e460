"""Bearer tokens in the operators' file, with the names of their holders.

A token file has one token on each line, `TOKEN` or `NAME:TOKEN`; a line that begins
with `#` is a comment. Only digests stay in memory, so a memory dump shows no token. All
digests are compared, each in constant time.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.control.tokens import check_actor
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.settings.files import read_file

NAMELESS = "operator"
"""The actor of a request if no token has a name."""

FILE_BYTES_MAX = 1 << 20
"""Maximum length of a token file, in bytes: ten thousand tokens of usual length."""

SECRET_CHARACTERS_MIN = 24
"""Minimum characters of a token in the file: random hexadecimal ones have 96 bits."""

DIFFERENT_CHARACTERS_MIN = 6
"""Minimum different characters: of 200 million random tokens of 24 hexadecimal digits,
one has fewer, and so do repeated characters or words."""

MAKE_ONE = "Write the output of `openssl rand -hex 32` as a token."

_NAMED = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._@-]{0,63})\s*:\s*)?(\S+)")


class TokenFileError(ForewarnError):
    """The token file cannot be used, so the service must not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The valid tokens of a file, with the names of their holders."""

    digests: tuple[tuple[str, bytes], ...] = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all holders."""
        return frozenset(name for name, _ in self.digests)

    def __contains__(self, name: str) -> bool:
        """Return whether a holder has the name, in upper or lower case."""
        folded = name.casefold()
        return any(folded == token_name.casefold() for token_name, _ in self.digests)

    def name_of(self, token: str) -> str | None:
        """Return the name of the token's holder, or None for an unknown token."""
        token_digest = _digest(token)
        holder: str | None = None
        for name, digest in self.digests:
            if secrets.compare_digest(digest, token_digest) and holder is None:
                holder = name
        return holder

    def digest_of(self, name: str) -> str:
        """Return the digest of a holder's token in hexadecimal; empty: there is none."""
        digests = [
            digest.hex() for token_name, digest in self.digests if token_name == name
        ]
        return digests[0] if digests else ""


def read_tokens(path: Path) -> Tokens:
    """Return the tokens of a file; raises TokenFileError."""
    try:
        text = read_file(path, bytes_max=FILE_BYTES_MAX).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TokenFileError(
            f"the token file {path} cannot be read: {reason}",
            hint="Set [admin] token_file to another file, or fix this one.",
        ) from error
    return parse_tokens(text, file=str(path))


def parse_tokens(text: str, *, file: str) -> Tokens:
    """Return the tokens in `text`; raises TokenFileError.

    The message has a line for each error, and never a token.
    """
    digests: list[tuple[str, bytes]] = []
    faults: list[TokenFileError] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            where = f"{file}:{number}"
            name, digest = _entry(entry, where=where)
            _check_is_new(name, digests, where=where)
            digests.append((name, digest))
        except TokenFileError as error:
            faults.append(error)
    if faults:
        raise TokenFileError(
            "\n".join(fault.message for fault in faults), hint=faults[0].hint
        )
    if not digests:
        raise TokenFileError(
            f"{file}: there is no token in this file",
            hint=MAKE_ONE,
        )
    return Tokens(digests=tuple(digests))


def _entry(text: str, *, where: str) -> tuple[str, bytes]:
    matched = _NAMED.fullmatch(text)
    if matched is None:
        raise TokenFileError(
            f"{where}: the line is neither TOKEN nor NAME:TOKEN",
            hint="A token has no spaces. A name has letters, digits and ._@-.",
        )
    if matched[1] and matched[1] != NAMELESS:
        _check_name(matched[1], where=where)
    _check_secret(matched[2], where=where)
    return matched[1] or NAMELESS, _digest(matched[2])


def _check_secret(secret: str, *, where: str) -> None:
    """Refuse a token that can be guessed, without showing it."""
    if (
        len(secret) < SECRET_CHARACTERS_MIN
        or len(set(secret)) < DIFFERENT_CHARACTERS_MIN
        or not (secret.isascii() and secret.isprintable())
    ):
        raise TokenFileError(
            f"{where}: this token can be guessed: it needs at least "
            f"{SECRET_CHARACTERS_MIN} printable ASCII characters, "
            f"{DIFFERENT_CHARACTERS_MIN} of them different",
            hint=MAKE_ONE,
        )


def _check_is_new(name: str, digests: list[tuple[str, bytes]], *, where: str) -> None:
    """Refuse a name that an earlier line has, since the history could not distinguish
    them."""
    if name.casefold() in {token_name.casefold() for token_name, _ in digests}:
        raise TokenFileError(
            f"{where}: an earlier line has the name {name} already"
            + (", which is the default name" if name == NAMELESS else ""),
            hint="Write NAME:TOKEN with another name on each line.",
        )


def _check_name(name: str, *, where: str) -> None:
    try:
        check_actor(name)
    except RefusedError as error:
        raise TokenFileError(f"{where}: {error.message}", hint=error.hint) from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
