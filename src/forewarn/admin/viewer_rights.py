"""Rights to requests and streams, which end with a token, a session or
the right of a local user."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forewarn.admin.access import LOCAL_USER
from forewarn.control import sessions, tokens
from forewarn.control.sessions import Pass
from forewarn.instants import Micros
from forewarn.store.port import Reader
from forewarn.store.records import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The token, the session and the local user with which a right ends."""

    token_id: str = ""
    """The token of the store; empty: another one, or none."""
    session: Pass | None = None
    user: str = ""
    """The local user of the session, named as in the history; empty: it has none."""

    @classmethod
    def of(cls, name: str, token_id: str, session: Pass | None) -> "Credential":
        """Return the credential of a caller of this name.

        A process at the Unix socket keeps its right as long as its connection: the
        kernel knows its groups, and those in the database can be others.
        """
        user = name if session is not None and name.startswith(LOCAL_USER) else ""
        return cls(token_id=token_id, session=session, user=user)


IsGood = Callable[[Credential], Awaitable[bool]]
"""Returns whether a right still exists, as far as the store does not know it."""

NO_CREDENTIAL = Credential()
"""The credential of a caller whose right does not end."""


def is_good(reader: Reader, right: Credential, *, now: Micros) -> bool:
    """Return whether a right still exists, as far as the store knows.

    `Identity.is_good_here` is the other part.
    """
    if right.session is not None and (
        right.session.is_over(now=now)
        or sessions.is_ended(reader, right.session.pass_id)
    ):
        return False
    if not right.token_id:
        return True
    token = reader.get(Token, right.token_id)
    return token is not None and tokens.is_good(reader, token, now=now)
