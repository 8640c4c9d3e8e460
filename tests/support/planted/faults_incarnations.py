"""Defects in the number of the document (2.10)."""

from forewarn.instants import SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import NEWEST, Endpoint
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import QUICK, Pace, Story, View


@defect(
    "incarnation-text",
    "2.10",
    "DocumentIncarnation is a text.",
    seen="look at a document",
)
class IncarnationText(Endpoint):
    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        return str(super().incarnation(vm, version, now))


@defect(
    "incarnation-fraction",
    "2.10",
    "DocumentIncarnation is 1.0 and not 1.",
    seen="look at a document",
)
class IncarnationFraction(Endpoint):
    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        return float(self.story.views[vm].incarnation)


@defect(
    "incarnation-missing",
    "2.10",
    "The document has no DocumentIncarnation.",
    seen="look at a document",
)
class IncarnationMissing(Endpoint):
    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        return {"Events": super().document(vm, version, now)["Events"]}


@defect(
    "incarnation-from-zero",
    "2.10",
    "The empty document with which a scope begins has the number 0.",
    seen="read the first document of a scope, or any empty one with this number",
)
class IncarnationFromZero(Endpoint):
    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        return self.story.views[vm].incarnation - 1


@defect(
    "incarnation-of-time",
    "2.10",
    "The number is the second of the request, so it rises while nothing changes.",
    seen="read a document twice, some seconds apart, while nothing changes",
)
class IncarnationOfTime(Endpoint):
    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        return now // SECOND


@defect(
    "incarnation-of-requests",
    "2.10",
    "The number rises with each request.",
    seen="read a document twice while nothing changes",
)
class IncarnationOfRequests(Endpoint):
    _asked = 0

    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        self._asked += 1
        return super().get(vm, version, request, now)

    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        return self.story.views[vm].incarnation + self._asked


@defect(
    "incarnation-constant",
    "2.10",
    "The number never changes.",
    seen="watch while the document changes",
)
class IncarnationConstant(Story):
    def counted(self, view: View, content: tuple[object, ...]) -> int:
        return 1


@defect(
    "incarnation-of-events",
    "2.10",
    "The number is that of the events in the document, so it falls when one goes.",
    seen="watch an event until it has gone",
)
class IncarnationOfEvents(Story):
    def counted(self, view: View, content: tuple[object, ...]) -> int:
        return 1 + len(content)


@defect(
    "incarnation-wraps",
    "2.10",
    "The number goes back to 1 when the document is empty again.",
    seen="watch an event until it has gone",
)
class IncarnationWraps(Story):
    def counted(self, view: View, content: tuple[object, ...]) -> int:
        return super().counted(view, content) if content else 1


class _MissesChanges(Story):
    """A story whose incarnation does not rise with some changes."""

    def counts(self, before: dict[str, str], after: dict[str, str]) -> bool:
        """Whether a change of statuses by id raises the number."""
        raise NotImplementedError

    def counted(self, view: View, content: tuple[object, ...]) -> int:
        before = dict(_pairs(view.content))
        after = dict(_pairs(content))
        return view.incarnation + (before != after and self.counts(before, after))


def _pairs(content: tuple[object, ...]) -> list[tuple[str, str]]:
    return [item for item in content if isinstance(item, tuple)]


@defect(
    "incarnation-deaf-to-start",
    "2.10",
    "The number does not rise when an event becomes Started.",
    seen="watch an event that starts",
)
class IncarnationDeafToStart(_MissesChanges):
    def counts(self, before: dict[str, str], after: dict[str, str]) -> bool:
        return before.keys() != after.keys()


@defect(
    "incarnation-deaf-to-end",
    "2.10",
    "The number does not rise when an event goes.",
    seen="watch an event until it has gone",
)
class IncarnationDeafToEnd(_MissesChanges):
    def counts(self, before: dict[str, str], after: dict[str, str]) -> bool:
        return not after.keys() < before.keys()


@defect(
    "incarnation-by-event",
    "2.10",
    "The incarnation rises once for each event that a transaction changes.",
    unseen="what came in one transaction is not in a document: two look the same",
)
class IncarnationByEvent(Story):
    def counted(self, view: View, content: tuple[object, ...]) -> int:
        return view.incarnation + len(set(content) ^ set(view.content))


@defect(
    "incarnation-by-version",
    "2.10",
    "Old versions have another number for the same events.",
    seen="ask with each version while nothing changes: there is one number",
)
class IncarnationByVersion(Endpoint):
    def incarnation(self, vm: str, version: str, now: Micros) -> object:
        incarnation = self.story.views[vm].incarnation
        return incarnation if version == NEWEST else incarnation + 100


@defect(
    "incarnation-of-fleet",
    "2.10",
    "One number counts the changes of all scopes, so it rises without a change here.",
    seen="watch for a rise without a change, while others' events come and go",
)
class IncarnationOfFleet(Story):
    def __init__(self, pace: Pace = QUICK) -> None:
        super().__init__(pace)
        self._all: list[tuple[str, str]] = []

    def commit(self) -> None:
        now = [(event.event_id, event.status) for event in self.events]
        before, self._all = self._all, now
        for vm, view in self.views.items():
            view.incarnation += now != before
            view.content = self.content(vm)


@defect(
    "incarnation-on-approval",
    "2.10",
    "An approval raises the number even where the document stays as it is.",
    seen="approve an event twice and compare",
)
class IncarnationOnApproval(Story):
    def keep(self, vm: str, now: Micros) -> None:
        super().keep(vm, now)
        self.views[vm].incarnation += 1
