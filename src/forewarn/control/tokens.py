"""Tokens of the operator API: create, check and revoke.

The text of a token is `fw_ID_SECRET`. The secret has 256 random bits and is shown once,
to the caller that creates the token. The store has its SHA-256. A salt or a slow hash is
not needed, because an attacker cannot try 2^256 secrets. The ID finds the row, so a check
is one read and one comparison in constant time.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable

from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, Tenant
from forewarn.instants import DAY, HOUR, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import changed
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts, Token, TokenMade
from forewarn.verbs.roles import ALL_ROLES, TENANT_ROLES, Role, complete, role_names

PREFIX = "fw"
"""Prefix of the text of a token, which secret scanners recognize."""

ID_PREFIX = "tk"

NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""Form of the name of a holder, as in a token file."""

DEFAULT_LIFETIME = 90 * DAY
"""Lifetime of a token if none is given, so that forgotten tokens expire."""

USE_STEP = HOUR
"""Precision of the stored last use of a token: a write for each request would cost more
than the requests."""

TOKENS_MAX = 1_000
"""Maximum tokens of one tenant, or of all operators: more than their people and programs
need, and few enough to compare their names."""

RELAY_TOKENS_MAX = 8
"""Maximum tokens of the relay of one host: the present one, the next one, and some that
are not revoked yet."""

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
"""Names of actors without a token in the history. A token must not have such a name."""

_RESERVED_FIRST = re.compile(r"(?:vm|tenant)(?![a-z0-9])")
"""Names that look like a VM or a tenant in the history, such as `vm web_0`."""

_TEXT = re.compile(rf"{PREFIX}_([0-9a-z]{{1,32}})_([0-9a-f]{{64}})")

_NOBODYS = hashlib.sha256(b"").hexdigest()
"""Digest to compare with if the token does not exist, so that a check takes as long."""


