"""Create the components of a service from its settings."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.instants import SECOND
from forewarn.metadata.limits import Limits
from forewarn.metadata.waiting import Waits
from forewarn.protocol.published import Publication
from forewarn.service import limits, open_files
from forewarn.service.api import Api
from forewarn.service.campaign_plans import CampaignPlans
from forewarn.service.fleets import Planner
from forewarn.service.readings import Readings
from forewarn.service.settings import Settings, problem
from forewarn.service.settings_model import policy
from forewarn.store.open import open_store, source_of
from forewarn.store.port import Store

if TYPE_CHECKING:
    from forewarn.control.rules.abilities import Abilities


class Outbound:
    """The plane's listener: passes everything to the event loop, in order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        publish: Callable[[Publication], None],
        changed: Callable[[Sequence[str]], None],
    ) -> None:
        """Call `publish` and `changed` on `loop`."""
        self._loop = loop
        self._publish = publish
        self._changed = changed

    def publish(self, publication: Publication) -> None:
        """Pass changed documents to the endpoint."""
        self._loop.call_soon_threadsafe(self._publish, publication)

    def changed(self, operations: Sequence[str]) -> None:
        """Pass the IDs of changed operations to the watchers."""
        self._loop.call_soon_threadsafe(self._changed, operations)


def open_store_of(settings: Settings) -> Store:
    """Open the store; raises StoreError or SettingsError."""
    try:
        return open_store(settings.store.url)
    except ValueError as error:
        raise problem(settings, "store.url", str(error)) from error


def planner_of(settings: Settings) -> Planner | None:
    """Return the planner for large fleet files; None if the store is in memory."""
    source = source_of(settings.store.url)
    return Planner(source) if source is not None else None


def campaign_plans_of(
    settings: Settings, readings: Readings, *, in_memory: bool = False
) -> CampaignPlans:
    """Return the planner of campaigns: a process, unless the store is in memory."""
    source = None if in_memory else source_of(settings.store.url)

    def abilities() -> "Abilities":
        # A service that plans nothing does not load the drivers in this process.
        from forewarn.service.driver_kinds import abilities_of  # noqa: PLC0415

        return abilities_of(settings)

    checks = frozenset(check.name for check in settings.check)
    return CampaignPlans(source, readings, policy(settings), abilities, checks)


def waits_of(settings: Settings) -> Waits:
    """Return the registry of requests that wait for a change, if push is enabled."""
    metadata = settings.metadata
    return Waits(
        longest_seconds=metadata.push_longest_wait // SECOND if metadata.push else 0
    )


def metadata_limits(api: Api) -> Limits:
    """Return the endpoint's limits, which leave a reserve of open files."""
    usual = Limits()
    files = open_files.free_for_connections()
    if not api.is_apart:
        files -= files // limits.ADMIN_FILES_SHARE
    return replace(usual, connections=min(usual.connections, files))
