"""The hubs of an application: one for operators, and one for each tenant with viewers."""

from collections.abc import Callable

from forewarn.admin.hub import Around, Hub
from forewarn.admin.viewer_rights import IsGood
from forewarn.control.gateway import OperatorGateway


class Hubs:
    """The hubs of an application, by the rights of their viewers."""

    def __init__(
        self,
        gateway: Callable[[], OperatorGateway],
        around: Around,
        is_good_here: IsGood,
    ) -> None:
        """Begin without any."""
        self._gateway = gateway
        self._around = around
        self._is_good_here = is_good_here
        self._hubs: dict[str, Hub] = {}

    def end(self) -> None:
        """End all streams, because the server stops."""
        for hub in self._hubs.values():
            hub.stop()

    def of(self, tenant: str) -> Hub:
        """Return the hub of operators or of a tenant, started if necessary."""
        gateway = self._gateway()
        self._hubs = {
            name: hub
            for name, hub in self._hubs.items()
            if not hub.is_over and hub.feed is gateway
        }
        if tenant not in self._hubs:
            hub = self._hubs[tenant] = Hub(
                gateway, tenant, self._around, self._is_good_here
            )
            hub.start()
        return self._hubs[tenant]
