"""Requests of a test about several hosts or VMs of a world."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from forewarn.protocol.operations import Action, Verb
from forewarn.testing.kit import orders
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import live
from forewarn.testing.kit.durations import Length
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.forms import flat
from forewarn.testing.kit.orders import Decide, RequestOptions
from forewarn.testing.kit.roster import Roster


class Several:
    """The methods of a world for requests about several hosts or VMs."""

    _core: AnyCore
    _roster: Roster

    @checked
    def maintain(
        self,
        *hosts: str | Collection[str],
        impact: orders.Impact,
        duration: Length | None = None,
        description: str | None = None,
        at_once: int | None = None,
    ) -> list[Event]:
        """Maintain hosts, at most `at_once` at a time; return the first hosts' events.

        The maintenance of the other hosts is announced later.
        """
        wanted = RequestOptions(
            duration=duration, description=description, at_once=at_once
        )
        action = Action(impact)
        return self._made(
            orders.maintain(self._roster.hosts_named(hosts), action, wanted)
        )

    @checked
    def terminate(
        self,
        *vms: str | Collection[str],
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Delete VMs in one request: one NotBefore, and all at once (3.6)."""
        return self._changed(
            Verb.TERMINATE, vms, RequestOptions(notice=notice, description=description)
        )

    @checked
    def preempt(
        self,
        *vms: str | Collection[str],
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Evict VMs like Spot VMs, even if they are not Spot VMs (5.6)."""
        return self._changed(
            Verb.EVICT, vms, RequestOptions(notice=notice, description=description)
        )

    evict = preempt
    """The name of the operator's verb."""

    @checked
    def inject(
        self,
        *vms: str | Collection[str],
        type: str,  # noqa: A002 - the protocol's word
        notice: Length = 0.0,
        source: str | None = None,
        duration: Length | None = None,
        description: str | None = None,
        migrates: bool = False,
    ) -> list[Event]:
        """Inject events of any type and notice: one for each host and scope."""
        wanted = RequestOptions(
            notice=notice, duration=duration, description=description
        )
        kind = orders.event_type_of(type)
        origin = orders.source_of(source, kind)
        named = self._roster.named(vms)
        return self._made(
            orders.staging(kind, origin, named, wanted, migrates=migrates)
        )

    @checked
    def fail(self, name: str) -> list[Event]:
        """Make a host or VM fail without notice (5.5)."""
        self._roster.check_target(name)
        return self._made(orders.ordering("fail", [name], RequestOptions()))

    @checked
    def restore(self, name: str) -> None:
        """Make a host or VM run again, and remove the events of its failure."""
        self._roster.check_target(name)
        live(self._core).order(orders.ordering("restore", [name], RequestOptions()))

    @checked
    def withhold(self, *vms: str | Collection[str]) -> None:
        """Withhold the approvals of these VMs; see `Vm.withhold`."""
        for name in self._roster.named(vms):
            self._roster.vm(name).withhold()

    @checked
    def release(self, *vms: str | Collection[str]) -> None:
        """Release the approvals of these VMs; see `Vm.release`."""
        for name in self._roster.named(vms):
            self._roster.vm(name).release()

    @checked
    def order(
        self,
        *targets: str | Collection[str],
        verb: str,
        arguments: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Event]:
        """Use any verb about hosts or VMs, such as `upgrade-os`.

        `arguments` are as in a step of a scenario: `{"not_before": "+1h"}`.
        """
        return self._made(orders.written(verb, flat(targets), arguments))

    def _changed(
        self, verb: Verb, vms: Iterable[str | Collection[str]], wanted: RequestOptions
    ) -> list[Event]:
        core, named = live(self._core), self._roster.named(vms)
        return self._made(orders.change_vms(core, named, verb, wanted))

    def _made(self, decide: Decide) -> list[Event]:
        core = live(self._core)

        def make() -> list[str]:
            return [event.event_id for event in orders.made(core, decide)]

        return [Event(core, event_id) for event_id in core.call(make)]
