"""A simulated campaign as one HTML page, in the style of the page of a plan."""

from forewarn.cli.campaign_page import head, picture, table, text
from forewarn.cli.client import Json
from forewarn.cli.simulation_rows import (
    BUDGETS,
    INTERRUPTIONS,
    PERIODS,
    STAGES,
    budget,
    facts,
    interruption,
    period,
    stage,
)


def page(told: Json) -> str:
    """Return the page of a simulation with its hosts."""
    title = f"Simulation of campaign {text(told['campaign'])}"
    ended = [{**each, "ends": each["ends"] or told["ends"]} for each in told["hosts"]]
    parts = [
        *head(title),
        *(f"<p>{text(each)}</p>" for each in (*facts(told), *told["warnings"])),
        picture(ended) if ended else "",
        "<h2>Stages</h2>",
        table([STAGES, *map(stage, told["stages"])]),
        "<h2>Nights</h2>",
        table([PERIODS, *map(period, told["periods"])]),
        "<h2>Worst moment of each budget</h2>",
        table([BUDGETS, *map(budget, told["budgets"])]),
    ]
    if told["interruptions"]:
        rows = [INTERRUPTIONS, *map(interruption, told["interruptions"])]
        parts += ["<h2>Interruptions of VMs</h2>", table(rows)]
    if told["failed"]:
        parts += ["<h2>Failed hosts</h2>", table([(each,) for each in told["failed"]])]
    return "\n".join([*parts, "</body></html>", ""])
