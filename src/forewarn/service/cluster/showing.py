"""The gateway of `GET /v1/cluster` (admin.gateways.ClusterGateway)."""

from collections.abc import Callable

from forewarn.cluster.view import View


class NoCluster:
    """The gateway of a service that runs alone, with its own store."""

    async def cluster(self) -> View | None:
        """Return None."""
        return None


class ShownCluster:
    """The gateway of a replica."""

    def __init__(self, view: Callable[[], View]) -> None:
        """Show `view`."""
        self._view = view

    async def cluster(self) -> View | None:
        """Return the replicas as this one sees them."""
        return self._view()
