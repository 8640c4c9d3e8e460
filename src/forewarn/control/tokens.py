"""Tokens of the operator API: made, judged, and revoked.

A token's text is `fw_ID_SECRET`. The secret has 256 random bits and is told once,
to who made the token; the store has its SHA-256, which needs no salt and no slow
hash, since nobody can try so many secrets. The id finds the row, so judging a token
is one read and one comparison in constant time.
"""

import hashlib
import hmac
import re

from forewarn.control.transactions.work import Work, need
from forewarn.fleet.model import Tenant
from forewarn.instants import DAY, HOUR, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import changed
from forewarn.store import kinds
from forewarn.store.audit import AuditKind, Facts, TokenMade
from forewarn.store.port import Reader, every
from forewarn.store.token import Token

PREFIX = "fw"
"""Of a token's text, by which those who look for leaked secrets know it."""

ID_PREFIX = "tk"

NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""A holder's name, as in a token file."""

DEFAULT_LIFETIME = 90 * DAY
"""How long a token is good whose maker names no end: a forgotten token ends."""

USE_STEP = HOUR
"""How exactly the last use of a token is stored: a write for each request would cost
more than the requests."""

TOKENS_MAX = 1_000
"""Tokens of one tenant, or of all operators: far more than there are people and
programs, and few enough to compare their names."""

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
    names_in_file: frozenset[str] = frozenset(),
    is_unauthenticated: bool = False,
) -> Token:
    """Make a token; raises NotFoundError for a tenant that is not there.

    Without a name it is called by its ID, and without a lifetime it does not expire.
    Refused: a name of another form, one that the history keeps for somebody else, one
    that another token has (also one in the operators' file), and a lifetime of
    nothing.
    """
    token_id = work.ids.short(ID_PREFIX)
    name = name or f"token-{token_id.removeprefix(f'{ID_PREFIX}-')}"
    if NAME_FORM.fullmatch(name) is None:
        raise RefusedError(
            f"{name!r} cannot be a token's name",
            hint="it has letters, digits and ._@-, begins with a letter or a digit, "
            "and has at most 64 of them",
        )
    check_actor(name)
    if tenant:
        need(work.tx, Tenant, tenant)
    _check_is_free(work, name, tenant, names_in_file)
    if lifetime is not None and lifetime <= 0:
        raise RefusedError("a token cannot expire before it is made")
    token = work.tx.add(
        Token(
            token_id=token_id,
            name=name,
            tenant=tenant,
            read_only=read_only,
            digest=secret_digest,
            created_at=work.now,
            created_by=work.who.actor,
            expires_at=0 if lifetime is None else work.now + lifetime,
            is_unauthenticated=is_unauthenticated,
        )
    )
    made = TokenMade(name=name, read_only=read_only, lifetime=lifetime)
    work.note(AuditKind.TOKEN_CREATED, _subjects(token), Facts(token=made))
    return token


def _check_is_free(
    work: Work, name: str, tenant: str, names_in_file: frozenset[str]
) -> None:
    """Raise RefusedError if another token that is good has the name.

    Names that differ in case only would be taken for one another.
    """
    folded = name.casefold()
    if not tenant and folded in {each.casefold() for each in names_in_file}:
        raise RefusedError(
            f"the name {name} is in the token file",
            hint="Choose another name: the history tells holders apart by it.",
        )
    others = list(every(work.tx, kinds.TOKENS_OF_TENANT, tenant))
    if len(others) >= TOKENS_MAX:
        whose = f"tenant {tenant} has" if tenant else "operators have"
        raise RefusedError(
            f"{whose} {len(others)} tokens, and there may be {TOKENS_MAX}",
            hint="Revoke those that nobody needs: `forewarn token list` shows when "
            "each was last used.",
        )
    for each in others:
        if each.name.casefold() == folded and not each.is_expired(now=work.now):
            raise RefusedError(
                f"token {each.token_id} has the name {each.name}",
                hint="Choose another name, or revoke that token first "
                f"(`forewarn token revoke {each.token_id}`).",
            )


def note_use(work: Work, token_id: str) -> None:
    """Store that a token was used, unless that was stored within `USE_STEP`."""
    token = work.tx.get(Token, token_id)
    if token is not None and is_use_due(token, now=work.now):
        work.tx.replace(token, changed(token, last_used_at=work.now))


def is_use_due(token: Token, *, now: Micros) -> bool:
    """Tell whether the use of a token is to be stored; also after a step back."""
    return not 0 <= now - token.last_used_at < USE_STEP


def revoke_unauthenticated(work: Work) -> int:
    """Revoke the tokens whose makers were not authenticated; return how many.

    For a service in which callers now authenticate: a token that anybody on the
    machine could make must not outlive that.
    """
    found = [
        token for token in every(work.tx, kinds.ALL_TOKENS) if token.is_unauthenticated
    ]
    for token in found:
        revoke(work, token.token_id)
    return len(found)


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
    work.note(AuditKind.TOKEN_REVOKED, _subjects(token), Facts(text=token.name))
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
