"""Expected findings of `conform` for each planted defect, and the undecidable ones.

The second table is on the page docs/how-to/test/check-an-endpoint.md too.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final

from forewarn.instants import MILLISECOND, SECOND, Micros
from tests.support.planted.story import AT_ONCE, STEADY, Pace


@dataclass(frozen=True, slots=True)
class Plan:
    """The course of an examination."""

    pace: Pace
    approves: bool
    polls: int
    every: Micros = SECOND
    """Time between two reads of the watch."""
    speed: float = 1.0


class Course(enum.Enum):
    """The examinations that a defect may show in."""

    APPROVING = Plan(replace(STEADY, notice=None), approves=True, polls=40)
    """Approved events start at once; notices are whole."""
    WAITING = Plan(
        replace(
            STEADY,
            notice=None,
            started=21 * SECOND,
            gap=21 * SECOND,
            announced=21 * SECOND,
        ),
        approves=False,
        polls=340,
        every=10 * SECOND,
    )
    """Nothing is approved, and a round takes most of an hour."""
    AT_ONCE = Plan(AT_ONCE, approves=True, polls=40, every=5 * SECOND)
    """An event of each type is in the first document, and all of them are approved."""
    CLOSELY = Plan(
        STEADY, approves=False, polls=120, every=250 * MILLISECOND, speed=300.0
    )
    """At most one change happens between two reads. Notices are not judged here."""

    @property
    def plan(self) -> Plan:
        """Return how it goes."""
        return self.value


SURE: Final = (Course.APPROVING, Course.WAITING, Course.AT_ONCE)
"""The examinations in which a complaint is a finding."""


@dataclass(frozen=True, slots=True)
class Found:
    """The examination and the clauses that find a defect."""

    clauses: tuple[str, ...]
    """Each of them is broken; others may be too. It is the clause that the defect is
    listed under, or the one by which a client sees it: an event of which the approval
    is not read shows as a refusal that is missing (3.3), say."""
    course: Course = Course.APPROVING


FOUND: Final = {
    "only-first-entry": Found(("3.3",)),
    "several-entries-refused": Found(("3.1",)),
    "extra-members-refused": Found(("3.1",)),
    "approval-without-effect": Found(("3.2",), Course.AT_ONCE),
    "approval-twice-refused": Found(("3.2",)),
    "approval-of-started-refused": Found(("3.2",)),
    "approval-of-gone-refused": Found(("3.2",)),
    "approval-by-case": Found(("2.3",)),
    "approval-500": Found(("3.2",)),
    "stale-after-approval": Found(("2.10",)),
    "no-json-accepted": Found(("3.3",)),
    "no-body-accepted": Found(("3.3",)),
    "no-object-accepted": Found(("3.3",)),
    "no-start-requests-accepted": Found(("3.3",)),
    "empty-list-accepted": Found(("3.3",)),
    "no-list-accepted": Found(("3.3",)),
    "body-error-500": Found(("3.3",)),
    "entry-without-id-accepted": Found(("3.3",)),
    "malformed-id-accepted": Found(("3.3",)),
    "unknown-id-accepted": Found(("3.3",)),
    "unknown-id-404": Found(("3.3",)),
    "partly-applied": Found(("3.3",)),
    "hidden-id-refused": Found(("3.3",)),
    "only-named-approve": Found(("3.4",)),
    "all-named-approve": Found(("3.1",), Course.AT_ONCE),
    "events-null": Found(("2.1",)),
    "events-missing": Found(("2.1",)),
    "empty-body": Found(("2.1",)),
    "empty-204": Found(("2.1",)),
    "empty-404": Found(("2.1",)),
    "bare-list": Found(("2.1",)),
    "indented": Found(("2.1",)),
    "blanks": Found(("2.1",)),
    "byte-order-mark": Found(("2.1",)),
    "events-first": Found(("2.1",)),
    "extra-document-member": Found(("2.1",)),
    "sorted-members": Found(("2.2",)),
    "camel-case": Found(("2.2",)),
    "members-null": Found(("1.4",)),
    "no-description": Found(("2.2",)),
    "no-resource-type": Found(("2.2",)),
    "no-duration": Found(("2.2",)),
    "no-empty-description": Found(("2.2",)),
    "extra-member": Found(("2.2",)),
    "not-before-time": Found(("2.2",)),
    "id-lower-case": Found(("2.3",)),
    "id-in-braces": Found(("2.3",)),
    "id-no-guid": Found(("2.3",)),
    "id-changes": Found(("2.3",)),
    "id-reused": Found(("2.3",), Course.WAITING),
    "id-doubled": Found(("2.3",)),
    "type-pause": Found(("2.4",)),
    "words-lower-case": Found(("2.4",)),
    "resource-type": Found(("2.5",)),
    "resources-text": Found(("2.5",)),
    "resources-empty": Found(("2.5",)),
    "resources-as-ids": Found(("2.5",)),
    "resources-doubled": Found(("2.5",)),
    "status-in-progress": Found(("2.6",)),
    "status-completed": Found(("2.6",)),
    "status-canceled": Found(("2.6",)),
    "not-before-kept": Found(("2.7",)),
    "not-before-null": Found(("2.7",)),
    "not-before-left-out": Found(("2.7",)),
    "not-before-iso": Found(("2.7",)),
    "not-before-local": Found(("2.7",)),
    "not-before-offset": Found(("2.7",)),
    "not-before-number": Found(("2.7",)),
    "not-before-weekday": Found(("2.7",)),
    "not-before-other-zone": Found(("5.1",)),
    "not-before-moves": Found(("2.10",)),
    "starts-too-early": Found(("4.2",), Course.WAITING),
    "source-azure": Found(("2.8",)),
    "description-null": Found(("2.8",)),
    "duration-text": Found(("2.9",)),
    "duration-fraction": Found(("2.9",)),
    "duration-null": Found(("2.9",)),
    "duration-below-minus-one": Found(("2.9",)),
    "no-tag": Found(("1.10",)),
    "tag-never-changes": Found(("1.10",)),
    "tag-of-time": Found(("1.10",)),
    "if-none-match-ignored": Found(("1.10",)),
    "bare-tag-ignored": Found(("1.10",)),
    "unchanged-with-body": Found(("1.10",)),
    "unchanged-unasked": Found(("1.10",)),
    "tag-on-post": Found(("1.10",)),
    "text-plain": Found(("1.12",)),
    "no-charset": Found(("1.12",)),
    "content-type-asked": Found(("1.12",)),
    "approval-answers-ok": Found(("1.12",)),
    "approval-answers-document": Found(("1.12",)),
    "approval-204": Found(("1.12",)),
    "approval-202": Found(("1.12",)),
    "expect-ignored": Found(("1.12",)),
    "gzip-unasked": Found(("1.12",)),
    "redirected": Found(("1.1",)),
    "cut-short": Found(("1.12",)),
    "length-too-small": Found(("1.12",)),
    "chunks-without-end": Found(("1.12",)),
    "closed-unsaid": Found(("1.12",)),
    "body-left-behind": Found(("1.12",)),
    "head-with-body": Found(("1.2",)),
    "chunked-body-refused": Found(("1.12",)),
    "incarnation-text": Found(("2.10",)),
    "incarnation-fraction": Found(("2.10",)),
    "incarnation-missing": Found(("2.10",)),
    "incarnation-from-zero": Found(("2.10",)),
    "incarnation-of-time": Found(("2.10",)),
    "incarnation-of-requests": Found(("2.10",)),
    "incarnation-constant": Found(("2.10",)),
    "incarnation-of-events": Found(("2.10",)),
    "incarnation-wraps": Found(("2.10",)),
    "incarnation-deaf-to-start": Found(("2.10",)),
    "incarnation-deaf-to-end": Found(("2.10",)),
    "incarnation-by-version": Found(("2.10",)),
    "incarnation-of-fleet": Found(("2.10",), Course.CLOSELY),
    "incarnation-on-approval": Found(("2.10",)),
    "no-instance": Found(("1.11",)),
    "no-versions": Found(("1.11",)),
    "instance-by-event-versions": Found(("1.11",)),
    "instance-name-as-host-name": Found(("1.11",)),
    "leaf-in-quotes": Found(("1.11",)),
    "goes-backwards": Found(("4.1",)),
    "flaps": Found(("4.1",), Course.WAITING),
    "approval-removes": Found(("4.2",)),
    "never-started": Found(("4.2",)),
    "stays-scheduled": Found(("4.2",), Course.WAITING),
    "comes-again": Found(("2.3",)),
    "type-changes": Found(("4.4",)),
    "resources-change": Found(("3.4",)),
    "notice-too-short": Found(("5.1",)),
    "notice-of-deletion-too-long": Found(("5.1",)),
    "notice-in-the-past": Found(("5.1",)),
    "migration-as-reboot": Found(("5.9",)),
    "user-as-platform": Found(("5.9",)),
    "failure-with-notice": Found(("5.5",)),
    "eviction-by-user": Found(("5.9",)),
    "path-by-case": Found(("1.2",)),
    "path-by-prefix": Found(("1.2",)),
    "any-path": Found(("1.2",)),
    "any-method": Found(("1.2",)),
    "head-as-get": Found(("1.2",)),
    "options-preflight": Found(("1.2",)),
    "method-501": Found(("1.2",)),
    "version-unchecked": Found(("1.3",)),
    "version-latest": Found(("1.3",)),
    "version-optional": Found(("1.3",)),
    "version-repeated": Found(("1.3",)),
    "version-too-old": Found(("1.3",)),
    "version-404": Found(("1.3",)),
    "parameters-refused": Found(("1.3",)),
    "preview-without-underscore": Found(("1.4",)),
    "members-in-all-versions": Found(("1.4",)),
    "source-too-late": Found(("1.4",)),
    "preview-needs-header": Found(("1.6",)),
    "types-in-all-versions": Found(("1.5",)),
    "header-not-needed": Found(("1.6",)),
    "header-not-needed-by-post": Found(("1.6",)),
    "header-of-any-value": Found(("1.6",)),
    "header-value-by-case": Found(("1.6",)),
    "header-name-by-case": Found(("1.6",)),
    "header-repeated": Found(("1.6",)),
    "path-before-header": Found(("1.6",)),
    "forwarded-accepted": Found(("1.7",)),
    "error-as-page": Found(("1.8",)),
    "error-without-member": Found(("1.8",)),
    "header-error-text": Found(("1.8",)),
    "no-newest-versions": Found(("1.8",)),
    "newest-versions-backwards": Found(("1.8",)),
    "no-retry-after": Found(("1.9",)),
    "throttled-503": Found(("1.9",)),
    "limited-to-one": Found(("1.9",)),
    "first-answer-503": Found(("7.1",)),
    "first-answer-empty": Found(("7.1",)),
    "disabled-too-soon": Found(("7.3",)),
}
"""The found defects by name, in the order of the clauses."""

UNDECIDABLE: Final = {
    "approval-forgotten": "Only a restart of the service shows it, and a client can neither see nor cause a restart.",
    "foreign-id-accepted": "The check needs the ID of another scope's event, which only a VM of that scope knows.",
    "foreign-id-told": "The check needs the ID of another scope's event, which only a VM of that scope knows.",
    "shared-host-does-not-wait": "A VM does not know the other tenants on its host.",
    "deletions-not-together": "A VM does not know which deletions belong to one request.",
    "deletions-one-by-one": "A VM does not know which deletions belong to one request.",
    "line-end": "A line break after the last bracket is not part of the document: the report mentions it, but the clause does not fail.",
    "hosts-in-one-event": "A VM does not know the hosts of other VMs.",
    "tag-on-first-answer": "Only the first request of a scope could show it, if it had an old ETag.",
    "closed-each-time": "HTTP allows a server to close any connection if it announces this.",
    "old-http": "HTTP allows a server to choose its version, and no clause names one.",
    "incarnation-by-event": "Clients must not expect to see each incarnation, and a document does not show transactions.",
    "cancelled-by-start": "It looks like an operation that started after the approval of another tenant.",
    "impact-without-event": "Without an event, a client has nothing to compare with the failure of the VM.",
    "failure-never-ends": "A failure lasts until the VM runs again, and no clause limits this time.",
    "eviction-in-days": "The clauses define a minimum notice of an eviction, but no maximum.",
    "document-by-parameter": "Only a client that knows the name of the parameter can find it.",
    "cross-origin": "The check sees the header, but no clause forbids it.",
    "other-tenants-shown": "A VM does not know the VMs of its scope, but the owner of both scopes can compare two documents.",
    "only-named-see": "The document looks like that of the only VM in a scope, and only a second VM's document shows the difference.",
    "gpu-sees-all": "A VM does not know that it belongs to such a scale set.",
    "two-fault-domains-down": "A document has no fault domains, so a VM cannot distinguish them.",
    "two-fault-domains-announced": "A document has no fault domains, and a setting allows two announcements.",
    "enabled-by-any-request": "A VM has no older document than that of its first successful GET.",
    "notice-from-enabling": "A VM that was not enabled does not know when its events were announced.",
    "enabled-by-vm": "The incarnations of one VM's document do not show the first request of another VM.",
    "never-disabled": "The check would need a day without requests from any VM of the scope.",
}
"""The defects that no client can decide, each with the reason."""
