"""One VM of a world: where it asks, what befalls it, and what it has asked."""

import json
from typing import Any

from forewarn.fleet.model import Vm as StoredVm
from forewarn.fleet.model import VmState
from forewarn.metadata.http import Request, Response
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventSource
from forewarn.protocol.operations import Action, Verb
from forewarn.protocol.versions import NEWEST
from forewarn.sim.journal import Seen
from forewarn.testing.client import EVENTS_PATH
from forewarn.testing.kit import orders, requests
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import live
from forewarn.testing.kit.durations import Length, seconds_of
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.faults import line_of
from forewarn.testing.kit.orders import Decide, Wishing
from forewarn.testing.kit.setup import host_of
from forewarn.testing.kit.waits import REQUEST_SECONDS

ENDPOINT = "FOREWARN_ENDPOINT"
"""The variable that tells programs where the metadata endpoint is."""


class AioVm:
    """The waits of a VM for tests on an asyncio loop, which stays free."""

    def __init__(self, core: AnyCore, name: str) -> None:
        """Wait for what the VM with this name does."""
        self._core = core
        self._name = name

    @checked
    async def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait as `Vm.wait_for_requests` does."""
        __tracebackhide__ = True
        core = self._core
        waiting = requests.visits(core, self._name, count, seconds_of(timeout))
        return await core.awaited(waiting)


class Vm:
    """A VM of a world. Each verb returns the event that the VM is shown."""

    def __init__(self, core: AnyCore, name: str, url: str) -> None:
        """Stand for the VM that asks at `url`."""
        self._core = core
        self.name = name
        self.url = url
        """Its metadata endpoint, such as http://127.0.0.1:41234: no path."""

    def __repr__(self) -> str:
        """Return it as a failing assertion shows it."""
        return f"<Vm {self.name} at {self.url}>"

    # What it is

    @property
    def events_url(self) -> str:
        """Return the URL of its Scheduled Events document, newest api-version."""
        return f"{self.url}{EVENTS_PATH}?api-version={NEWEST.name}"

    @property
    @checked
    def host(self) -> str:
        """Return the host that it is on now."""
        core = live(self._core)
        return core.call(lambda: host_of(core.engine, self.name))

    @property
    @checked
    def state(self) -> str:
        """Return how it is: `running`, `down` or `deleted`."""
        found = live(self._core).read(lambda reader: reader.get(StoredVm, self.name))
        return (VmState.DELETED if found is None else found.state).value

    @checked
    def environment(self) -> dict[str, str]:
        """Return the variables for a program that runs as if in this VM."""
        return {ENDPOINT: self.url}

    @property
    @checked
    def events(self) -> list[Event]:
        """Return the events that name it and stand, the oldest first."""
        core, name = self._core, self.name

        def found() -> list[str]:
            return [each.event_id for each in core.live_events() if each.names(name)]

        return [Event(core, event_id) for event_id in core.call(found)]

    @checked
    def document(self) -> dict[str, Any]:
        """Return the document that it would be given now; it is not a request."""
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
                raise RefusedError(f"vm {name} has no document yet")
            return _document_of(answer)

        return core.call(glance)

    # What befalls it

    @checked
    def reboot(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Restart it as its user would (5.3)."""
        return self._changed(
            Verb.REBOOT,
            Wishing(notice=notice, duration=duration, description=description),
        )

    @checked
    def redeploy(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Have it moved as its user would, without its ephemeral disk (5.3)."""
        return self._changed(
            Verb.REDEPLOY,
            Wishing(notice=notice, duration=duration, description=description),
        )

    @checked
    def preempt(
        self, *, notice: Length | None = None, description: str | None = None
    ) -> Event:
        """Evict it as a Spot VM (5.6), which it need not be here."""
        return self._changed(
            Verb.EVICT, Wishing(notice=notice, description=description)
        )

    evict = preempt
    """The operator's word for it."""

    @checked
    def terminate(
        self, *, notice: Length | None = None, description: str | None = None
    ) -> Event:
        """Delete it as its user would (5.7)."""
        return self._changed(
            Verb.TERMINATE, Wishing(notice=notice, description=description)
        )

    @checked
    def freeze(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Have the platform freeze its host for seconds (5.2)."""
        return self._maintained(
            Action.FREEZE,
            Wishing(notice=notice, duration=duration, description=description),
        )

    @checked
    def live_migrate(
        self,
        *,
        notice: Length | None = None,
        duration: Length | None = None,
        description: str | None = None,
    ) -> Event:
        """Have the platform move it to another host, with its memory (5.2)."""
        return self._maintained(
            Action.LIVE_MIGRATE,
            Wishing(notice=notice, duration=duration, description=description),
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
        """Have the platform maintain its host: freeze, live-migrate, reboot, redeploy.

        Without a `notice`, everything on the host is told; with one, the VM alone.
        """
        return self._maintained(
            Action(impact),
            Wishing(notice=notice, duration=duration, description=description),
        )

    @checked
    def predict_failure(
        self, ahead: Length | None = None, *, description: str | None = None
    ) -> Event:
        """Announce that its host will fail (5.4): usually in seven days."""
        wanted = Wishing(description=description)
        host = self.host
        return self._made(orders.predict_failure(host, ahead, wanted))

    @checked
    def fail(self) -> Event:
        """Have it go down without notice (5.5)."""
        return self._made(orders.ordering("fail", [self.name], Wishing()))

    @checked
    def restore(self) -> None:
        """Have it run again: the event of its failure goes."""
        live(self._core).order(orders.ordering("restore", [self.name], Wishing()))

    @checked
    def event(
        self,
        type: str,  # noqa: A002 - the wire's own word
        *,
        notice: Length = 0.0,
        source: str | None = None,
        duration: Length | None = None,
        description: str | None = None,
        migrates: bool = False,
    ) -> Event:
        """Show it an event of any type and notice; no notice is Started at once."""
        wanted = Wishing(notice=notice, duration=duration, description=description)
        event_type = orders.event_type_of(type)
        origin: EventSource = orders.source_of(source, event_type)
        return self._made(
            orders.staging(event_type, origin, [self.name], wanted, migrates=migrates)
        )

    @checked
    def fault(self, line: str | int) -> None:
        """Have its answers go wrong, and in no other way: `500 x2, timeout`."""
        words = line_of(line)
        self._core.call(lambda: self._core.faults.set(self.name, words))

    @checked
    def clear_faults(self) -> None:
        """Have its answers be good again."""
        self._core.call(lambda: self._core.faults.clear(self.name))

    @checked
    def withhold(self) -> None:
        """Keep its approvals back from now on, as if another tenant had yet to agree.

        It is answered as ever (3.4).
        """
        withheld = live(self._core).stage.withheld
        self._core.call(lambda: withheld.withhold(self.name))

    @checked
    def release(self) -> None:
        """Let its approvals count, also those that were kept back."""
        core, name = live(self._core), self.name
        if refusals := core.call(lambda: core.stage.release(name)):
            raise RefusedError("; ".join(refusals))

    def _changed(self, verb: Verb, wanted: Wishing) -> Event:
        core = live(self._core)
        return self._made(orders.change_vms(core, [self.name], verb, wanted))

    def _maintained(self, action: Action, wanted: Wishing) -> Event:
        core, name = live(self._core), self.name
        return self._made(
            core.call(lambda: orders.maintain_vm(core, name, action, wanted))
        )

    def _made(self, decide: Decide) -> Event:
        core, name = live(self._core), self.name

        def make() -> str:
            found = [each for each in orders.made(core, decide) if each.names(name)]
            if not found:
                raise RefusedError(
                    f"vm {name} is told of nothing",
                    hint="its scope has no notice of this kind; see the page 'Verbs and refusals'",
                )
            return found[0].event_id

        return Event(core, core.call(make))

    # What it asks

    @property
    @checked
    def requests(self) -> list[Seen]:
        """Return the requests of this VM that are remembered, the oldest first."""
        core, name = self._core, self.name
        return core.call(lambda: core.requests([name]))

    @property
    def aio(self) -> AioVm:
        """Return the waits for tests that run on an asyncio loop."""
        return AioVm(self._core, self.name)

    @checked
    def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait for so many more requests from now on; fail if they do not come."""
        __tracebackhide__ = True
        core, name = self._core, self.name
        return core.wait(requests.visits(core, name, count, seconds_of(timeout)))

    @checked
    def assert_asked(self, at_least: int = 1) -> None:
        """Fail unless it has asked for its events so often, and got an answer.

        So it is in scenarios, too. For any request, ask `requests` or
        `wait_for_requests`.
        """
        __tracebackhide__ = True
        core, name = self._core, self.name
        core.call(lambda: requests.judge_asked(core, name, at_least=at_least))

    @checked
    def assert_approved_nothing(self) -> None:
        """Fail if it has approved any event."""
        __tracebackhide__ = True
        core, name = self._core, self.name
        core.call(lambda: requests.judge_no_approval(core, name))


def _document_of(answer: Response) -> Any:
    _, _, body = answer.payload.partition(b"\r\n\r\n")
    return json.loads(body)
