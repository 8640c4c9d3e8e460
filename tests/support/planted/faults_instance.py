"""Defects in what a VM may know about itself (1.11)."""

from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import INSTANCE, VERSIONS_PATH, Endpoint, encoded
from tests.support.planted.messages import Request, Response


@defect(
    "no-instance",
    "1.11",
    "/metadata/instance does not exist, so no client learns its name.",
    seen="ask it",
)
class NoInstance(Endpoint):
    def resource(self, request: Request) -> str | None:
        resource = super().resource(request)
        return None if resource and resource.startswith(INSTANCE) else resource


@defect(
    "no-versions",
    "1.11",
    "/metadata/versions does not exist.",
    seen="ask it",
)
class NoVersions(Endpoint):
    def resource(self, request: Request) -> str | None:
        resource = super().resource(request)
        return None if resource == VERSIONS_PATH else resource


@defect(
    "instance-by-event-versions",
    "1.11",
    "/metadata/instance takes the versions of scheduledevents instead of its own.",
    seen="ask it with a version that /metadata/versions lists",
)
class InstanceByEventVersions(Endpoint):
    def instance(self, vm: str, request: Request) -> Response:
        if self.version(request) is None:
            return self.wrong_version(self.newest_versions())
        return Response(200, encoded(self.identity(vm)))


@defect(
    "instance-name-as-host-name",
    "1.11",
    "The name of compute is the host name of the guest, which Resources never names.",
    seen="compare it with Resources while an event names this VM",
)
class InstanceNameAsHostName(Endpoint):
    def identity(self, vm: str) -> dict[str, object]:
        members = super().identity(vm)
        members["compute"] = {"name": f"{vm.replace('_', '')}.localdomain"}
        return members


@defect(
    "leaf-in-quotes",
    "1.11",
    "A leaf of the instance asked with format=text comes as JSON, in quotes.",
    seen="ask compute/name with format=text",
)
class LeafInQuotes(Endpoint):
    def leaf(self, text: str) -> Response:
        return Response(200, encoded(text))
