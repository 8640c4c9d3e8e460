"""Defects in approvals and their answers (section 3)."""

import json
from http import HTTPStatus
from typing import cast

from forewarn.instants import SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import GUID, Endpoint, RefusedError
from tests.support.planted.fleet import FLEET, Plan
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import Event, Story


@defect(
    "only-first-entry",
    "3.1",
    "Of several StartRequests only the first one is looked at.",
    seen="approve two events in one request and watch the second",
)
class OnlyFirstEntry(Endpoint):
    def requested(self, body: bytes) -> list[object]:
        return super().requested(body)[:1]


@defect(
    "several-entries-refused",
    "3.1",
    "A request with several StartRequests is refused.",
    seen="approve two events in one request",
)
class SeveralEntriesRefused(Endpoint):
    def requested(self, body: bytes) -> list[object]:
        entries = super().requested(body)
        if len(entries) > 1:
            raise self.refusal("one entry at a time")
        return entries


@defect(
    "extra-members-refused",
    "3.1",
    "A request with DocumentIncarnation beside StartRequests is refused.",
    seen="approve as old clients do",
)
class ExtraMembersRefused(Endpoint):
    def requested(self, body: bytes) -> list[object]:
        entries = super().requested(body)
        if json.loads(body).keys() != {"StartRequests"}:
            raise self.refusal("there is another member")
        return entries


@defect(
    "approval-without-effect",
    "3.2",
    "An approval is answered with 200 and has no effect.",
    seen="approve a User event that names one VM: it needs no other approval",
)
class ApprovalWithoutEffect(Story):
    def is_approved(self, event: Event) -> bool:
        return False


@defect(
    "approval-twice-refused",
    "3.2",
    "An event that was approved before, also by another VM, is refused with 409.",
    seen="approve an event twice",
)
class ApprovalTwiceRefused(Endpoint):
    def approval(self, vm: str, entry: object) -> Event:
        approval = super().approval(vm, entry)
        if approval.approved_by:
            raise RefusedError(HTTPStatus.CONFLICT, "It was approved before.")
        return approval


@defect(
    "approval-of-started-refused",
    "3.2",
    "The approval of a Started event is refused with 400.",
    seen="approve a Started event",
)
class ApprovalOfStartedRefused(Endpoint):
    def approval(self, vm: str, entry: object) -> Event:
        approval = super().approval(vm, entry)
        if approval.has_started and approval in self.story.events:
            raise self.refusal("the event has started")
        return approval


@defect(
    "approval-of-gone-refused",
    "3.2",
    "The approval of an event that has just gone is refused with 400.",
    seen="approve an event that was in the document a moment ago",
)
class ApprovalOfGoneRefused(Endpoint):
    def found(self, vm: str, event_id: str) -> Event | None:
        event = super().found(vm, event_id)
        return event if event in self.story.events else None


@defect(
    "approval-by-case",
    "3.2",
    "An EventId in lower case is not recognized.",
    seen="approve with the id in lower case",
)
class ApprovalByCase(Endpoint):
    def found(self, vm: str, event_id: str) -> Event | None:
        return self.story.known(vm).get(event_id)


