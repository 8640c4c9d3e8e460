"""Taint, cordon and drain this VM's node of a Kubernetes cluster, and undo that.

An annotation of the node records the changes, so that only those are undone. The handler
only talks to the API server, and tolerates that it is unavailable for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.foreign import members
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, OverError, RunContext
from forewarn.agent.integrations.api import (
    CONFLICT,
    FORBIDDEN,
    Api,
    ApiError,
    Ask,
)
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kubernetes.access import (
    Access,
    find,
    usual_node,
    warnings,
)
from forewarn.agent.integrations.kubernetes.answers import (
    asked_node,
    node_path,
)
from forewarn.agent.integrations.kubernetes.conditions import (
    event_body,
    event_reason,
    event_sentence,
    is_on_at,
    status_patch,
    unset_types,
    wanted_types,
)
from forewarn.agent.integrations.kubernetes.drain import Drain, Plan
from forewarn.agent.integrations.kubernetes.node import (
    DesiredNode,
    Taint,
    missing_of,
    prepare_patch,
    read_record,
    recover_patch,
    reverse_patch,
    taints_left,
)
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

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


@frozen_dataclass
class Terms:
    """The settings of the handler."""

    node: str
    """Empty: NODE_NAME, otherwise the host name."""
    kubeconfig: str
    cordon: bool
    taint: Taint | None
    drain: Plan | None
    excludes: bool
    """Whether load balancers exclude the node."""
    exclusion_wait: Micros
    """How long to wait after the label is set."""
    condition: str
    """The type of the handler's condition; empty: none."""
    aks_conditions: bool
    events: bool

    @property
    def has_conditions(self) -> bool:
        """Return whether the handler sets any condition."""
        return bool(self.condition) or self.aks_conditions

    def rights(self, node: str) -> list[dict[str, str]]:
        """Return the required permissions in the form of an access review."""
        wanted = [{"verb": "get", "resource": "nodes", "name": node}]
        if self.cordon or self.taint or self.excludes or self.has_conditions:
            wanted.append({"verb": "patch", "resource": "nodes", "name": node})
        if self.has_conditions:
            status = {"resource": "nodes", "subresource": "status", "name": node}
            wanted.append({"verb": "patch", **status})
        if self.drain is not None:
            wanted.append({"verb": "list", "resource": "pods"})
            eviction = {"resource": "pods", "subresource": "eviction"}
            wanted.append({"verb": "create", **eviction})
            if self.drain.force:
                wanted.append({"verb": "delete", "resource": "pods"})
        if self.events:
            event = {"resource": "events", "namespace": "default"}
            wanted.append({"verb": "create", **event})
        return wanted


