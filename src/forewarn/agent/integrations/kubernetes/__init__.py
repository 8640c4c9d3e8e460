"""`kubernetes`: taints, cordons and drains this VM's node, and opens it after the event.

An annotation of the node records the changes, so that only those are undone. The handler
only talks to the API server, and tolerates that it is unavailable for a while. `terms`
has the keys of the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.foreign import members
from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext, RunEndedError
from forewarn.agent.integrations.api import (
    CONFLICT,
    FORBIDDEN,
    Api,
    ApiError,
    Ask,
)
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kind import HandlerKind
from forewarn.agent.integrations.kubernetes.access import (
    Access,
    find,
    usual_node,
    warnings,
)
from forewarn.agent.integrations.kubernetes.answers import asked_node
from forewarn.agent.integrations.kubernetes.conditions import (
    event_body,
    event_reason,
    event_sentence,
    is_on_at,
    status_patch,
    unset_types,
    wanted_types,
)
from forewarn.agent.integrations.kubernetes.drain import Drain
from forewarn.agent.integrations.kubernetes.node import (
    Changes,
    missing_of,
    prepare_patch,
    read_record,
    recover_patch,
    reverse_patch,
    taint_for,
    taints_left,
)
from forewarn.agent.integrations.kubernetes.terms import KEYS, Terms, faults
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import SECOND

NOTE_SECONDS = 3.0
"""Maximum seconds for an Event, which is only informative."""

CONFLICT_SECONDS = 0.1
"""Seconds before a node is read again after a conflicting change."""

WAIT_PART = 5
"""The wait for load balancers takes at most a fifth of the remaining time, since the pods
need the rest."""

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_EVENTS = "/api/v1/namespaces/default/events"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class KubernetesWorker(Integration):
    """Prepares and restores one node; reads the credentials for each run."""

    check_seconds = 8.0

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        self._terms = terms = Terms(**settings.more)
        self._node = terms.node or usual_node(ground.environment)
        self._path = f"/api/v1/nodes/{percent_quoted(self._node)}"

    def _access(self) -> Access:
        return find(self._terms.kubeconfig, self._environment)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Taint, cordon and drain the node; raises HandlerError."""
        api, terms = self._access().api(self._clock), self._terms
        desired = Changes(
            cordon=terms.cordon,
            conditions=self._types(job),
            excludes=terms.excludes,
        )
        taint = taint_for(terms.taint, job.notice.event_type if job.notice else "")
        node = self._changed(
            api,
            context,
            lambda node_now: prepare_patch(node_now, job.handler, desired, taint),
        )
        if node is None:
            raise HandlerError(f"the cluster has no node {self._node}")
        fault = self._tell_condition(api, node, job, context, is_on=True)
        sentences = self._emit(api, node, job, context)
        self._wait_for_balancers(context)
        closing = {
            "tainted": terms.taint,
            "cordoned": terms.cordon,
            "excluded from load balancers": terms.excludes,
        }
        done = [word for word, is_so in closing.items() if is_so]
        if terms.drain:
            done.append(Drain(api, self._node, terms, self._clock).run(context))
        if fault:
            fault = self._tell_condition(api, node, job, context, is_on=True)
        if fault:
            raise HandlerError(fault)
        return Result(
            detail="; ".join([", ".join(done) or "nothing to do", *sentences])
        )

    def recover(self, job: Job, context: RunContext) -> Result:
        """Undo the changes of this handler; raises HandlerError."""
        api = self._access().api(self._clock)
        if (node := self._read(api, context)) is None:
            return Result(detail=f"node {self._node} no longer exists")
        if job.handler not in read_record(node).handlers:
            return Result(detail="nothing had to be undone")
        # Do this before the annotation is removed, so that a crash in between does not
        # skip it.
        if fault := self._tell_condition(api, node, job, context, is_on=False):
            raise HandlerError(fault)
        opened = self._changed(
            api, context, lambda node_now: recover_patch(node_now, job.handler)
        )
        if opened is None:
            return Result(detail=f"node {self._node} no longer exists")
        sentences = self._emit(api, opened, job, context)
        text = "is open"
        if others := read_record(opened).handlers:
            text = f"stays closed for handler {' and '.join(others)}"
        elif opened.get("spec", {}).get("unschedulable") is True:
            text = "stays cordoned, which this handler did not do"
        return Result(detail="; ".join([f"node {self._node} {text}", *sentences]))

    def _wrong(self, context: RunContext) -> Iterator[str]:
        yield from warnings(self._terms.kubeconfig)
        access = self._access()
        api = access.api(self._clock)
        try:
            ask = Ask(method="GET", path=self._path, again=False)
            if asked_node(api, ask, self._node, context) is None:
                yield f"the cluster has no node {self._node}: set node"
                return
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            # The missing permissions are checked below.
        for right in self._rights():
            if fault := _refused(api, right, context, who=access.origin):
                yield fault

    def _rights(self) -> Iterator[dict[str, str]]:
        """Return the required permissions in the form of an access review."""
        terms = self._terms
        node = {"resource": "nodes", "name": self._node}
        yield {"verb": "get", **node}
        if terms.marks:
            yield {"verb": "patch", **node}
        if terms.has_conditions:
            yield {"verb": "patch", **node, "subresource": "status"}
        if terms.drain:
            yield {"verb": "list", "resource": "pods"}
            yield {"verb": "create", "resource": "pods", "subresource": "eviction"}
        if terms.drain and terms.force:
            yield {"verb": "delete", "resource": "pods"}
        if terms.events:
            yield {"verb": "create", "resource": "events", "namespace": "default"}

    # The node

    def _read(self, api: Api, context: RunContext) -> Mapping[str, Any] | None:
        return asked_node(api, Ask(method="GET", path=self._path), self._node, context)

    def _types(self, job: Job) -> tuple[str, ...]:
        """Return the types of the conditions for the event of a run."""
        has_aks = self._terms.aks_conditions
        return wanted_types(self._terms.condition, job.notice, has_aks=has_aks)

    def _wait_for_balancers(self, context: RunContext) -> None:
        """Wait until load balancers have excluded the node; raises HandlerError."""
        wait = self._terms.exclude_wait / SECOND
        rest = context.timer(min(wait, context.remaining() / WAIT_PART))
        while (left := rest()) > 0:
            context.pause(left, f"waiting for load balancers to exclude {self._node}")

    def _changed(
        self,
        api: Api,
        context: RunContext,
        change: Callable[[Mapping[str, Any]], dict[str, Any] | None],
    ) -> Mapping[str, Any] | None:
        """Change the node and return it; None: it does not exist.

        After a conflict with another change, the node is read again.
        """
        while (node := self._read(api, context)) is not None:
            if (patch := change(node)) is None:
                return node
            ask = Ask(method="PATCH", path=self._path, json=patch, content_type=_MERGE)
            try:
                fresh = asked_node(api, ask, self._node, context)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
            else:
                if fresh is not None:
                    self._raise_if_unchanged(api, context, (node, fresh, patch))
                return fresh
            context.pause(CONFLICT_SECONDS, f"changing node {self._node}")
        return None

    def _raise_if_unchanged(
        self,
        api: Api,
        context: RunContext,
        change: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
    ) -> None:
        """Raise HandlerError if the node of the response lacks parts of the patch.

        `change` has the node before, the node of the response, and the patch. Changes
        that the annotation does not record are undone: no recovery would undo them.
        """
        before, fresh, patch = change
        missing = missing_of(fresh, patch) + taints_left(before, fresh, patch)
        if not missing:
            return
        sentence = (
            f"the API server accepted the change of node {self._node} without "
            f"{', '.join(missing)}: does an admission webhook remove it?"
        )
        if (back := reverse_patch(before, fresh, patch)) is not None:
            ask = Ask(method="PATCH", path=self._path, json=back, content_type=_MERGE)
            try:
                asked_node(api, ask, self._node, context)
            except (HandlerError, RunEndedError) as error:
                raise HandlerError(
                    f"{sentence} The other changes could not be undone, and no recovery "
                    f"will undo them: {error.message}"
                ) from error
            sentence = f"{sentence} The other changes were undone"
        raise HandlerError(sentence)

    # Conditions and Events

    def _tell_condition(
        self,
        api: Api,
        node: Mapping[str, Any],
        job: Job,
        context: RunContext,
        *,
        is_on: bool,
    ) -> str:
        """Set the conditions; return the problem, empty: they are set.

        The request is sent once, so that a failing status does not delay the drain.
        """
        kinds = self._types(job)
        if not is_on:
            record = read_record(node)
            others = record.others(job.handler)
            used = {kind for record in others for kind in record.conditions}
            conditions = record.handlers[job.handler].conditions
            kinds = tuple(
                kind for kind in conditions if kind not in used and is_on_at(node, kind)
            )
        if not kinds:
            return ""
        patch = status_patch(
            node, kinds, job.notice, is_on=is_on, now=self._clock.now()
        )
        ask = Ask(
            method="PATCH",
            path=f"{self._path}/status",
            json=patch,
            content_type=_STRATEGIC,
            again=False,
        )
        why = "it is not in the response: does an admission webhook remove it?"
        try:
            fresh = asked_node(api, ask, self._node, context)
            unset: Sequence[str] = (
                () if fresh is None else unset_types(fresh, kinds, is_on=is_on)
            )
        except HandlerError as error:
            unset, why = kinds, error.message
        if not unset:
            return ""
        return f"the condition {' and '.join(unset)} could not be set: {why}"

    def _emit(
        self, api: Api, node: Mapping[str, Any], job: Job, context: RunContext
    ) -> list[str]:
        """Emit the Event of this phase; return the problem, if any, for the result.

        A failure does not affect the handler, since the Event is only informative.
        """
        if not self._terms.events:
            return []
        is_over = job.phase is Phase.RECOVER
        notice = job.notice
        event_id = job.run_id if notice is None else notice.event_id
        body = event_body(
            node,
            reason=event_reason(notice, is_over=is_over),
            message=event_sentence(notice, is_over=is_over),
            mark=f"{event_id}.{job.phase.value}.{job.handler}",
            is_warning=not is_over,
            now=self._clock.now(),
        )
        ask = Ask(
            method="POST", path=_EVENTS, json=body, again=False, seconds=NOTE_SECONDS
        )
        try:
            api.ask(ask, context)
        except HandlerError as error:
            # After a conflict, an earlier attempt has already emitted the Event.
            if not isinstance(error, ApiError) or error.status != CONFLICT:
                return [f"no Event: {error.message}"]
        return []


def _refused(
    api: Api, right: Mapping[str, str], context: RunContext, *, who: str
) -> str:
    """Return a sentence about a missing permission; empty: it exists."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": dict(right)},
    }
    ask = Ask(method="POST", path=_REVIEWS, json=review, again=False)
    answer, review_body = api.answered(ask, context)
    if not isinstance(review_body.get("status"), dict):
        raise ask.unexpected(answer, "no SelfSubjectAccessReview")
    if members(review_body["status"]).get("allowed") is True:
        return ""
    resource = right["resource"]
    if "subresource" in right:
        resource = f"{resource}/{right['subresource']}"
    where = f" in namespace {right['namespace']}" if "namespace" in right else ""
    return f"{who} may not {right['verb']} {resource}{where}: add it to the role"


KIND = HandlerKind(make=KubernetesWorker, keys=KEYS, faults=faults, marks_there=True)