@defect(
    "approval-500",
    "3.2",
    "A good approval is carried out and answered with 500.",
    seen="approve an event",
)
class Approval500(Endpoint):
    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        return self.error(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error.")


@defect(
    "approval-forgotten",
    "3.2",
    "An approval that was answered with 200 is lost when the service restarts.",
    unseen="a client can neither see nor make a restart, and nothing else differs",
)
class ApprovalForgotten(Story):
    def advance(self, now: Micros) -> None:
        super().advance(now)
        # The restart: all who wait for another tenant wait for this one again.
        for event in self.events:
            if event.plan.is_withdrawn:
                event.approved_by.clear()


@defect(
    "stale-after-approval",
    "3.2",
    "For a second after an approval the document from before it is served.",
    seen="approve, see the new document, and then the old one again",
)
class StaleAfterApproval(Endpoint):
    _kept: tuple[Micros, dict[str, object]] | None = None
    _asked = 0

    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        if vm in self.story.views:
            self._kept = (now, super().document(vm, version, now))
        return super().post(vm, version, request, now)

    def document(self, vm: str, version: str, now: Micros) -> dict[str, object]:
        self._asked += 1
        # One of two servers has not heard of it.
        is_stale = self._kept and now - self._kept[0] < SECOND and self._asked % 2 == 0
        if is_stale and self._kept:
            return self._kept[1]
        return super().document(vm, version, now)


class _Lenient(Endpoint):
    """Takes an empty list for entries that it cannot read."""

    def is_forgiven(self, body: bytes) -> bool:
        """Whether a body is taken that asks for nothing."""
        raise NotImplementedError

    def requested(self, body: bytes) -> list[object]:
        return [] if self.is_forgiven(body) else super().requested(body)


def _read(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return ...


@defect(
    "no-json-accepted",
    "3.3",
    "A body that is not JSON is answered with 200.",
    seen="approve with such a body",
)
class NoJsonAccepted(_Lenient):
    def is_forgiven(self, body: bytes) -> bool:
        return bool(body) and _read(body) is ...


@defect(
    "no-body-accepted",
    "3.3",
    "A POST without a body is answered with 200.",
    seen="send one",
)
class NoBodyAccepted(_Lenient):
    def is_forgiven(self, body: bytes) -> bool:
        return not body


@defect(
    "no-object-accepted",
    "3.3",
    "A body that is a list is answered with 200.",
    seen="approve with such a body",
)
class NoObjectAccepted(_Lenient):
    def is_forgiven(self, body: bytes) -> bool:
        return isinstance(_read(body), list)


@defect(
    "no-start-requests-accepted",
    "3.3",
    "A body without StartRequests is answered with 200.",
    seen="approve with {}",
)
class NoStartRequestsAccepted(_Lenient):
    def is_forgiven(self, body: bytes) -> bool:
        document = _read(body)
        return isinstance(document, dict) and "StartRequests" not in document


def _entries(body: bytes) -> object:
    document = _read(body)
    if not isinstance(document, dict):
        return ...
    return cast("dict[str, object]", document).get("StartRequests", ...)


@defect(
    "empty-list-accepted",
    "3.3",
    "An empty list of StartRequests is answered with 200.",
    seen="approve with one",
)
class EmptyListAccepted(_Lenient):
    def is_forgiven(self, body: bytes) -> bool:
        return _entries(body) == []


@defect(
    "no-list-accepted",
    "3.3",
    "StartRequests that is an object is taken for a list with one entry.",
    seen="approve with one",
)
class NoListAccepted(Endpoint):
    def requested(self, body: bytes) -> list[object]:
        entries = _entries(body)
        return [entries] if isinstance(entries, dict) else super().requested(body)


@defect(
    "body-error-500",
    "3.3",
    "A body that cannot be read is answered with 500.",
    seen="approve with a body that is not JSON",
)
class BodyError500(Endpoint):
    def requested(self, body: bytes) -> list[object]:
        try:
            return super().requested(body)
        except RefusedError as error:
            raise RefusedError(500, error.text) from None


class _Unstrict(Endpoint):
    """Passes over entries that it should refuse."""

    def is_skipped(self, vm: str, entry: object) -> bool:
        """Whether an entry is passed over."""
        raise NotImplementedError

    def approvals(self, vm: str, entries: list[object]) -> list[Event]:
        left = [entry for entry in entries if not self.is_skipped(vm, entry)]
        return super().approvals(vm, left)


def _id_of(entry: object) -> object:
    if not isinstance(entry, dict):
        return None
    return cast("dict[str, object]", entry).get("EventId")


@defect(
    "entry-without-id-accepted",
    "3.3",
    "An entry without an EventId that is a text is passed over, with 200.",
    seen="approve with such an entry",
)
class EntryWithoutIdAccepted(_Unstrict):
    def is_skipped(self, vm: str, entry: object) -> bool:
        return not isinstance(_id_of(entry), str)


@defect(
    "malformed-id-accepted",
    "3.3",
    "An EventId that is not a GUID is passed over, with 200.",
    seen="approve one",
)
class MalformedIdAccepted(_Unstrict):
    def is_skipped(self, vm: str, entry: object) -> bool:
        event_id = _id_of(entry)
        return isinstance(event_id, str) and not GUID.fullmatch(event_id)


@defect(
    "unknown-id-accepted",
    "3.3",
    "An EventId that never was in the document is answered with 200.",
    seen="approve a GUID that is not the ID of an event",
)
class UnknownIdAccepted(_Unstrict):
    def is_skipped(self, vm: str, entry: object) -> bool:
        event_id = _id_of(entry)
        is_guid = isinstance(event_id, str) and bool(GUID.fullmatch(event_id))
        return is_guid and self.found(vm, cast("str", event_id)) is None


@defect(
    "unknown-id-404",
    "3.3",
    "An EventId that never was in the document is answered with 404, not 400.",
    seen="approve a GUID that is not the ID of an event",
)
class UnknownId404(Endpoint):
    def found(self, vm: str, event_id: str) -> Event | None:
        event = super().found(vm, event_id)
        if event is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such event.")
        return event


@defect(
    "foreign-id-accepted",
    "3.3",
    "The id of another tenant's event is accepted, and approves it.",
    unseen="a client does not know the IDs of another scope",
)
class ForeignIdAccepted(Endpoint):
    def found(self, vm: str, event_id: str) -> Event | None:
        for other in FLEET:
            if event := self.story.known(other).get(event_id.upper()):
                return event
        return None


@defect(
    "foreign-id-told",
    "3.3",
    "The id of another tenant's event gets 403: the answer says that it exists.",
    unseen="a client does not know the IDs of another scope",
)
class ForeignIdTold(Endpoint):
    def found(self, vm: str, event_id: str) -> Event | None:
        event = super().found(vm, event_id)
        if event is None:
            for other in FLEET:
                if event_id.upper() in self.story.known(other):
                    raise RefusedError(HTTPStatus.FORBIDDEN, "It is another tenant's.")
        return event


@defect(
    "partly-applied",
    "3.3",
    "Of a request with a bad entry the good entries before it are applied.",
    seen="approve a User event and an unknown id in one request, and watch the event",
)
class PartlyApplied(Endpoint):
    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        try:
            entries = self.requested(request.body)
            for entry in entries:
                self.story.approve(vm, self.approvals(vm, [entry]), now)
        except RefusedError as error:
            return self.error(error.status, error.text)
        return super().post(vm, version, request, now)


@defect(
    "hidden-id-refused",
    "3.3",
    "An event cannot be approved with a version that hides its type.",
    seen="approve a Preempt or Terminate with 2017-08-01",
)
class HiddenIdRefused(Endpoint):
    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        try:
            approvals = self.approvals(vm, self.requested(request.body))
        except RefusedError as error:
            return self.error(error.status, error.text)
        if not all(self.is_shown(event, version) for event in approvals):
            return self.error(HTTPStatus.BAD_REQUEST, "Bad request.")
        return super().post(vm, version, request, now)


@defect(
    "only-named-approve",
    "3.4",
    "A VM that sees an event and is not named by it is refused with 400.",
    seen="approve an event that does not name this VM",
)
class OnlyNamedApprove(Endpoint):
    def approval(self, vm: str, entry: object) -> Event:
        approval = super().approval(vm, entry)
        if vm not in approval.plan.resources:
            raise self.refusal("the event does not name this VM")
        return approval


@defect(
    "all-named-approve",
    "3.4",
    "An event starts only when each VM that it names has approved it.",
    seen="approve the User event of another VM of the scope: it needs no other approval",
)
class AllNamedApprove(Story):
    def is_approved(self, event: Event) -> bool:
        missing = set(event.plan.resources) & set(FLEET) - event.approved_by
        return super().is_approved(event) and not missing


@defect(
    "shared-host-does-not-wait",
    "3.5",
    "An operation starts when one tenant of its host has approved it.",
    unseen="a client does not know who else is on its host",
)
class SharedHostDoesNotWait(Story):
    def is_approved(self, event: Event) -> bool:
        return bool(event.approved_by)


@defect(
    "deletions-not-together",
    "3.6",
    "Each deletion of one request has a separate NotBefore.",
    unseen="a client does not know which deletions were one request",
)
class DeletionsNotTogether(Story):
    def notice(self, plan: Plan) -> Micros:
        is_second = plan.group == "deletion" and int(plan.resources[0][-1]) % 2
        return super().notice(plan) + (60 * SECOND if is_second else 0)


@defect(
    "deletions-one-by-one",
    "3.6",
    "A deletion starts after its approval, before other deletions of the request are approved.",
    unseen="a client does not know which deletions were one request",
)
class DeletionsOneByOne(Story):
    def is_approved(self, event: Event) -> bool:
        if event.plan.group == "deletion":
            return bool(event.approved_by)
        return super().is_approved(event)
