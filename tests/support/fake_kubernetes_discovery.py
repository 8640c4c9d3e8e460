"""The API discovery of the fake Kubernetes API server, for kubectl."""

from typing import Any


def discovered(path: str) -> Any:
    """Return what there is, as far as kubectl must know it to close a node."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        version = {"groupVersion": "policy/v1", "version": "v1"}
        group = {
            "name": "policy",
            "versions": [version],
            "preferredVersion": version,
        }
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if path == "/api/v1":
        eviction = {"kind": "Eviction", "group": "policy", "version": "v1"}
        named = [
            {"name": "nodes", "kind": "Node", "namespaced": False},
            {"name": "pods", "kind": "Pod", "namespaced": True},
            {"name": "pods/eviction", "namespaced": True, **eviction},
        ]
        verbs = ["create", "delete", "get", "list", "patch"]
        return {
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [
                {"singularName": "", "verbs": verbs, **resource} for resource in named
            ],
        }
    budgets = {"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget"}
    return {
        "kind": "APIResourceList",
        "groupVersion": "policy/v1",
        "resources": [{**budgets, "namespaced": True, "verbs": ["get"]}],
    }


def daemon_set(namespace: str, name: str) -> Any:
    """Return what kubectl looks for, before it leaves a pod of it."""
    return {
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": namespace},
    }
