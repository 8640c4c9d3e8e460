"""Rights to a stream, which end with a token or a session."""

from dataclasses import dataclass

from forewarn.control import sessions, tokens
from forewarn.control.sessions import Pass
from forewarn.instants import Micros
from forewarn.store.port import Reader
from forewarn.store.records import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The token and the session with which the right to a stream ends."""

    token_id: str = ""
    """The token of the store; empty: another one, or none."""
    session: Pass | None = None


NO_CREDENTIAL = Credential()
"""The credential of a caller whose right does not end."""


def is_good(reader: Reader, held: Credential, *, now: Micros) -> bool:
    """Return whether a right still exists."""
    if held.session is not None and (
        held.session.is_over(now=now) or sessions.is_ended(reader, held.session.pass_id)
    ):
        return False
    if not held.token_id:
        return True
    token = reader.get(Token, held.token_id)
    return token is not None and tokens.is_good(reader, token, now=now)
