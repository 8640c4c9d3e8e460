"""The judgement of clients over a whole scenario.

A scenario without any client tests nothing. This is an error, which names the addresses
that got no request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros
from forewarn.metadata.server import Address
from forewarn.problems import listed
from forewarn.protocol.views import View
from forewarn.service.listening import url_of
from forewarn.sim.scenario import demands
from forewarn.sim.scenario.client_log import ClientLog
from forewarn.sim.scenario.demands import Facts, Named
from forewarn.sim.scenario.model import (
    OF_CLIENTS,
    OTHERS,
    Client,
    Demand,
    Expect,
    Expected,
    Finding,
    Scenario,
    skipped,
    untried,
)
from forewarn.sim.sim_server import SimServer
from forewarn.store.port import Reader

NO_CLIENT = "a client asks for its events"
"""The finding about all clients together."""


def waited_for(scenario: Scenario) -> Sequence[str]:
    """Return the VMs whose clients must ask before the scenario starts.

    If the result is empty, a request of any optional client is enough, or of any VM if
    there are no clients.
    """
    return [client.vm for client in _named(scenario) if not client.is_optional]


def _named(scenario: Scenario) -> Sequence[Client]:
    """Return the clients whose VMs the scenario names."""
    return [client for client in scenario.clients if client.vm != OTHERS]


def may_begin(scenario: Scenario, log: ClientLog) -> bool:
    """Return whether the clients have asked that must ask before the start."""
    if needed := waited_for(scenario):
        return all(map(log.has_asked, needed))
    if named := _named(scenario):
        return any(log.has_asked(client.vm) for client in named)
    return bool(log.asking())


class ClientJudge:
    """A judge of the clients in one run of a scenario. Used on the event loop."""

    def __init__(
        self,
        stage: SimServer,
        scenario: Scenario,
        *,
        expected: Expected,
        log: ClientLog,
        addresses: Mapping[str, Address],
    ) -> None:
        """Judge the clients by `log`, with the demands of `expected`.

        `addresses` has the address of each VM, including VMs that were deleted since.
        """
        self._stage = stage
        self._scenario = scenario
        self._expected = expected
        self._log = log
        self._addresses = addresses
        self._open: list[tuple[Client, Demand]] = [
            (client, demand)
            for client in _named(scenario)
            for demand in demands.demanded(client, expected)
        ]

    def check(self, events: Sequence[Named]) -> list[Finding]:
        """Return the findings that are already decided, for the events so far."""
        return self._decide(events, is_over=False)

    def awaits(self, events: Sequence[Named]) -> Micros:
        """Return until when a client may still meet a demand; 0: no demand is left.

        It is called when all events of the scenario are removed.
        """
        ends = [
            max(event.event.removed_at for event in events) + client.comes_back
            for client, demand in self._open
            if demands.comes_back_yet(
                demand, self._facts(client, events, is_over=False)
            )
        ]
        return max(ends, default=0)

    def is_waited_for(self, events: Sequence[Named], *, now: Micros) -> bool:
        """Return whether a client may meet a demand at this moment."""
        return any(
            demands.may_act(demand, self._facts(client, events, is_over=False), now=now)
            for client, demand in self._open
        )

    def undecided(self, events: Sequence[Named]) -> Sequence[str]:
        """Return the undecided demands during the scenario, as text.

        If only approvals are demanded and a client has had an event, only clients with
        an event that awaits approval count. Later events do not count.
        """
        if self.nobody_asked(events):
            return [NO_CLIENT]
        pairs = list(self._open)
        if not self._scenario.clients and self._expected is Expected.APPROVED:
            pairs = [(client, Demand.APPROVES) for client in self._implied(events)]
        if self._expected is Expected.APPROVED:
            own = {
                client.vm: self._facts(client, events, is_over=False).own
                for client, _ in pairs
            }
            if any(own.values()):
                pairs = [
                    (client, demand)
                    for client, demand in pairs
                    if any(event.event.awaits_approval for event in own[client.vm])
                ]
        return [demands.text_of(demand, client) for client, demand in pairs]

    def conclude(self, events: Sequence[Named]) -> list[Finding]:
        """Return all other findings, at the end of the scenario."""
        if self._expected is Expected.NONE:
            return [
                skipped("no client was judged, because none was expected").about(
                    NO_CLIENT
                )
            ]
        if self.nobody_asked(events):
            return [self._nobody(self._named(events))]
        absent = [
            client
            for client in _named(self._scenario)
            if not self._log.has_asked(client.vm)
        ]
        self._open = [pair for pair in self._open if pair[0] not in absent]
        self._open += [
            (client, demand)
            for client in self._unnamed(events)
            for demand in demands.demanded(client, self._expected)
            if demand is not Demand.ASKS and self._log.has_asked(client.vm)
        ]
        return [self._absent(client) for client in absent] + self._decide(
            events, is_over=True
        )

    def nobody_asked(self, events: Sequence[Named]) -> bool:
        """Return whether no client of the scenario has asked, although one should."""
        if self._expected is Expected.NONE:
            return False
        return not any(self._log.has_asked(client.vm) for client in self._named(events))

    def _decide(self, events: Sequence[Named], *, is_over: bool) -> list[Finding]:
        findings_: list[Finding] = []
        still_open: list[tuple[Client, Demand]] = []
        for client, demand in self._open:
            verdict = demands.judge(
                demand, self._facts(client, events, is_over=is_over)
            )
            if verdict is None:
                still_open.append((client, demand))
                continue
            findings_.append(
                verdict.about(demands.text_of(demand, client), line=client.line)
            )
        self._open = still_open
        return findings_

    def _facts(
        self, client: Client, events: Sequence[Named], *, is_over: bool
    ) -> Facts:
        vm, view = self._stage.engine.read(lambda reader: _find(reader, client.vm))
        return Facts(
            client=client,
            events=events,
            actions_of=self._log.of,
            view=view,
            is_deleted=vm is None or vm.state is VmState.DELETED,
            is_over=is_over,
            is_explicit=self._expected is Expected.SCENARIO,
        )

    # Clients

    def _named(self, events: Sequence[Named]) -> Sequence[Client]:
        """Return the clients of which at least one must ask."""
        return _named(self._scenario) or self._implied(events)

    def _unnamed(self, events: Sequence[Named]) -> Sequence[Client]:
        """Return the clients whose VMs the scenario does not name."""
        if not self._scenario.clients:
            return self._implied(events)
        others = [client for client in self._scenario.clients if client.vm == OTHERS]
        named = {client.vm for client in self._scenario.clients}
        return [
            replace(client, vm=vm)
            for client in others
            for vm in self._log.asking()
            if vm not in named
        ]

    def _implied(self, events: Sequence[Named]) -> Sequence[Client]:
        """Return clients for the VMs of a scenario without `[[client]]`."""
        names = [
            name
            for step in self._scenario.steps
            if isinstance(step.act, Expect)
            and step.act.expectation.wanted in OF_CLIENTS
            for name in step.act.expectation.vms
        ]
        names += [resource.vm for named in events for resource in named.event.resources]
        names = names or [*self._addresses, *self._log.asking()]
        return [Client(vm=name, is_optional=True) for name in dict.fromkeys(names)]

    # Clients that did not ask

    def _nobody(self, clients: Sequence[Client]) -> Finding:
        where = listed([self._where(client.vm) for client in clients]) or "any VM"
        away = next((a for c in clients if (a := self._turned_away(c.vm))), "")
        sentence = f"no client asked for the events of {where}, so none was tested"
        line = clients[0].line if clients else 0
        return untried(sentence + away).about(NO_CLIENT, line=line)

    def _absent(self, client: Client) -> Finding:
        where = self._where(client.vm) + self._turned_away(client.vm)
        sentence = f"no client asked for the events of {where}"
        may = client.is_optional
        verdict = skipped(f"{sentence}; it is not judged") if may else untried(sentence)
        return verdict.about(demands.text_of(Demand.ASKS, client), line=client.line)

    def _turned_away(self, vm: str) -> str:
        reason = demands.turned_away(self._log.of(vm))
        return f": {reason}" if reason else ""

    def _where(self, vm: str) -> str:
        address = self._addresses.get(vm)
        return vm if address is None else f"{vm} ({url_of(address)})"


def _find(reader: Reader, name: str) -> tuple[Vm | None, View | None]:
    vm = reader.get(Vm, name)
    return vm, None if vm is None else reader.get(View, vm.view)
