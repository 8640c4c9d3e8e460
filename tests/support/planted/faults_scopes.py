"""Defects in who sees what, and in enabling (sections 6, 7)."""

from dataclasses import replace
from http import HTTPStatus

from forewarn.instants import MINUTE, SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import Endpoint
from tests.support.planted.fleet import FLEET, Plan
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import AT_ONCE, QUICK, Event, Pace, Story, View


@defect(
    "other-tenants-shown",
    "6.1",
    "The document has the events of all scopes, including those of other tenants.",
    unseen="a client does not know the VMs of its scope",
)
class OtherTenantsShown(Story):
    def sees(self, vm: str, event: Event) -> bool:
        return True


@defect(
    "only-named-see",
    "6.1",
    "A VM sees only the events that name it, not those of its scope.",
    unseen="to one VM that looks like a scope of its own; two VMs show it",
)
class OnlyNamedSee(Story):
    def sees(self, vm: str, event: Event) -> bool:
        return vm in event.plan.resources


@defect(
    "gpu-sees-all",
    "6.2",
    "A GPU VM of a scale set with one fault domain sees the events of the others.",
    unseen="a client does not know that it belongs to such a scale set",
)
class GpuSeesAll(Story):
    def sees(self, vm: str, event: Event) -> bool:
        return FLEET[vm].scope == event.plan.scope


@defect(
    "two-fault-domains-down",
    "6.3",
    "A routine start does not wait until the other fault domain is up again.",
    unseen="a document has no fault domains",
)
class TwoFaultDomainsDown(Story):
    def is_held(self, event: Event) -> bool:
        return False


@defect(
    "two-fault-domains-announced",
    "6.4",
    "Maintenance is announced in two fault domains of a scope at once.",
    unseen="a document has no fault domains, and a setting allows one more",
)
class TwoFaultDomainsAnnounced(Story):
    def plans(self, number: int) -> tuple[Plan, ...]:
        plans = super().plans(number)
        first = plans[0]
        if not first.is_routine or first.is_withdrawn:
            return plans
        return (*plans, replace(first, key="second", group="2", resources=("web_2",)))


@defect(
    "first-answer-503",
    "7.1",
    "The requests of a scope's first five seconds get 503 instead of a late answer.",
    seen="be the first to ask",
)
class FirstAnswer503(Endpoint):
    _since: Micros | None = None

    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        self._since = now if self._since is None else self._since
        if now - self._since < 5 * SECOND:
            return self.error(HTTPStatus.SERVICE_UNAVAILABLE, "Starting.")
        return super().get(vm, version, request, now)


@defect(
    "first-answer-empty",
    "7.1",
    "The first answer to a scope has an empty body.",
    seen="be the first to ask",
)
class FirstAnswerEmpty(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        is_first = vm not in self.story.views
        answer = super().get(vm, version, request, now)
        return replace(answer, body=b"") if is_first else answer


@defect(
    "enabled-by-any-request",
    "7.1",
    "A refused request enables the scope too.",
    unseen="a client sees no difference: it has no document before its first good GET",
)
class EnabledByAnyRequest(Endpoint):
    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        answer = super().answer(vm, request, now)
        self.story.enable(vm, now)
        return answer


@defect(
    "notice-from-enabling",
    "7.1",
    "When a scope is enabled, existing events restart their notice.",
    unseen="a client was not there before, so it cannot compare",
    pace=AT_ONCE,
)
class NoticeFromEnabling(Story):
    def enable(self, vm: str, now: Micros) -> None:
        is_new = vm not in self.views
        super().enable(vm, now)
        for event in self.visible(vm) if is_new else ():
            event.not_before += MINUTE


@defect(
    "enabled-by-vm",
    "7.2",
    "Each VM is enabled separately: its document begins with its first poll, not with that of its scope.",
    unseen="a number counts the changes of one VM's document; no clause compares two VMs",
)
class EnabledByVm(Story):
    def __init__(self, pace: Pace = QUICK) -> None:
        super().__init__(pace)
        self._asked: set[str] = set()

    def enable(self, vm: str, now: Micros) -> None:
        is_new = vm not in self.views
        super().enable(vm, now)
        for other in [view for view in self.views if view not in self._asked]:
            if other != vm:
                del self.views[other]
        self._asked.add(vm)
        if is_new:
            self.views[vm] = View(asked=now)
            self.commit()


@defect(
    "never-disabled",
    "7.3",
    "After a day without requests, a scope continues with its old incarnation.",
    unseen="it takes a day without requests from the scope",
)
class NeverDisabled(Story):
    def is_over(self, view: View, now: Micros) -> bool:
        return False


@defect(
    "disabled-too-soon",
    "7.3",
    "A scope is disabled after two seconds of silence: the incarnation begins at 1.",
    seen="pause for some seconds, and see the incarnation fall",
)
class DisabledTooSoon(Story):
    def is_over(self, view: View, now: Micros) -> bool:
        return now - view.asked >= 2 * SECOND
