"""Whether the tenants that receivers are for are in the fleet.

A receiver may be named before its tenant comes with a fleet file, so one without a
tenant is no mistake yet; but nobody hears of what it is told, and that is said.
"""

import logging
from collections.abc import Mapping, Sequence

from forewarn.control.requests.fleet_changes import FLEET_SUBJECT
from forewarn.fleet.model import Tenant
from forewarn.service.observed import Change
from forewarn.service.settings import Settings
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.port import Store, every

logger = logging.getLogger("forewarn.webhooks")


class Tenants:
    """Knows which tenants there are (observed.Listener); read by any thread."""

    def __init__(self, settings: Settings) -> None:
        """Look after the tenants of the settings' receivers."""
        self._wanted: Mapping[str, str] = {
            webhook.name: webhook.tenant
            for webhook in settings.webhook
            if webhook.tenant
        }
        self._names: frozenset[str] = frozenset()
        self._is_telling = False

    def load(self, store: Store) -> None:
        """Begin with those that are there; nothing writes yet."""
        self._names = frozenset(
            store.read(
                lambda reader: [
                    tenant.name for tenant in every(reader, kinds.ALL_TENANTS)
                ]
            )
        )

    def begin(self) -> None:
        """Tell the log whose tenant is missing, now and after each fleet file."""
        self._is_telling = True
        self._tell()

    def has(self, name: str) -> bool:
        """Tell whether there is such a tenant."""
        return name in self._names

    # observed.Listener

    def store_failed(self) -> None:
        """Do nothing: nothing was written."""

    def committed(self, changes: Sequence[Change], *, seconds: float) -> None:
        """Take which tenants came and went."""
        del seconds
        if not self._wanted:
            return
        is_fleet = False
        for change in changes:
            if isinstance(change.after, Tenant):
                self._names |= {change.after.name}
            elif isinstance(change.before, Tenant):
                self._names -= {change.before.name}
            elif isinstance(change.after, AuditEntry):
                is_fleet = is_fleet or FLEET_SUBJECT in change.after.subjects
        if is_fleet and self._is_telling:
            self._tell()

    def _tell(self) -> None:
        for webhook, tenant in self._wanted.items():
            if not self.has(tenant):
                logger.warning(
                    "webhook %s hears of nothing: there is no tenant %r in the fleet",
                    webhook,
                    tenant,
                )
