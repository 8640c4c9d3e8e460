"""The sums of a campaign's report as lines for a person: values in, values out."""

from collections import Counter
from collections.abc import Iterator

from forewarn.cli.client import Json
from forewarn.cli.tables import counts
from forewarn.texts import count
from forewarn.wording import campaign_figures


def lines(sums: Json) -> Iterator[str]:
    """Yield the sums that the service returned."""
    yield f"{count(sums['attempts'], 'attempt')}: {_states(sums['states'])}"
    for stage, states in sums["stages"].items():
        yield f"  stage {stage}: {_states(states)}"
    for name, figure in campaign_figures.figures(sums):
        yield f"{name.lower()}: {figure}"
    yield "time of all hosts: " + ", ".join(
        f"{name} {campaign_figures.duration(seconds)}"
        for name, seconds in sums["seconds"].items()
    )
    for name, figure in campaign_figures.waits(sums):
        yield f"{name.lower()}: {figure}"
    for failure in sums["failures"]:
        yield f"failed: {failure['host']} ({failure['operation']}): {failure['note']}"
    if left := sums["failures_count"] - len(sums["failures"]):
        yield f"and {count(left, 'more failure')}"


def _states(totals: dict[str, int]) -> str:
    return counts(Counter(totals).elements())
