"""The metric of the problems that need attention, as `forewarn problems` lists them.

Only the replica that leads has it: each of the others would count the same.
"""

import contextlib
from collections.abc import Callable, Sequence

from forewarn.admin.attention import surroundings
from forewarn.admin.gateways import ClusterGateway, WebhookGateway
from forewarn.admin.leader import Leading
from forewarn.admin.meters import Reading
from forewarn.admin.shared_reads import SharedReads
from forewarn.control.gateway import OperatorGateway
from forewarn.control.redaction import tenant_reader
from forewarn.protocol.errors import ForewarnError
from forewarn.reporting import attention
from forewarn.service import metric_definitions
from forewarn.store.port import Reader


class ProblemMetrics:
    """The number of problems of each kind, read for a scrape; used on one event loop."""

    def __init__(
        self,
        gateway: Callable[[], OperatorGateway],
        receivers: WebhookGateway,
        replicas: ClusterGateway,
        leading: Leading,
    ) -> None:
        """Read through `gateway`, as operators do."""
        self._gateway = gateway
        self._receivers = receivers
        self._replicas = replicas
        self._leading = leading
        self._shared = SharedReads()

    async def readings(self) -> Sequence[Reading]:
        """Return the metric; nothing if the store cannot be read."""
        if self._leading.elsewhere is not None:
            return ()
        readings: Sequence[Reading] = ()
        # A store or a service that does not answer has metrics of its own.
        with contextlib.suppress(ForewarnError):
            # Several scrapers cost as much as one.
            readings = await self._shared.get("problems", self._read)
        return readings

    async def _read(self) -> Sequence[Reading]:
        gateway = self._gateway()
        around = await surroundings(self._receivers, self._replicas, gateway)

        def count(fresh: Reader) -> dict[str, int]:
            reader = tenant_reader.remembered(fresh)
            return attention.counts(
                attention.problems(reader, around, now=gateway.now())
            )

        return (Reading(metric_definitions.PROBLEMS, await gateway.read(count)),)
