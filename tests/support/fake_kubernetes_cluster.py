"""The state and the responses of the fake Kubernetes API server (`fake_kubernetes`).

Nodes, pods, evictions, Events and access reviews in memory, with
resource versions, patch forms, disruption budgets and graceful deletion as the
API has them. It records who used which right, and refuses what a role does not allow.
Pods end by the clock that it is given, so that a virtual one lets them end at once.
"""

import copy
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros, format_instant
from tests.support.fake_kubernetes_discovery import daemon_set, discovered
from tests.support.fake_kubernetes_leases import Leases
from tests.support.fake_kubernetes_requests import Request, StatusError

TOKEN = "a-token"

_EFFECTS = {"NoSchedule", "PreferNoSchedule", "NoExecute"}
_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Right(NamedTuple):
    """A right that a role grants, and a request needs."""

    verb: str
    group: str
    resource: str
    """With its subresource: `pods/eviction`."""


REVIEW = Right("create", "authorization.k8s.io", "selfsubjectaccessreviews")
"""The right that every account has."""

NO_RESOURCE = "the server could not find the requested resource"


@dataclass
class Budget:
    """A PodDisruptionBudget: so many pods with a label must be healthy."""

    name: str
    namespace: str
    labels: dict[str, str]
    needs: int


class FakeKubernetes:
    """A cluster in memory."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.budgets: list[Budget] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.leases = Leases()
        self.ending_namespaces: set[str] = set()
        self.tokens = {TOKEN}
        self.allowed: set[Right] | None = None
        """The rights that the role grants; None: all."""
        self.used: set[Right] = set()
        self.came: list[Request] = []
        self.script: list[int | None] = []
        """Statuses of the next answers; None: the usual one; 0: the connection ends
        without one."""
        self.is_away = False
        self.takes: dict[str, float] = {}
        """For each pod, the seconds until it ends; half a second if it is not here."""
        self.before_patch: Any = None
        """Called once before a node's patch: another client is faster."""
        self.url = ""
        self._version = 100
        self._gone_at: dict[str, Micros] = {}

    # Actions of a test

    def add_node(self, name: str, **spec: Any) -> dict[str, Any]:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "annotations": {}},
            "spec": dict(spec),
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.nodes[name] = node
        self._touch(node)
        return node

    def add_pod(
        self,
        name: str,
        node: str = "web-0",
        *,
        namespace: str = "shop",
        owner: str = "ReplicaSet",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        phase: str = "Running",
        takes: float | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}-{self._version}",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        }
        if owner:
            group = {"Node": "v1", "Job": "batch/v1"}.get(owner, "apps/v1")
            named = {"apiVersion": group, "kind": owner, "name": f"{name}-owner"}
            metadata["ownerReferences"] = [{**named, "controller": True}]
        usual = {"nodeName": node, "terminationGracePeriodSeconds": 30, "volumes": []}
        pod = {
            "metadata": metadata,
            "spec": {**usual, **spec},
            "status": {"phase": phase},
        }
        if takes is not None:
            self.takes[metadata["uid"]] = takes
        with self.lock:
            self.pods[namespace, name] = pod
            self._touch(pod)
        return pod

    def node(self, name: str = "web-0") -> dict[str, Any]:
        return self.nodes[name]

    def names(self, node: str = "web-0") -> list[str]:
        """Return the pods that are still on a node."""
        with self.lock:
            self._settle()
            return sorted(
                name
                for (_, name), pod in self.pods.items()
                if pod["spec"]["nodeName"] == node
            )

    def asked(self, method: str, part: str = "") -> list[Request]:
        return [
            request
            for request in self.came
            if request.method == method and part in request.path
        ]

    def conditions(self, kind: str, node: str = "web-0") -> list[dict[str, Any]]:
        conditions = self.nodes[node]["status"]["conditions"]
        return [condition for condition in conditions if condition["type"] == kind]

    # Behavior of the API

    def answer(self, request: Request) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        with self.lock:
            self.came.append(request)
            self._settle()
            try:
                return self._route(request)
            except StatusError as error:
                return error.code, error.body

    def _route(self, request: Request) -> tuple[int, Any]:
        if request.token not in self.tokens:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        segments = [unquote(segment) for segment in request.path.strip("/").split("/")]
        match (request.method, segments):
            case "GET", ["api", "v1", "nodes", name]:
                self._may("get", "nodes", name)
                return 200, self._node(name)
            case "PATCH", ["api", "v1", "nodes", name]:
                self._may("patch", "nodes", name)
                return 200, self._patch_node(self._node(name), request)
            case "PATCH", ["api", "v1", "nodes", name, "status"]:
                self._may("patch", "nodes/status", name)
                return 200, self._patch_status(self._node(name), request)
            case "GET", ["api", "v1", "pods"]:
                self._may("list", "pods")
                return 200, self._list_pods(request.query)
            case _, ["api", "v1", "namespaces", namespace, "pods", name, *more]:
                return self._route_pod(request, namespace, name, more)
            case "POST", ["api", "v1", "namespaces", namespace, "events"]:
                self._may("create", "events")
                return 201, self._event(namespace, request.body)
            case "POST", ["apis", "authorization.k8s.io", "v1", _]:
                self.used.add(REVIEW)
                return 201, self._review(request.body)
            case _, ["apis", group, "v1", "namespaces", namespace, "leases", *more]:
                name = more[0] if more else ""
                self._may(self.leases.verb(request), "leases", name, group=group)
                return self.leases.answer(request, namespace, name)
            # Further requests of kubectl.
            case "GET", ["api" | "apis" | "version", *rest] if len(rest) <= 2:
                return 200, discovered(request.path)
            case "GET", ["apis", "apps", "v1", _, namespace, "daemonsets", name]:
                return 200, daemon_set(namespace, name)
            case _:
                raise StatusError(404, "NotFound", NO_RESOURCE)

    def _route_pod(
        self, request: Request, namespace: str, name: str, more: list[str]
    ) -> tuple[int, Any]:
        match (request.method, more):
            case "GET", []:
                self._may("get", "pods", name)
                return 200, self._pod(namespace, name)
            case "DELETE", []:
                self._may("delete", "pods", name)
                return 200, self._end(self._pod(namespace, name), request.body or {})
            case "POST", ["eviction"]:
                self._may("create", "pods/eviction", name)
                return 201, self._evict(namespace, name, request.body)
            case _:
                raise StatusError(404, "NotFound", NO_RESOURCE)

    def _may(
        self, verb: str, resource: str, name: str = "", *, group: str = ""
    ) -> None:
        right = Right(verb, group, resource)
        if self.allowed is not None and right not in self.allowed:
            plain = resource.partition("/")[0]
            subject = f'{plain} "{name}"' if name else plain
            raise StatusError(
                403,
                "Forbidden",
                f'{subject} is forbidden: User "system:serviceaccount:forewarn:agent" '
                f'cannot {verb} resource "{resource}" in API group "{group}"',
            )
        self.used.add(right)

    def _node(self, name: str) -> dict[str, Any]:
        if name not in self.nodes:
            raise StatusError(404, "NotFound", f'nodes "{name}" not found')
        return self.nodes[name]

    def _pod(self, namespace: str, name: str) -> dict[str, Any]:
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise StatusError(404, "NotFound", f'pods "{name}" not found')
        return pod

    def _patch_node(self, node: dict[str, Any], request: Request) -> dict[str, Any]:
        if self.before_patch is not None:
            act, self.before_patch = self.before_patch, None
            act(node)
            self._touch(node)
        patch = copy.deepcopy(request.body)
        # A node's taints and annotations are replaced the same by both forms.
        if request.content_type not in {
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        }:
            raise StatusError(415, "UnsupportedMediaType", "no form of a patch")
        wanted = patch.get("metadata", {}).pop("resourceVersion", None)
        if wanted not in {None, node["metadata"]["resourceVersion"]}:
            raise StatusError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on nodes "{node["metadata"]["name"]}": '
                "the object has been modified; please apply your changes to the latest "
                "version and try again",
            )
        # The status is another resource.
        patch.pop("status", None)
        fresh = _merged(node, patch)
        _check_taints(fresh["spec"].get("taints") or [])
        node.clear()
        node.update(fresh)
        self._touch(node)
        return copy.deepcopy(node)

    def _patch_status(self, node: dict[str, Any], request: Request) -> dict[str, Any]:
        if request.content_type != "application/strategic-merge-patch+json":
            raise StatusError(415, "UnsupportedMediaType", "conditions would be lost")
        conditions = node["status"]["conditions"]
        for condition in request.body["status"]["conditions"]:
            for present in conditions:
                if present["type"] == condition["type"]:
                    present.update(condition)
                    break
            else:
                conditions.append(condition)
        self._touch(node)
        return copy.deepcopy(node)

    def _list_pods(self, query: Mapping[str, str]) -> dict[str, Any]:
        known = {"fieldSelector", "labelSelector", "limit"}
        assert not set(query) - known - {"resourceVersion", "resourceVersionMatch"}
        version = int(query.get("resourceVersion", "0"))
        if "resourceVersionMatch" in query:
            assert query["resourceVersionMatch"] == "NotOlderThan"
            assert 0 < version <= self._version
        where = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        items = [
            pod
            for pod in self.pods.values()
            if where in {"", pod["spec"]["nodeName"]}
            and _selects(query.get("labelSelector", ""), pod["metadata"]["labels"])
        ]
        return {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(self._version)},
            "items": copy.deepcopy(items),
        }

    def _evict(self, namespace: str, name: str, body: Any) -> dict[str, Any]:
        if (body.get("apiVersion"), body.get("kind")) != ("policy/v1", "Eviction"):
            raise StatusError(400, "BadRequest", "no Eviction of policy/v1")
        if namespace in self.ending_namespaces:
            raise StatusError(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: unable to create new content in namespace '
                f"{namespace} because it is being terminated",
                [{"reason": "NamespaceTerminating", "message": "is being terminated"}],
            )
        pod = self._pod(namespace, name)
        options = body.get("deleteOptions", {})
        _check_uid(pod, options)
        if "deletionTimestamp" not in pod["metadata"]:
            self._ask_budgets(pod)
        self._end(pod, options)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _ask_budgets(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        budgets = [
            budget
            for budget in self.budgets
            if budget.namespace == metadata["namespace"]
            and budget.labels.items() <= metadata["labels"].items()
        ]
        if len(budgets) > 1:
            raise StatusError(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction "
                "subresource does not support.",
            )
        for budget in budgets:
            healthy = sum(
                budget.labels.items() <= each["metadata"]["labels"].items()
                and "deletionTimestamp" not in each["metadata"]
                for (namespace, _), each in self.pods.items()
                if namespace == budget.namespace
            )
            if healthy <= budget.needs:
                raise StatusError(
                    429,
                    "TooManyRequests",
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    [
                        {
                            "reason": "DisruptionBudget",
                            "message": f"The disruption budget {budget.name} needs "
                            f"{budget.needs} healthy pods and has {healthy} currently",
                        }
                    ],
                )

    def _end(self, pod: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        _check_uid(pod, options)
        metadata, now = pod["metadata"], self.clock.now()
        own = pod["spec"]["terminationGracePeriodSeconds"]
        grace = options.get("gracePeriodSeconds", own)
        before = metadata.get("deletionGracePeriodSeconds")
        # A grace that has begun may be shortened, and never made longer.
        if before is None or grace < before:
            metadata["deletionTimestamp"] = format_instant(
                (now + grace * SECOND) // SECOND * SECOND
            )
            metadata["deletionGracePeriodSeconds"] = grace
            takes = min(grace, self.takes.get(metadata["uid"], 0.5))
            ends = now + round(takes * SECOND)
            known = self._gone_at.get(metadata["uid"], ends)
            self._gone_at[metadata["uid"]] = min(known, ends)
            self._touch(pod)
        return copy.deepcopy(pod)

    def _event(self, namespace: str, body: Any) -> dict[str, Any]:
        metadata, involved = body["metadata"], body["involvedObject"]
        name = metadata["name"]
        # Events of what has no namespace are in this one.
        is_sound = (
            metadata["namespace"] == namespace == involved.get("namespace", "default")
            and _NAME.fullmatch(name)
            and body["type"] in {"Normal", "Warning"}
            and len(body["reason"]) <= 128
            and len(body["message"]) <= 1024
        )
        if not is_sound:
            raise StatusError(422, "Invalid", f'Event "{name}" is invalid')
        if name in self.events:
            raise StatusError(409, "AlreadyExists", f'events "{name}" already exists')
        self.events[name] = body
        return body

    def _review(self, body: Any) -> dict[str, Any]:
        resource_attributes = body["spec"]["resourceAttributes"]
        resource = resource_attributes["resource"]
        if resource_attributes.get("subresource"):
            resource = f"{resource}/{resource_attributes['subresource']}"
        right = Right(
            resource_attributes["verb"], resource_attributes.get("group", ""), resource
        )
        is_allowed = self.allowed is None or right in self.allowed
        return {**body, "status": {"allowed": is_allowed}}

    def _settle(self) -> None:
        """Have pods be gone whose end has come."""
        now = self.clock.now()
        for key, pod in list(self.pods.items()):
            if self._gone_at.get(pod["metadata"]["uid"], now + 1) <= now:
                del self.pods[key]
                self._version += 1

    def _touch(self, resource: dict[str, Any]) -> None:
        self._version += 1
        resource["metadata"]["resourceVersion"] = str(self._version)


def _merged(current: Any, patch: Any) -> Any:
    """Return what a JSON merge patch (RFC 7386) makes of a value."""
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _check_taints(taints: list[dict[str, Any]]) -> None:
    keys = [(taint["key"], taint["effect"]) for taint in taints]
    for taint in taints:
        is_sound = taint["effect"] in _EFFECTS and _LABEL.fullmatch(
            taint["value"] or ""
        )
        if not is_sound or keys.count((taint["key"], taint["effect"])) > 1:
            raise StatusError(422, "Invalid", f"spec.taints: invalid value: {taint}")


def _check_uid(pod: dict[str, Any], options: Mapping[str, Any]) -> None:
    wanted = options.get("preconditions", {}).get("uid")
    if wanted not in {None, pod["metadata"]["uid"]}:
        raise StatusError(409, "Conflict", "Precondition failed: UID in precondition")


def _selects(selector: str, labels: Mapping[str, str]) -> bool:
    for part in filter(None, selector.split(",")):
        key, sign, value = re.split(r"(!=|=)", part, maxsplit=1)
        if (labels.get(key) == value) is not (sign == "="):
            return False
    return True