def digest(secret: str) -> str:
    """Return the stored digest of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def text_of(token: Token, secret: str) -> str:
    """Return the text of the token, as its holder sends it."""
    return f"{PREFIX}_{token.token_id.removeprefix(f'{ID_PREFIX}-')}_{secret}"


def looks_like_one(text: str) -> bool:
    """Return whether a text has the form of a token, valid or not."""
    return _TEXT.fullmatch(text) is not None


def judge(reader: Reader, text: str, *, now: Micros) -> Token | None:
    """Return the token if it is valid now; None: unknown, revoked or expired."""
    matched = _TEXT.fullmatch(text)
    if matched is None:
        return None
    token = reader.get(Token, f"{ID_PREFIX}-{matched[1]}")
    stored_digest = _NOBODYS if token is None else token.digest
    is_right = hmac.compare_digest(stored_digest, digest(matched[2]))
    if token is None or not is_right or not is_good(reader, token, now=now):
        return None
    return token


def is_good(reader: Reader, token: Token, *, now: Micros) -> bool:
    """Return whether a token is valid: not expired, and its tenant or host exists."""
    if token.is_expired(now=now):
        return False
    if token.host:
        return reader.get(Host, token.host) is not None
    return not token.tenant or reader.get(Tenant, token.tenant) is not None


def create(
    work: Work,
    *,
    name: str,
    tenant: str,
    roles: Collection[Role],
    lifetime: Micros | None,
    secret_digest: str,
    names_in_file: frozenset[str] = frozenset(),
    is_unauthenticated: bool = False,
    relay: str = "",
) -> Token:
    """Create a token; raises NotFoundError for an unknown tenant or host.

    Without a name, it is named after its ID. Without roles, it has all roles that an
    operator or a tenant can have. Without a lifetime, it does not expire. `relay` is the
    host whose relay holds the token, which has no role.
    Refused: an invalid name, a reserved name, the name of another token (including one in
    the token file of the operators), a role that a tenant cannot have, and a lifetime of
    zero.
    """
    assert not (relay and (tenant or roles)), "a relay has no tenant and no role"
    token_id = work.ids.short(ID_PREFIX)
    name = name or f"token-{token_id.removeprefix(f'{ID_PREFIX}-')}"
    if NAME_FORM.fullmatch(name) is None:
        raise RefusedError(
            f"{name!r} is not a valid token name",
            hint="Use at most 64 letters, digits and ._@-, and start with a letter or a "
            "digit.",
        )
    check_actor(name)
    if tenant:
        need(work.tx, Tenant, tenant)
        _check_roles_of_tenant(tenant, roles)
    if relay:
        _check_relay(work, relay)
    else:
        _check_is_free(work, name, tenant, names_in_file)
    if lifetime is not None and lifetime <= 0:
        raise RefusedError("a token cannot expire before it is created")
    token = work.tx.add(
        Token(
            token_id=token_id,
            name=name,
            tenant=tenant,
            roles=() if relay else complete(roles or _all_roles(tenant)),
            digest=secret_digest,
            created_at=work.now,
            created_by=work.who.actor,
            expires_at=0 if lifetime is None else work.now + lifetime,
            is_unauthenticated=is_unauthenticated,
            host=relay,
        )
    )
    facts = TokenMade(name=name, roles=token.roles, lifetime=lifetime, host=relay)
    work.note(AuditKind.TOKEN_CREATED, _subjects(token), Facts(token=facts))
    return token


def _all_roles(tenant: str) -> tuple[Role, ...]:
    return TENANT_ROLES if tenant else ALL_ROLES


def _check_relay(work: Work, host: str) -> None:
    """Raise NotFoundError for an unknown host, and RefusedError for too many tokens."""
    need(work.tx, Host, host)
    others = list(every(work.tx, kinds.TOKENS_OF_RELAY, host))
    if len(others) >= RELAY_TOKENS_MAX:
        raise RefusedError(
            f"the relay of {host} has {len(others)} tokens; the maximum is "
            f"{RELAY_TOKENS_MAX}",
            hint="Revoke the unused ones: `forewarn token list` shows when each was last "
            "used.",
        )


def _check_roles_of_tenant(tenant: str, roles: Collection[Role]) -> None:
    """Raise RefusedError for a role that only operators have."""
    wrong = tuple(role for role in Role if role in roles and role not in TENANT_ROLES)
    if wrong:
        raise RefusedError(
            f"a token of tenant {tenant} cannot have the role {role_names(wrong)}",
            hint=f"A tenant's roles are {role_names(TENANT_ROLES)}. Leave out --role for all "
            "of them.",
        )


def _check_is_free(
    work: Work, name: str, tenant: str, names_in_file: frozenset[str]
) -> None:
    """Raise RefusedError if another valid token has the name.

    The comparison ignores case, because such names are easily confused.
    """
    folded = name.casefold()
    if not tenant and folded in {token_name.casefold() for token_name in names_in_file}:
        raise RefusedError(
            f"the name {name} is in the token file",
            hint="Choose another name: the history identifies holders by name.",
        )
    others = list(every(work.tx, kinds.TOKENS_OF_TENANT, tenant))
    if len(others) >= TOKENS_MAX:
        whose = f"tenant {tenant} has" if tenant else "operators have"
        raise RefusedError(
            f"{whose} {len(others)} tokens; the maximum is {TOKENS_MAX}",
            hint="Revoke unused tokens: `forewarn token list` shows when each was last "
            "used.",
        )
    for token in others:
        if token.name.casefold() == folded and not token.is_expired(now=work.now):
            raise RefusedError(
                f"token {token.token_id} has the name {token.name}",
                hint="Choose another name, or revoke that token first "
                f"(`forewarn token revoke {token.token_id}`).",
            )


def note_uses(work: Work, token_ids: Iterable[str]) -> None:
    """Store the use of tokens, except for those whose use was stored within `USE_STEP`."""
    for token_id in token_ids:
        token = work.tx.get(Token, token_id)
        if token is not None and is_use_due(token, now=work.now):
            work.tx.replace(token, changed(token, last_used_at=work.now))


def is_use_due(token: Token, *, now: Micros) -> bool:
    """Return whether the use of a token must be stored, even after a clock step back."""
    return not 0 <= now - token.last_used_at < USE_STEP


def revoke_unauthenticated(work: Work) -> int:
    """Revoke the tokens that unauthenticated callers created; return their number.

    This is for a service that now authenticates its callers: a token that any user of
    the machine could create must no longer work.
    """
    tokens = [
        token for token in every(work.tx, kinds.ALL_TOKENS) if token.is_unauthenticated
    ]
    for token in tokens:
        revoke(work, token.token_id)
    return len(tokens)


def check_actor(name: str) -> None:
    """Raise RefusedError for a name that the history uses for another actor."""
    folded = name.casefold()
    if folded in RESERVED or _RESERVED_FIRST.match(folded):
        raise RefusedError(
            f"{name!r} is a reserved name: the history uses it for another actor",
            hint="Use the name of the person or program that will hold the token.",
        )


def revoke(work: Work, token_id: str) -> Token:
    """Revoke a token at once; raises NotFoundError."""
    token = need(work.tx, Token, token_id)
    work.tx.remove(token)
    if token.host:
        # Without any token, no relay of the host is expected.
        work.free_relay(token.host)
        work.free_room()
    work.note(AuditKind.TOKEN_REVOKED, _subjects(token), Facts(text=token.name))
    return token


def revoke_all_of(work: Work, tenant: str) -> None:
    """Revoke the tokens of a tenant that is removed from the fleet.

    The tokens must not work for a later tenant of the same name.
    """
    for token in list(every(work.tx, kinds.TOKENS_OF_TENANT, tenant)):
        revoke(work, token.token_id)


def revoke_all_of_relay(work: Work, host: str) -> None:
    """Revoke the tokens of the relay of a host that is removed from the fleet."""
    for token in list(every(work.tx, kinds.TOKENS_OF_RELAY, host)):
        revoke(work, token.token_id)


def _subjects(token: Token) -> tuple[str, ...]:
    # The tenant is not a subject: tokens are a matter of the operator, and the history
    # of a tenant must not show one holder to the others.
    return (f"token:{token.token_id}",)
