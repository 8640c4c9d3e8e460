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
    hosts=int,
    vms=int,
    tenants=int,
    events=int,
)

DryRunShape = shape(
    "DryRunShape",
    "The effect that a request with `dry_run` would have; nothing was changed.",
    dry_run=bool,
    targets=(int, "Targets that were not refused."),
    effect=(
        dict[str, EffectShape],
        "By kind, such as announced or cancelled; goes_on is left alone.",
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
