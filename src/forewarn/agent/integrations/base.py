"""The base class of the handlers of all integrations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forewarn.agent.handlers.port import Forgetful, Ground, faults_of
from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.integrations.memo import Memo
from forewarn.agent.settings_model import HandlerSettings


class Integration(Forgetful):
    """One handler of the settings, with its memo.

    A subclass defines `prepare` and `recover`, and yields its problems in `_wrong`.
    """

    check_seconds = 5.0
    """Time for a whole check, in seconds: a person waits for it."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        self._name = settings.name
        self._clock = ground.clock
        self._environment = ground.environment
        self._memo = Memo(ground.memos, settings)

    def check(self, _vm: str = "", /) -> Sequence[str]:
        """Return the problems of the handler, one sentence each; changes nothing."""
        return faults_of(
            lambda: self._wrong(context_for(self.check_seconds, self._clock))
        )

    def _wrong(self, context: RunContext) -> Iterable[str]:
        """Return the problems of the handler, one sentence each; raises HandlerError."""
        raise NotImplementedError
