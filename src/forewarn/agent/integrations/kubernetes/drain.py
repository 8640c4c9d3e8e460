"""Drain a node: evict each pod through the Eviction API, and wait until all have ended.

User pods are evicted first, then system pods, at the latest in the last fifth of the
time. If a disruption budget refuses an eviction, it is requested again until the
deadline. If the settings permit it, the remaining pods are deleted shortly before the
deadline. A pod has ended when its UID is no longer in the list; a successor with the same
name is another pod.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from forewarn.agent.foreign import members, objects
from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.run_context import (
    HandlerError,
    RunContext,
    RunEndedError,
)
from forewarn.agent.integrations.api import (
    AGAIN,
    CONFLICT,
    Api,
    ApiError,
    Ask,
)
from forewarn.agent.integrations.kubernetes.answers import is_not_found, pods_on
from forewarn.agent.integrations.kubernetes.pods import Fate, Pod, pod_of
from forewarn.agent.integrations.kubernetes.terms import Terms
from forewarn.clock import Clock
from forewarn.instants import SECOND

LOOK_SECONDS = 1.0
"""Seconds between two reads of the list, which the server has in its cache."""

AGAIN_SECONDS = 5.0
"""Seconds before a refused eviction is requested again: a disruption budget waits for a
new pod to become ready."""

SYSTEM_PART = 5
"""System pods are evicted when a fifth of the time is left, even if user pods are still
there."""

FORCE_PART = 2
"""Pods are deleted at the earliest when half of the time is left, so that evictions are
tried first even in the 30 seconds of a Preempt."""

SLACK_SECONDS = 2.0
"""Seconds for the kubelet to report the end of a pod after its grace period."""

PASSES = 2
"""Passes over the list. The second one finds pods that were bound while the node was
being closed. Later pods tolerate every taint and would never stop coming."""

NAMED_MAX = 5
"""Maximum number of pods that a message names, each with its reason."""

_TERMINATING = "NamespaceTerminating"
_BUDGET = "DisruptionBudget"

logger = logging.getLogger("forewarn.agent.handlers")


class Drain:
    """One drain of one node."""

    def __init__(self, api: Api, node: str, terms: Terms, clock: Clock) -> None:
        """Store the parameters; nothing is contacted."""
        self._api = api
        self._node = node
        self._terms = terms
        self._clock = clock
        self._total = 0.0
        self._as_of = ""
        """The version of the first list: later lists must not be older."""
        self._asked: dict[str, float] = {}
        """When the eviction of a pod can be requested again, by UID."""
        self._taken: set[str] = set()
        """UIDs of pods whose eviction was accepted."""
        self._hurried: set[str] = set()
        """UIDs of pods that were deleted by force."""
        self._said: dict[str, str] = {}
        """Why a pod is still there, by UID."""
        self._barred: set[str] = set()
        """UIDs of pods whose eviction was refused permanently."""

    def run(self, context: RunContext) -> str:
        """Drain the node, and return the result as a sentence; raises HandlerError."""
        self._total = context.remaining()
        gone = 0
        pods: dict[str, Pod] = {}
        for number in range(PASSES + 1):
            pods = self._list_pods(context)
            due = {
                uid: pod
                for uid, pod in pods.items()
                if pod.fate is Fate.EVICT and uid not in self._barred
            }
            if not due or number == PASSES:
                break
            self._empty(due, context)
            gone += len(due) - len(self._barred & due.keys())
        if barred := [pod for pod in pods.values() if pod.uid in self._barred]:
            raise HandlerError(self._told(barred, "cannot be evicted"))
        if held := [pod for pod in pods.values() if pod.is_refused]:
            reasons = {pod.uid: pod.fate.value for pod in held}
            raise HandlerError(
                _listed(held, reasons, "not evicted because of the settings")
            )
        return f"{_count(gone)} evicted{_left(pods.values())}"

    def _empty(self, due: Mapping[str, Pod], context: RunContext) -> None:
        """Wait until all of these pods have ended or were refused permanently."""
        left = dict(due)
        while True:
            try:
                self._round(left, context)
                if left.keys() <= self._barred:
                    return
                context.pause(LOOK_SECONDS, "")
                there = self._list_pods(context, is_first=False)
            except RunEndedError:
                pods_left = self._told(left.values(), "left")
                raise context.ended(f" with {pods_left}") from None
            if not (left := {uid: there[uid] for uid in left if uid in there}):
                return

    def _round(self, left: Mapping[str, Pod], context: RunContext) -> None:
        """Request each eviction that is due once."""
        seconds = context.remaining()
        turn = [pod for pod in left.values() if not pod.is_system]
        waits = any(pod.uid not in self._barred for pod in turn)
        if not waits or seconds <= self._total / SYSTEM_PART:
            turn += [pod for pod in left.values() if pod.is_system]
        lead = min(self._terms.force_lead / SECOND, self._total / FORCE_PART)
        is_forced = self._terms.force and seconds <= lead
        for pod in turn:
            if context.remaining() <= 0:
                return
            if pod.uid not in self._barred:
                self._one(pod, context, is_forced=is_forced)

    def _one(self, pod: Pod, context: RunContext, *, is_forced: bool) -> None:
        if pod.ends_at is not None or pod.uid in self._taken:
            if pod.uid not in self._taken:
                self._said[pod.uid] = "ending"
            if is_forced and self._is_too_slow(pod, context):
                self._delete(pod, context)
            return
        now = self._clock.monotonic()
        if not is_forced and now - self._asked.get(pod.uid, now) < 0:
            return
        self._asked[pod.uid] = now + AGAIN_SECONDS
        if not self._evict(pod, context) and is_forced and pod.uid not in self._barred:
            self._delete(pod, context)

    # Requests to the server

    def _list_pods(
        self, context: RunContext, *, is_first: bool = True
    ) -> dict[str, Pod]:
        """Return the pods of the node by UID; raises HandlerError.

        The first list is current; later ones may come from the server's cache, but must
        not be older.
        """
        query: dict[str, str] = {}
        if self._terms.selector:
            query["labelSelector"] = self._terms.selector
        if not is_first and self._as_of:
            query["resourceVersion"] = self._as_of
            query["resourceVersionMatch"] = "NotOlderThan"
        items, version = pods_on(self._api, self._node, query, context)
        if is_first:
            self._as_of = version
        empty_dir, bare = self._terms.empty_dir, self._terms.bare_pods
        pods = (pod_of(item, empty_dir=empty_dir, bare=bare) for item in items)
        return {pod.uid: pod for pod in pods}

    def _evict(self, pod: Pod, context: RunContext) -> bool:
        """Request an eviction; return whether it was accepted, or the pod has ended."""
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        grace = self._grace(pod, context)
        if grace < pod.grace:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        return self._change(pod, "POST", f"{_path(pod)}/eviction", body, context)

    def _delete(self, pod: Pod, context: RunContext) -> None:
        """Delete a pod with the remaining grace period, in spite of its budget."""
        if pod.uid in self._hurried:
            return
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": self._grace(pod, context),
            "preconditions": {"uid": pod.uid},
        }
        logger.warning("deleting pod %s by force: %s", pod, self._said.get(pod.uid))
        if self._change(pod, "DELETE", _path(pod), body, context):
            self._hurried.add(pod.uid)

    def _change(
        self,
        pod: Pod,
        method: str,
        path: str,
        body: Mapping[str, Any],
        context: RunContext,
    ) -> bool:
        try:
            self._api.ask(
                Ask(method=method, path=path, json=body, again=False), context
            )
        except ApiError as error:
            if error.status != CONFLICT and not is_not_found(error):
                self._take_refusal(pod, error)
                return False
            # The pod has ended, or another one has its name.
        except HandlerError as error:
            self._log_reason(pod, error.message)
            return False
        self._taken.add(pod.uid)
        self._said[pod.uid] = "ending"
        return True

    def _take_refusal(self, pod: Pod, error: ApiError) -> None:
        budgets, is_ending = _causes(error.body)
        if is_ending:
            # The namespace is being deleted, which deletes the pod.
            self._taken.add(pod.uid)
            self._said[pod.uid] = "ending with its namespace"
            return
        self._log_reason(pod, budgets or error.message)
        if error.status not in AGAIN:
            self._barred.add(pod.uid)

    def _log_reason(self, pod: Pod, why: str) -> None:
        if self._said.get(pod.uid) != why:
            logger.info("cannot evict pod %s yet: %s", pod, why)
        self._said[pod.uid] = why

    # Time

    def _grace(self, pod: Pod, context: RunContext) -> int:
        """Return the grace period in seconds; never 0, which would skip the kubelet."""
        most = pod.grace
        if self._terms.grace is not None:
            most = min(most, self._terms.grace // SECOND)
        return max(1, min(most, int(context.remaining() - SLACK_SECONDS)))

    def _is_too_slow(self, pod: Pod, context: RunContext) -> bool:
        if pod.ends_at is None:
            return False
        left = (pod.ends_at - self._clock.now()) / SECOND
        return left > context.remaining() - SLACK_SECONDS

    # Messages

    def _told(self, pods: Iterable[Pod], suffix: str) -> str:
        known = {
            pod.uid: self._said.get(pod.uid, "waiting for the other pods to end first")
            for pod in pods
        }
        return _listed(list(pods), known, suffix)


def _causes(body: object) -> tuple[str, bool]:
    """Return the messages of budgets, and whether the namespace is being deleted."""
    causes = objects(members(members(body).get("details")).get("causes"))
    budgets = [
        str(cause["message"])
        for cause in causes
        if cause.get("reason") == _BUDGET and cause.get("message")
    ]
    is_ending = any(cause.get("reason") == _TERMINATING for cause in causes)
    return "; ".join(budgets), is_ending


def _listed(pods: list[Pod], reasons: Mapping[str, str], suffix: str) -> str:
    shown = [f"{pod} ({reasons[pod.uid]})" for pod in pods[:NAMED_MAX]]
    if len(pods) > NAMED_MAX:
        shown.append(f"{len(pods) - NAMED_MAX} more")
    return f"{_count(len(pods))} {suffix}: {', '.join(shown)}"


def _left(pods: Iterable[Pod]) -> str:
    """Return the remaining pods: `, 4 left (3 of a DaemonSet, 1 static)`."""
    if not (counts := Counter(pod.fate for pod in pods)):
        return ""
    names = {Fate.EVICT: "new in the meantime"}
    shown = [
        f"{number} {names.get(fate, fate.value)}"
        for fate, number in sorted(counts.items(), key=lambda item: item[0].name)
    ]
    return f", {sum(counts.values())} left ({', '.join(shown)})"


def _count(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _path(pod: Pod) -> str:
    namespace, name = percent_quoted(pod.namespace), percent_quoted(pod.name)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
