"""Tokens of the operator API: made, judged, and revoked.

A token's text is `fw_ID_SECRET`. The secret has 256 random bits and is told once,
to who made the token; the store has its SHA-256, which needs no salt and no slow
hash, since nobody can try so many secrets. The id finds the row, so judging a token
is one read and one comparison in constant time.
"""

import hashlib
import hmac
import re

from forewarn.control.work import Work, need
from forewarn.fleet.model import Tenant
from forewarn.instants import Micros, describe_duration
from forewarn.protocol.errors import RefusedError
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.token import Token

PREFIX = "fw"
"""Of a token's text, by which those who look for leaked secrets know it."""

ID_PREFIX = "tk"

NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""A holder's name, as in a token file."""

DEFAULT_NAME = "token"
"""Who holds a token that was made without a name."""

RESERVED = frozenset(
    {
        "clock",
        "driver",
        "fleet",
        "fleet-file",
        "fleet_file",
        "nobody",
        "operator",
        "platform",
        "policy",
        "service",
        "simulator",
        "webhooks",
    }
)
"""Whom the history names who hold no token: what they did must not be forged."""

_RESERVED_FIRST = re.compile(r"(?:vm|tenant)(?![a-z0-9])")
"""How the history's `vm web_0` begins, and what reads like a tenant."""

_TEXT = re.compile(rf"{PREFIX}_([0-9a-z]{{1,32}})_([0-9a-f]{{64}})")

_NOBODYS = hashlib.sha256(b"").hexdigest()
"""Compared with where there is no such token, so that this takes as long."""


def digest(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def text_of(token: Token, secret: str) -> str:
    """Return the token as its holder sends it."""
    return f"{PREFIX}_{token.token_id.removeprefix(f'{ID_PREFIX}-')}_{secret}"


def looks_like_one(text: str) -> bool:
    """Tell whether a text has the form of a token, good or not."""
    return _TEXT.fullmatch(text) is not None


def judge(reader: Reader, text: str, *, now: Micros) -> Token | None:
    """Return the token if it is good now; None: unknown, revoked or expired."""
    matched = _TEXT.fullmatch(text)
    if matched is None:
        return None
    token = reader.get(Token, f"{ID_PREFIX}-{matched[1]}")
    kept = _NOBODYS if token is None else token.digest
    is_right = hmac.compare_digest(kept, digest(matched[2]))
    if token is None or not is_right or not is_good(reader, token, now=now):
        return None
    return token


def is_good(reader: Reader, token: Token, *, now: Micros) -> bool:
    """Tell whether a token is of use: not expired, and its tenant is there."""
    if token.is_expired(now=now):
        return False
    return not token.tenant or reader.get(Tenant, token.tenant) is not None


def create(
    work: Work,
    *,
    name: str,
    tenant: str,
    read_only: bool,
    lifetime: Micros | None,
    secret_digest: str,
) -> Token:
    """Make a token; raises NotFoundError for a tenant that is not there.

    Refused: a name of another form, or one that the history keeps for somebody else,
    and a lifetime of nothing.
    """
    if NAME_FORM.fullmatch(name) is None:
        raise RefusedError(
            f"{name!r} cannot be a token's name",
            hint="it has letters, digits and ._@-, begins with a letter or a digit, "
            "and has at most 64 of them",
        )
    check_actor(name)
    if tenant:
        need(work.tx, Tenant, tenant)
    if lifetime is not None and lifetime <= 0:
        raise RefusedError("a token cannot expire before it is made")
    token = work.tx.add(
        Token(
            token_id=work.ids.short(ID_PREFIX),
            name=name,
            tenant=tenant,
            read_only=read_only,
            digest=secret_digest,
            created_at=work.now,
            created_by=work.who.actor,
            expires_at=0 if lifetime is None else work.now + lifetime,
        )
    )
    rights = "may only read" if read_only else "may order"
    span = "does not expire" if lifetime is None else describe_duration(lifetime)
    work.note("token created", _subjects(token), f"{name}; {rights}; {span}")
    return token


def check_actor(name: str) -> None:
    """Raise RefusedError for a name by which the history would tell of others."""
    folded = name.casefold()
    if folded in RESERVED or _RESERVED_FIRST.match(folded):
        raise RefusedError(
            f"{name!r} cannot be a token's name: the history calls something else so",
            hint="name the person or the program that will hold it",
        )


def revoke(work: Work, token_id: str) -> Token:
    """Make a token good for nothing, at once; raises NotFoundError."""
    token = need(work.tx, Token, token_id)
    work.tx.remove(token)
    work.note("token revoked", _subjects(token), token.name)
    return token


def revoke_all_of(work: Work, tenant: str) -> None:
    """Revoke the tokens of a tenant that leaves the fleet.

    Another tenant of the same name must not meet them.
    """
    for token in list(every(work.tx, kinds.TOKENS_OF_TENANT, tenant)):
        revoke(work, token.token_id)


def _subjects(token: Token) -> tuple[str, ...]:
    # Not the tenant's: who may use its VMs is between it and the operator, and a
    # tenant's own history does not tell one holder of the others.
    return (f"token:{token.token_id}",)
