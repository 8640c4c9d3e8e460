"""Sessions of the console, and the links that begin one.

Both are *passes*: texts that name their holder and are signed with a key from the secret
of the store. Each replica can check them, before and after a restart. Another store
refuses them. Nothing is stored until a pass ends early: a session by logging out, and a
link by its only use. Then its ID is stored until the pass would have ended anyway.

A pass ends with the token of its holder. It has a proof of that token, so a token of the
same name with another secret does not continue it.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, cast

from forewarn.control.transactions.work import Work
from forewarn.instants import HOUR, MINUTE, Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.errors import RefusedError
from forewarn.store.port import Reader
from forewarn.store.records import (
    LEADER_KEY,
    AuditKind,
    Facts,
    Leader,
    OrderKey,
)

SESSION_LIFETIME = 12 * HOUR
"""Maximum lifetime of a session: a shift of an operations room."""

LINK_LIFETIME = 2 * MINUTE
"""Lifetime of a link: the time to open it, also by copying it to another machine."""

ID_DIGITS = 32
"""Hexadecimal digits of the random ID of a pass: 128 bits."""

TEXT_CHARACTERS_MAX = 1_024
"""Maximum characters of the text of a pass: four names of the maximum length."""

_PURPOSE = b"forewarn console"
"""Separates the key from other keys of the same secret."""

_MEMBERS = 6
"""Members of a pass in its text."""

_ENDED = "console"
"""Caller of the stored keys of ended passes."""


class PassKind(Enumeration):
    """The use of a pass."""

    SESSION = "session"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A session or a link."""

    kind: PassKind
    pass_id: str
    """Random; it is stored if the pass ends early."""
    token_id: str = ""
    """The holder's token of the store."""
    name: str = ""
    """The holder, without a token of the store: a name of the token file, or a local
    user."""
    proof: str = ""
    """`proof_of` the holder's token; empty: a local user has none."""
    ends_at: Micros

    def is_over(self, *, now: Micros) -> bool:
        """Return whether its time has passed."""
        return now >= self.ends_at


def key_in(reader: Reader) -> bytes | None:
    """Return the key that signs passes; None: the store has no secret yet."""
    leader = reader.get(Leader, LEADER_KEY)
    if leader is None or not leader.secret:
        return None
    return hmac.digest(leader.secret.encode(), _PURPOSE, "sha256")


def proof_of(key: bytes, digest: str) -> str:
    """Return the proof of a token, from the digest of its secret."""
    return hmac.digest(key, b"proof:" + digest.encode(), "sha256").hex()[:ID_DIGITS]


def text_of(key: bytes, given: Pass) -> str:
    """Return the text of a pass, as its holder sends it."""
    members = [
        given.kind.value,
        given.pass_id,
        given.token_id,
        given.name,
        given.proof,
        given.ends_at,
    ]
    encoded = json.dumps(members, separators=(",", ":")).encode()
    body = base64.urlsafe_b64encode(encoded).rstrip(b"=")
    return f"{body.decode()}.{_mac(key, body)}"


def pass_in(key: bytes, text: str, kind: PassKind) -> Pass | None:
    """Return the pass of this kind in a text.

    None: this store has not signed it, or another version of forewarn has written it.
    """
    if len(text) > TEXT_CHARACTERS_MAX or not text.isascii():
        return None
    body, _, mac = text.partition(".")
    if not hmac.compare_digest(mac, _mac(key, body.encode())):
        return None
    decoded: Any = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if (
        not isinstance(decoded, list)
        or len(members := cast("list[Any]", decoded)) != _MEMBERS
    ):
        return None
    kind_word, pass_id, token_id, name, proof, ends_at = members
    if kind_word != kind.value:
        return None
    return Pass(
        kind=kind,
        pass_id=pass_id,
        token_id=token_id,
        name=name,
        proof=proof,
        ends_at=ends_at,
    )


def _mac(key: bytes, body: bytes) -> str:
    return hmac.digest(key, b"pass:" + body, "sha256").hex()


def has_proof(key: bytes, given: Pass, digest: str) -> bool:
    """Return whether a pass was given to the holder of the token with this digest."""
    return hmac.compare_digest(given.proof, proof_of(key, digest))


def is_ended(reader: Reader, pass_id: str) -> bool:
    """Return whether a session was ended, or a link was used."""
    return reader.get(OrderKey, _ended_key(pass_id)) is not None


def end(work: Work, pass_id: str, *, ends_at: Micros) -> bool:
    """End a pass early; return whether it was not ended before."""
    if is_ended(work.tx, pass_id):
        return False
    if ends_at > work.now:
        work.tx.add(
            OrderKey(
                key_id=_ended_key(pass_id),
                caller=_ENDED,
                digest=hashlib.sha256(pass_id.encode()).hexdigest(),
                result="null",
                created_at=work.now,
                expires_at=ends_at,
            )
        )
    return True


def use_link(work: Work, pass_id: str, *, ends_at: Micros) -> None:
    """Use a link, which works once; raises RefusedError."""
    if ends_at <= work.now or not end(work, pass_id, ends_at=ends_at):
        raise RefusedError(
            "the link has been used already, or is too old",
            hint="Create another one: `forewarn console`.",
        )


def note_link(work: Work) -> None:
    """Write into the history that a link was created."""
    token = work.who.actor.token
    subjects = (f"token:{token}",) if token else ()
    work.note(AuditKind.CONSOLE_LINK_CREATED, subjects, Facts())


def _ended_key(pass_id: str) -> str:
    # The colon in front keeps it apart from the keys of requests, which begin with a
    # length.
    return hashlib.sha256(f":{_ENDED}:{pass_id}".encode()).hexdigest()
