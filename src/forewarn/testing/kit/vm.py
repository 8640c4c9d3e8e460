"""One VM of a world: its endpoint, its events, and its requests."""

import json
from typing import Any

from forewarn.fleet.model import Vm as StoredVm
from forewarn.fleet.model import VmState
from forewarn.metadata.http import Request, Response
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, Verb
from forewarn.protocol.versions import NEWEST
from forewarn.sim.journal import JournalEntry
from forewarn.testing.client import EVENTS_PATH
from forewarn.testing.kit import orders, requests
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import AnyCore, live
from forewarn.testing.kit.durations import REQUEST_SECONDS, Length, seconds_of
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.faults import Faults
from forewarn.testing.kit.orders import Decide, RequestOptions
from forewarn.testing.kit.setup import host_of

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

ENDPOINT = "FOREWARN_ENDPOINT"
"""The environment variable with the address of the metadata endpoint."""


class AioVm:
    """The wait methods of a VM for asyncio tests; they do not block the loop."""

    def __init__(self, core: AnyCore, name: str) -> None:
        """Wait for requests of the VM with this name."""
        self._core = core
        self._name = name

    @checked
    async def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[JournalEntry]:
        """Wait as `Vm.wait_for_requests` does."""
        waiting = requests.visits(self._core, self._name, count, seconds_of(timeout))
        return await self._core.awaited(waiting)


