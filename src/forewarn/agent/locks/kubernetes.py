"""A lock in a Lease of Kubernetes, with the holders in an annotation.

One Lease has all slots. Each write names its resourceVersion, so two agents cannot count
at the same time. The fields of the Lease show the same for `kubectl get lease`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from forewarn.agent.foreign import members
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.integrations.api import CONFLICT, Api, ApiError, Ask
from forewarn.agent.integrations.kubernetes.access import ACCOUNT_DIRECTORY, find
from forewarn.agent.integrations.kubernetes.answers import as_object, is_not_found
from forewarn.agent.locks.port import LockError
from forewarn.agent.locks.register import Page, RegisterLock, parse, server_time
from forewarn.agent.settings_model import LockSettings
from forewarn.agent.wire.answers import Answer
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.settings import files

ANNOTATION = "forewarn/holders"
"""The annotation of the Lease with the holders, as JSON."""

NAMESPACE = "default"
"""The namespace of the Lease if the agent does not run in a pod."""

NAMESPACE_BYTES_MAX = 253
"""Maximum length of the file with the pod's namespace, in bytes; a name has 63."""


class LeaseRegister:
    """A Lease with an annotation that holds the text that the agents share."""

    def __init__(
        self,
        settings: LockSettings,
        environment: Mapping[str, str],
        *,
        clock: Clock,
        directory: str = ACCOUNT_DIRECTORY,
    ) -> None:
        """Send nothing yet; `directory` has the service account of this pod."""
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._directory = directory
        self._name = f"forewarn-{settings.group}"
        self._api: Api | None = None

    def read(self, context: RunContext) -> Page:
        """Return the holders of the Lease; raises HandlerError."""
        now = self._clock.now()
        path = self._path(self._name)
        try:
            answer, lease = self._asked("GET", path, context)
        except ApiError as error:
            if not is_not_found(error):
                raise
            return Page(text="", version=None, now=server_time(error.answer, now))
        metadata = members(lease.get("metadata"))
        if not metadata.get("resourceVersion"):
            raise LockError(f"the answer to GET {path} is not a Lease")
        text = str(members(metadata.get("annotations")).get(ANNOTATION, ""))
        return Page(text=text, version=lease, now=server_time(answer, now))

    def write(self, text: str, page: Page, context: RunContext) -> bool:
        """Write the holders if the Lease has not changed since; raises HandlerError."""
        lease = self._changed(page, text)
        is_new = page.version is None
        method, name = ("POST", "") if is_new else ("PUT", self._name)
        try:
            _, stored = self._asked(method, self._path(name), context, lease)
        except ApiError as error:
            # A Lease that was deleted in the meantime must be read again, too.
            if error.status == CONFLICT or (is_not_found(error) and not is_new):
                return False
            raise
        annotations = members(members(stored.get("metadata")).get("annotations"))
        if annotations.get(ANNOTATION) != text:
            raise LockError(
                f"the API server accepted the Lease {self._name} without the "
                f"annotation {ANNOTATION}: does an admission webhook remove it?"
            )
        return True

    def _changed(self, page: Page, text: str) -> dict[str, Any]:
        """Return the new Lease; members of other programs are kept."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            **members(page.version),
        }
        metadata = {"name": self._name, **members(lease.get("metadata"))}
        annotations = members(metadata.get("annotations"))
        metadata["annotations"] = {**annotations, ANNOTATION: text}
        holders = parse(text)
        spec = {**members(lease.get("spec")), "renewTime": _micro_time(page.now)}
        spec.pop("holderIdentity", None)
        if holders:
            spec["holderIdentity"] = ", ".join(
                sorted(holder.name for holder in holders)
            )
            spec["acquireTime"] = _micro_time(max(holder.since for holder in holders))
            spec["leaseDurationSeconds"] = max(self._settings.ttl // SECOND, 1)
        return {**lease, "metadata": metadata, "spec": spec}

    # The API

    def _path(self, name: str = "") -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace()}/leases"
        return f"{path}/{name}" if name else path

    def _namespace(self) -> str:
        if self._settings.namespace:
            return self._settings.namespace
        if self._settings.kubeconfig:
            return NAMESPACE
        try:
            place = os.path.join(self._directory, "namespace")
            content = files.begin_of(place, NAMESPACE_BYTES_MAX)
        except OSError:
            return NAMESPACE
        return content.decode("ascii", "replace").strip() or NAMESPACE

    def _asked(
        self, method: str, path: str, context: RunContext, body: Any = None
    ) -> tuple[Answer, dict[str, Any]]:
        if self._api is None:
            self._api = find(
                self._settings.kubeconfig, self._environment, directory=self._directory
            ).api(self._clock)
        seconds = self._settings.timeout / SECOND
        # Once: the main loop repeats its request.
        ask = Ask(method=method, path=path, json=body, again=False, seconds=seconds)
        where = f"in namespace {self._namespace()}"
        right = f"its account needs get, create and update of leases {where}"
        response = self._api.allowed(ask, context, right)
        return response[0], as_object(ask, "Lease", self._name, response)


def _micro_time(instant: Micros) -> str:
    """Return an instant as a MicroTime of the API, which always has six digits."""
    seconds, micros = divmod(instant, SECOND)
    whole = format_instant(seconds * SECOND).rstrip("Z")
    return f"{whole}.{micros:06d}Z"


def make(
    settings: LockSettings, *, environment: Mapping[str, str], clock: Clock
) -> RegisterLock:
    """Create the lock."""
    return RegisterLock(
        LeaseRegister(settings, environment, clock=clock), settings, clock=clock
    )