class KubernetesWorker(Integration):
    """Prepares and restores one node; reads the credentials for each run."""

    check_seconds = 8.0

    def __init__(self, terms: Terms, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        self._terms = terms
        self._node = terms.node or usual_node(ground.environment)

    def _access(self) -> Access:
        return find(self._terms.kubeconfig, self._environment)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Taint, cordon and drain the node; raises HandlerError."""
        api, terms = self._access().api(self._clock), self._terms
        node = self._closed(api, job, context)
        if node is None:
            raise HandlerError(f"the cluster has no node {self._node}")
        fault = self._tell_condition(api, node, job, context, is_on=True)
        said = self._emit(api, node, job, context)
        self._wait_for_balancers(context)
        done = [word for word, is_so in self._closing() if is_so]
        if terms.drain is not None:
            done.append(Drain(api, self._node, terms.drain, self._clock).run(context))
        if fault:
            fault = self._tell_condition(api, node, job, context, is_on=True)
        if fault:
            raise HandlerError(fault)
        return Result(detail="; ".join([", ".join(done) or "nothing to do", *said]))

    def recover(self, job: Job, context: RunContext) -> Result:
        """Undo the changes of this handler; raises HandlerError."""
        api = self._access().api(self._clock)
        node = self._read(api, context)
        if node is None:
            return Result(detail=f"node {self._node} no longer exists")
        if job.handler not in read_record(node).handlers:
            return Result(detail="nothing had to be undone")
        # Do this before the annotation is removed, so that a crash in between does not
        # skip it.
        fault = self._tell_condition(api, node, job, context, is_on=False)
        if fault:
            raise HandlerError(fault)
        opened = self._changed(
            api, context, lambda found: recover_patch(found, job.handler)
        )
        if opened is None:
            return Result(detail=f"node {self._node} no longer exists")
        said = self._emit(api, opened, job, context)
        text = "is open"
        if others := read_record(opened).handlers:
            text = f"stays closed for handler {' and '.join(others)}"
        elif opened.get("spec", {}).get("unschedulable") is True:
            text = "stays cordoned, which this handler did not do"
        return Result(detail="; ".join([f"node {self._node} {text}", *said]))

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
        for right in self._terms.rights(self._node):
            fault = _refused(api, right, context, who=access.origin)
            if fault:
                yield fault

    # The node

    @property
    def _path(self) -> str:
        return node_path(self._node)

    def _read(self, api: Api, context: RunContext) -> Mapping[str, Any] | None:
        ask = Ask(method="GET", path=self._path)
        return asked_node(api, ask, self._node, context)

    def _closed(
        self, api: Api, job: Job, context: RunContext
    ) -> Mapping[str, Any] | None:
        terms = self._terms
        desired = DesiredNode(
            taint=terms.taint,
            cordon=terms.cordon,
            excludes=terms.excludes,
            conditions=self._types(job),
            event_type=job.notice.event_type if job.notice else "",
        )
        return self._changed(
            api, context, lambda node: prepare_patch(node, job.handler, desired)
        )

    def _types(self, job: Job) -> tuple[str, ...]:
        """Return the types of the conditions for the event of a run."""
        terms = self._terms
        return wanted_types(terms.condition, job.notice, has_aks=terms.aks_conditions)

    def _wait_for_balancers(self, context: RunContext) -> None:
        """Wait until load balancers have excluded the node; raises HandlerError."""
        wait = self._terms.exclusion_wait / SECOND
        if not wait:
            return
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
            patch = change(node)
            if patch is None:
                return node
            ask = Ask(method="PATCH", path=self._path, json=patch, content_type=_MERGE)
            try:
                fresh = asked_node(api, ask, self._node, context)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
            else:
                self._raise_if_unchanged(api, context, (node, fresh, patch))
                return fresh
            context.pause(CONFLICT_SECONDS, f"changing node {self._node}")
        return None

    def _raise_if_unchanged(
        self,
        api: Api,
        context: RunContext,
        change: tuple[Mapping[str, Any], Mapping[str, Any] | None, Mapping[str, Any]],
    ) -> None:
        """Raise HandlerError if the node of the response lacks parts of the patch.

        `change` has the node before, the node of the response, and the patch. Changes
        that the annotation does not record are undone, since no recovery would do it.
        """
        before, fresh, patch = change
        if fresh is None:
            return
        missing = missing_of(fresh, patch) + taints_left(before, fresh, patch)
        if not missing:
            return
        told = (
            f"the API server accepted the change of node {self._node} without "
            f"{', '.join(missing)}: does an admission webhook remove it?"
        )
        back = reverse_patch(before, fresh, patch)
        if back is not None:
            ask = Ask(method="PATCH", path=self._path, json=back, content_type=_MERGE)
            try:
                asked_node(api, ask, self._node, context)
            except (HandlerError, OverError) as error:
                raise HandlerError(
                    f"{told} The other changes could not be undone, and no recovery "
                    f"will undo them: {error.message}"
                ) from error
            told = f"{told} The other changes were undone"
        raise HandlerError(told)

    def _closing(self) -> list[tuple[str, bool]]:
        return [
            ("tainted", self._terms.taint is not None),
            ("cordoned", self._terms.cordon),
            ("excluded from load balancers", self._terms.excludes),
        ]

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
            used = {
                kind for each in record.others(job.handler) for kind in each.conditions
            }
            mine = record.handlers[job.handler].conditions
            kinds = tuple(
                kind for kind in mine if kind not in used and is_on_at(node, kind)
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
        unset: Sequence[str] = ()
        why = "it is not in the response: does an admission webhook remove it?"
        try:
            fresh = asked_node(api, ask, self._node, context)
            if fresh is not None:
                unset = unset_types(fresh, kinds, is_on=is_on)
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
        event_id = notice.event_id if notice is not None else job.run_id
        body = event_body(
            node,
            reason=event_reason(notice, is_over=is_over),
            message=event_sentence(notice, is_over=is_over),
            mark=f"{event_id}.{job.phase.value}.{job.handler}",
            is_warning=not is_over,
            now=self._clock.now(),
        )
        try:
            api.ask(
                Ask(
                    method="POST",
                    path=_EVENTS,
                    json=body,
                    again=False,
                    seconds=NOTE_SECONDS,
                ),
                context,
            )
        except ApiError as error:
            # An earlier attempt has already emitted the Event.
            return [] if error.status == CONFLICT else [f"no Event: {error.message}"]
        except HandlerError as error:
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
    answer, found = api.answered(ask, context)
    if not isinstance(found.get("status"), dict):
        raise ask.unexpected(answer, "no SelfSubjectAccessReview")
    if members(found["status"]).get("allowed") is True:
        return ""
    what = right["resource"]
    if "subresource" in right:
        what = f"{what}/{right['subresource']}"
    where = f" in namespace {right['namespace']}" if "namespace" in right else ""
    return f"{who} may not {right['verb']} {what}{where}: add it to the role"