class Vm:
    """A VM of a world. Each verb returns the event that the VM sees."""

    def __init__(self, core: AnyCore, name: str, url: str) -> None:
        """Refer to the VM whose endpoint is at `url`."""
        self._core = core
        self.name = name
        self.url = url
        """Metadata endpoint of the VM without a path, such as
        http://127.0.0.1:41234."""

    def __repr__(self) -> str:
        """Return the text that a failed assertion shows."""
        return f"<Vm {self.name} at {self.url}>"

    # State
    @property
    def events_url(self) -> str:
        """Return the URL of its Scheduled Events document in the newest api-version."""
        return f"{self.url}{EVENTS_PATH}?api-version={NEWEST.name}"

    @property
    @checked
    def host(self) -> str:
        """Return the VM's current host."""
        core = live(self._core)
        return core.call(lambda: host_of(core.engine, self.name))

    @property
    @checked
    def state(self) -> str:
        """Return the VM's state: `running`, `down` or `deleted`."""
        stored = live(self._core).read(lambda reader: reader.get(StoredVm, self.name))
        return (VmState.DELETED if stored is None else stored.state).value

    @checked
    def environment(self) -> dict[str, str]:
        """Return the environment variables for a program of this VM."""
        return {ENDPOINT: self.url}

    @property
    @checked
    def events(self) -> list[Event]:
        """Return the VM's current events, the oldest first."""
        core, name = self._core, self.name

        return [
            Event(core, live_event.event_id)
            for live_event in core.call(core.live_events)
            if live_event.names(name)
        ]

    @checked
    def document(self) -> dict[str, Any]:
        """Return the VM's current document, without counting this as a request."""
        core, name = self._core, self.name
        request = Request(
            method="GET",
            path=EVENTS_PATH,
            query=f"api-version={NEWEST.name}",
            headers={"metadata": ("true",)},
            body=b"",
        )

        def glance() -> Any:
            answer = core.glance(name, request)
            if not isinstance(answer, Response):
                raise RefusedError(f"VM {name} has no document yet")
            return json.loads(answer.payload.partition(b"\r\n\r\n")[2])

        return core.call(glance)

    # Requests of users and of the platform
    @checked
    def reboot(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Restart the VM at the request of its user (5.3)."""
        return self._changed(
            Verb.REBOOT,
            RequestOptions(notice=notice, duration=duration, description=description),
        )

    @checked
    def redeploy(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Redeploy the VM at the request of its user; it loses its ephemeral disk
        (5.3)."""
        return self._changed(
            Verb.REDEPLOY,
            RequestOptions(notice=notice, duration=duration, description=description),
        )

    @checked
    def preempt(
        self, *, notice: Length | None = None, description: str | None = None
    ) -> Event:
        """Evict the VM like a Spot VM, even if it is not a Spot VM (5.6)."""
        return self._changed(
            Verb.EVICT, RequestOptions(notice=notice, description=description)
        )

    evict = preempt
    """The name of the operator's verb."""

    @checked
    def terminate(
        self, *, notice: Length | None = None, description: str | None = None
    ) -> Event:
        """Delete the VM at the request of its user (5.7)."""
        return self._changed(
            Verb.TERMINATE, RequestOptions(notice=notice, description=description)
        )

    @checked
    def freeze(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Freeze the VM's host for seconds, as the platform (5.2)."""
        return self._maintained(
            Action.FREEZE,
            RequestOptions(notice=notice, duration=duration, description=description),
        )

    @checked
    def live_migrate(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Migrate the VM to another host with its memory, as the platform (5.2)."""
        return self._maintained(
            Action.LIVE_MIGRATE,
            RequestOptions(notice=notice, duration=duration, description=description),
        )

    @checked
    def maintain(
        self,
        impact: orders.Impact,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Maintain the VM's host, as the platform: freeze, live-migrate, reboot,
        redeploy.

        Without a `notice`, all VMs on the host get events; with one, only this VM does.
        """
        return self._maintained(
            Action(impact),
            RequestOptions(notice=notice, duration=duration, description=description),
        )

    @checked
    def predict_failure(
        self, ahead: Length | None = None, *, description: str | None = None
    ) -> Event:
        """Announce a predicted failure of its host (5.4), by default in seven days."""
        wanted = RequestOptions(description=description)
        return self._made(orders.predict_failure(self.host, ahead, wanted))

    @checked
    def fail(self) -> Event:
        """Make the VM fail without notice (5.5)."""
        return self._made(orders.ordering("fail", [self.name], RequestOptions()))

    @checked
    def restore(self) -> None:
        """Make the VM run again, and remove the event of its failure."""
        live(self._core).order(
            orders.ordering("restore", [self.name], RequestOptions())
        )

    @checked
    def event(
        self,
        type: str,  # noqa: A002 - the protocol's word
        *,
        notice: Length = 0.0,
        source: str | None = None,
        duration: Length | None = None,
        description: str | None = None,
        migrates: bool = False,
    ) -> Event:
        """Inject an event of any type and notice; without a notice it is Started."""
        wanted = RequestOptions(
            notice=notice, duration=duration, description=description
        )
        event_type = orders.event_type_of(type)
        origin = orders.source_of(source, event_type)
        return self._made(
            orders.staging(event_type, origin, [self.name], wanted, migrates=migrates)
        )

    @checked
    def fault(self, line: str | int) -> None:
        """Replace the faults in its answers, with a line such as `500 x2, timeout`."""
        Faults(self._core).set(line, vm=self.name)

    @checked
    def clear_faults(self) -> None:
        """Remove the faults in its answers."""
        Faults(self._core).clear(self.name)

    @checked
    def withhold(self) -> None:
        """Withhold the VM's approvals from now on, as if another tenant had not
        approved.

        The answers to the VM do not change (3.4).
        """
        withheld = live(self._core).sim_server.withheld
        self._core.call(lambda: withheld.withhold(self.name))

    @checked
    def release(self) -> None:
        """Release the VM's approvals, including those that were withheld."""
        core, name = live(self._core), self.name
        if refusals := core.call(lambda: core.sim_server.release(name)):
            raise RefusedError("; ".join(refusals))

    def _changed(self, verb: Verb, wanted: RequestOptions) -> Event:
        core = live(self._core)
        return self._made(orders.change_vms(core, [self.name], verb, wanted))

    def _maintained(self, action: Action, wanted: RequestOptions) -> Event:
        core = live(self._core)
        return self._made(
            core.call(lambda: orders.maintain_vm(core, self.name, action, wanted))
        )

    def _made(self, decide: Decide) -> Event:
        core, name = live(self._core), self.name

        def make() -> str:
            events = [
                made_event
                for made_event in orders.made(core, decide)
                if made_event.names(name)
            ]
            if not events:
                raise RefusedError(
                    f"VM {name} gets no event from this request",
                    hint="The scope of the VM has no events of this kind. See the page 'Verbs and refusals'.",
                )
            return events[0].event_id

        return Event(core, core.call(make))

    # Requests of the VM
    @property
    @checked
    def requests(self) -> list[JournalEntry]:
        """Return the recorded requests of this VM, the oldest first."""
        return self._core.call(lambda: self._core.requests([self.name]))

    @property
    def aio(self) -> AioVm:
        """Return the wait methods for tests on an asyncio loop."""
        return AioVm(self._core, self.name)

    @checked
    def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[JournalEntry]:
        """Wait for `count` more requests; fail if they do not come in time."""
        waiting = requests.visits(self._core, self.name, count, seconds_of(timeout))
        return self._core.wait(waiting)

    @checked
    def assert_asked(self, at_least: int = 1) -> None:
        """Fail unless the VM has received its events at least `at_least` times.

        Scenarios count the same requests. For other requests, use `requests` or
        `wait_for_requests`.
        """
        self._core.call(
            lambda: requests.judge_asked(self._core, self.name, at_least=at_least)
        )

    @checked
    def assert_approved_nothing(self) -> None:
        """Fail if the VM has approved an event."""
        self._core.call(lambda: requests.judge_no_approval(self._core, self.name))
