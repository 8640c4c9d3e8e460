"""Identification: which caller a token, or a session of the console, belongs to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forewarn.admin import limits, viewer_rights
from forewarn.admin.access import LOCAL_USER, Caller, session_over, unauthorized
from forewarn.admin.throttle import Throttle
from forewarn.admin.token_usage import TokenUsage
from forewarn.admin.tokens import Tokens
from forewarn.admin.viewer_rights import Credential
from forewarn.control import sessions, tokens
from forewarn.control.gateway import OperatorGateway
from forewarn.control.sessions import Pass, PassKind
from forewarn.instants import Micros
from forewarn.store.port import Reader
from forewarn.store.records import Token

IsLocalOperator = Callable[[str], bool]
"""Returns whether a local user is an operator at the Unix socket; it may block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassHolder:
    """A valid pass of the console, with its holder."""

    caller: Caller
    ends: Pass


class Identity:
    """Finds the caller of a token or a pass, and limits the invalid ones."""

    def __init__(
        self,
        known: Tokens | None,
        *,
        throttle: Throttle,
        is_local_operator: IsLocalOperator | None,
    ) -> None:
        """Use the tokens `known` from a file, and those of the store."""
        self.known = known
        self.throttle = throttle
        self._is_local_operator = is_local_operator
        self._uses = TokenUsage()
        self._doubtful_turn = asyncio.Lock()
        """Held while an unknown token of an exhausted source is checked."""
        self._key: tuple[OperatorGateway, bytes] | None = None
        """The key of passes, with the gateway from which it was read."""
        self._forgotten: dict[str, None] = {}
        """The IDs of sessions that ended at this replica; the oldest first."""

    # Tokens

    async def of_token(
        self, gateway: OperatorGateway, text: str, *, source: str
    ) -> Caller | None:
        """Return the holder of a token; None: it is invalid.

        Raises TooManyError for an invalid one of a source that sent too many, and
        StoreError.
        """
        caller = await self._in_turn(
            text, source, lambda: self._identify(gateway, text)
        )
        if caller is None:
            self.throttle.failed(source, text)
        else:
            self.throttle.succeeded(text)
        return caller

    async def _in_turn(
        self, text: str, source: str, find: Callable[[], Awaitable[Caller | None]]
    ) -> Caller | None:
        """Find the holder of a token or a pass; doubtful ones wait for each other."""
        if self.throttle.is_known(text) or not self.throttle.is_exhausted(source):
            return await find()
        # Invalid ones must not keep the readers of the store busy.
        async with self._doubtful_turn:
            return await find()

    async def _identify(self, gateway: OperatorGateway, text: str) -> Caller | None:
        if tokens.looks_like_one(text):
            now = gateway.now()
            token = await gateway.read(
                lambda reader: tokens.judge(reader, text, now=now)
            )
            if token is not None and not self._is_anothers(token):
                self._uses.note(gateway, token, now=now)
                return Caller.of_token(token)
        name = self.known.name_of(text) if self.known else None
        return None if name is None else Caller(name=name)

    def _is_anothers(self, token: Token) -> bool:
        """Return whether an operator of the token file has the name of the token.

        The name may have been added to the file after the token was created. Two
        holders would act under one name.
        """
        return (
            not token.tenant
            and not token.host
            and self.known is not None
            and token.name in self.known
        )

    # Passes

    async def new_pass(
        self,
        gateway: OperatorGateway,
        caller: Caller,
        *,
        kind: PassKind,
        pass_id: str,
        lifetime: Micros,
    ) -> tuple[Pass, str]:
        """Return a new pass for a caller, and its text; it ends with the caller's token.

        Raises UnauthorizedError for a token that is no longer valid.
        """
        key = await self._key_of(gateway)
        ends_at = gateway.now() + lifetime
        digest = "" if caller.token_id else self._digest_of(caller.name)
        if caller.token_id:
            token = await gateway.read(
                lambda reader: reader.get(Token, caller.token_id)
            )
            if token is None:
                raise unauthorized()
            digest = token.digest
            ends_at = min(ends_at, token.expires_at or ends_at)
        new = Pass(
            kind=kind,
            pass_id=pass_id,
            token_id=caller.token_id,
            name="" if caller.token_id else caller.name,
            proof=sessions.proof_of(key, digest) if digest else "",
            ends_at=ends_at,
        )
        return new, sessions.text_of(key, new)

    async def of_pass(
        self,
        gateway: OperatorGateway,
        text: str,
        kind: PassKind,
        *,
        source: str,
        even_forgotten: bool = False,
    ) -> PassHolder | None:
        """Return a pass and its holder; None: another service has signed it.

        `even_forgotten` also finds a session of which only this replica knows that it
        has ended. Raises UnauthorizedError for a pass that is over, TooManyError for
        one of a source that sent too many, and StoreError.
        """
        holder_pass = sessions.pass_in(await self._key_of(gateway), text, kind)
        if holder_pass is None:
            return None
        caller: Caller | None = None
        if even_forgotten or not self.is_forgotten(holder_pass.pass_id):
            caller = await self._in_turn(
                text, source, lambda: self._holder_of(gateway, holder_pass)
            )
        if caller is None:
            self.throttle.failed(source, text)
            raise session_over()
        self.throttle.succeeded(text)
        return PassHolder(caller=caller, ends=holder_pass)

    def forget(self, ended: Pass) -> None:
        """Refuse a session from now on, though its end is not stored."""
        while len(self._forgotten) >= limits.ENDED_SESSIONS_MAX:
            del self._forgotten[next(iter(self._forgotten))]
        self._forgotten[ended.pass_id] = None

    def is_forgotten(self, pass_id: str) -> bool:
        """Return whether a session ended at this replica."""
        return pass_id in self._forgotten

    async def is_good_here(self, right: Credential) -> bool:
        """Return whether a right still exists, as far as the store does not know it.

        A session may have ended only at this replica, and a local user may have left
        the group of the operators.
        """
        session = right.session
        if session is not None and self.is_forgotten(session.pass_id):
            return False
        return not right.user or await self._is_operator(right.user)

    async def _is_operator(self, user: str) -> bool:
        ask_machine = self._is_local_operator
        return ask_machine is not None and await asyncio.to_thread(ask_machine, user)

    async def _holder_of(self, gateway: OperatorGateway, given: Pass) -> Caller | None:
        now, key = gateway.now(), await self._key_of(gateway)
        if given.is_over(now=now):
            return None
        right = Credential.of(given.name, given.token_id, given)

        def ask(reader: Reader) -> tuple[bool, Token | None]:
            if not viewer_rights.is_good(reader, right, now=now):
                return False, None
            token = reader.get(Token, given.token_id) if given.token_id else None
            return True, token

        is_good, token = await gateway.read(ask)
        if not is_good:
            return None
        if given.token_id:
            if token is None or self._is_anothers(token):
                return None
            if not sessions.has_proof(key, given, token.digest):
                return None
            self._uses.note(gateway, token, now=now)
            return Caller.of_token(token)
        if given.proof:
            digest = self._digest_of(given.name)
            has_proof = digest and sessions.has_proof(key, given, digest)
            return Caller(name=given.name) if has_proof else None
        is_operator = right.user and await self._is_operator(right.user)
        return Caller(name=given.name) if is_operator else None

    def _digest_of(self, name: str) -> str:
        """Return the digest of a token of the file; empty for a local user."""
        if name.startswith(LOCAL_USER) or self.known is None:
            return ""
        return self.known.digest_of(name)

    async def _key_of(self, gateway: OperatorGateway) -> bytes:
        """Return the key of passes; raises UnauthorizedError if there is none yet."""
        if self._key is None or self._key[0] is not gateway:
            key = await gateway.read(sessions.key_in)
            if key is None:
                raise session_over()
            self._key = gateway, key
        return self._key[1]
