"""Models of the responses to requests with `dry_run`, as in `shapes`.

The service decides such requests in a process without the web framework, so these are
apart from `dry_runs`.
"""

from forewarn.admin.answers import Documented, content_of
from forewarn.admin.shapes import REFUSED, RefusedShape, list_of, shape

EffectShape = shape(
    "EffectShape",
    "How much a request would concern; a tenant gets only its own `vms` and `events`.",
    operations=int,
    hosts=(int, "Hosts that the work is on; the work on a VM is on none."),
    vms=int,
    tenants=int,
    events=int,
)

DestinationShape = shape(
    "DestinationShape", "Where a VM would go.", vm=str, to_host=str
)

DryRunShape = shape(
    "DryRunShape",
    "The effect that a request with `dry_run` would have; nothing was changed.",
    dry_run=bool,
    targets=(int, "Targets that were not refused."),
    effect=(
        dict[str, EffectShape],
        "By kind, such as announced or cancelled; continues is left alone.",
    ),
    moves=(
        list_of(DestinationShape),
        "Where VMs would go at once, the first 50; empty for tenants.",
    ),
    waiting_hosts=(
        int | None,
        "Hosts of a campaign that are not announced; null: it is about none.",
    ),
    at_least=(bool, "Whether more is concerned: very many operations are not counted."),
    refused=(list_of(RefusedShape), REFUSED),
)

DRY_RUN: Documented = {
    200: {
        **content_of(DryRunShape),
        "description": "With `dry_run`: the effect that the request would have.",
    }
}
"""The response to a dry run, for /openapi.json."""
