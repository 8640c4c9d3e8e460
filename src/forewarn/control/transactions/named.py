"""Records that a caller names, and the errors for names that do not exist."""

from typing import TypeVar

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Vm
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.store.port import Reader, Record
from forewarn.store.records import Token

R = TypeVar("R", bound=Record)


class OfTenant:
    """A reader that shows one tenant its part: hints name only commands for tenants."""


def need(reader: Reader, kind: type[R], key: str, *, said: str = "") -> R:
    """Return the record; raises NotFoundError, with the name as the caller `said` it."""
    record = reader.get(kind, key)
    if record is None:
        noun = _NOUNS.get(kind, kind.__name__.lower())
        hint = _LISTED_BY.get(kind, _NAMES_HINT)
        if kind is Request and key.startswith(ROLLOUT_PREFIX):
            noun, hint = _ROLLOUT
        if kind is Request and isinstance(reader, OfTenant):
            hint = _OWN_REQUESTS
        raise NotFoundError(f"there is no {noun} {said or key!r}", hint=hint)
    return record


ROLLOUT_PREFIX = "ro-"
REQUEST_PREFIXES = (ROLLOUT_PREFIX, "rq-")
OPERATION_PREFIX = "op-"


def is_id(name: str) -> bool:
    """Return whether a name begins like the ID of an operation or a request."""
    return name.startswith((OPERATION_PREFIX, *REQUEST_PREFIXES))


def kind_of_work(name: str) -> type[Operation] | type[Request]:
    """Return what an ID names by its prefix: an operation, or a request with all of its
    operations."""
    return Request if name.startswith(REQUEST_PREFIXES) else Operation


_NOUNS: dict[type[Record], str] = {Vm: "VM", CampaignRecord: "campaign"}

_NAMES_HINT = "Names are case-sensitive. Run `forewarn fleet show --all` to list them."

_ROLLOUT = ("rollout", "Run `forewarn rollout list --all` to list rollouts.")

_OWN_REQUESTS = "Your requests are in `forewarn operations --all --json`."

_LISTED_BY: dict[type[Record], str] = {
    Operation: "Run `forewarn operations --all` to list operations.",
    Request: "Run `forewarn rollout list --all` to list rollouts. The other requests are "
    "in `forewarn operations --all --json`.",
    Event: "Run `forewarn events --all` to list events.",
    Token: "Run `forewarn token list` to list tokens.",
    CampaignRecord: "Run `forewarn campaign list --all` to list campaigns.",
}
