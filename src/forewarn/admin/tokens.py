"""Bearer tokens: who may use the operator API, and under which name.

A token file has one token a line, `TOKEN` or `NAME:TOKEN`; a line that begins
with `#` is a comment. Only digests are held, so that no dump of this process
shows a token, and all of them are compared, each in constant time.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.control.tokens import check_actor
from forewarn.protocol.errors import ForewarnError, RefusedError

NAMELESS = "operator"
"""Who orders something, where no token has a name."""

_NAMED = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._@-]{0,63})\s*:\s*)?(\S+)")


class TokenFileError(ForewarnError):
    """The token file cannot be used; the service must not start without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens that are good, each with its holder's name."""

    digests: tuple[tuple[str, bytes], ...] = field(repr=False)

    def name_of(self, token: str) -> str | None:
        """Return the name of the token's holder, or None for an unknown token."""
        asked = _digest(token)
        found: str | None = None
        for name, digest in self.digests:
            if secrets.compare_digest(digest, asked) and found is None:
                found = name
        return found


def read_tokens(path: Path) -> Tokens:
    """Return the tokens of a file; raises TokenFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TokenFileError(
            f"the token file {path} cannot be read: {reason}",
            hint="name another file in [admin] token_file, or mend this one",
        ) from error
    return parse_tokens(text, file=str(path))


def parse_tokens(text: str, *, file: str) -> Tokens:
    """Return the tokens that `text` lists; raises TokenFileError.

    Its message has a line for each that is wrong here, and never shows a token.
    """
    digests: list[tuple[str, bytes]] = []
    faults: list[TokenFileError] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            digests.append(_entry(entry, where=f"{file}:{number}"))
        except TokenFileError as error:
            faults.append(error)
    if faults:
        raise TokenFileError(
            "\n".join(fault.message for fault in faults), hint=faults[0].hint
        )
    if not digests:
        raise TokenFileError(
            f"{file}: there is no token in this file",
            hint="write one, such as the output of `openssl rand -hex 32`",
        )
    return Tokens(digests=tuple(digests))


def _entry(text: str, *, where: str) -> tuple[str, bytes]:
    matched = _NAMED.fullmatch(text)
    if matched is None:
        raise TokenFileError(
            f"{where}: this is neither TOKEN nor NAME:TOKEN",
            hint="a token has no spaces; a name has letters, digits and ._@-",
        )
    if matched[1] and matched[1] != NAMELESS:
        _check_name(matched[1], where=where)
    return matched[1] or NAMELESS, _digest(matched[2])


def _check_name(name: str, *, where: str) -> None:
    try:
        check_actor(name)
    except RefusedError as error:
        raise TokenFileError(f"{where}: {error.message}", hint=error.hint) from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
