"""`campaign simulate`: play a campaign on a virtual clock before it is started."""

import re

from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.cli import files, output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.progress import PROGRESS_PATH
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
from forewarn.console.single import single_page
from forewarn.texts import count, printable

SIMULATION_SECONDS = 660.0
"""Timeout of the request in seconds: the service's limit of ten minutes, and a margin."""

SIMULATION_LIMIT_TEXT = "10 minutes"
"""Time limit of the service for a simulation, for messages."""

FAILED_SHOWN = 20
"""Failed hosts in the text; --json has all of them."""

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%", re.ASCII)
_SEED = re.compile(r"[0-9]{1,15}", re.ASCII)


def simulate(call: Call) -> int:
    """Print what happens in a simulation of a campaign file."""
    text, name = files.read_text(call.text("file"))
    page = call.text("html")
    is_whole = call.flag("json") or bool(page)
    body = {
        "name": name,
        "text": text,
        "hosts_max": PLAN_HOSTS_MAX if is_whole else 0,
        "approve_percent": _percent(call, "approve") if call.text("approve") else None,
        "failure_percent": _percent(call, "failures"),
        "seed": _seed(call.text("seed")),
    }
    simulation = Client.of(call).post(
        "campaigns/simulate",
        body,
        seconds=SIMULATION_SECONDS,
        doing=f"simulating {name}, which takes at most {SIMULATION_LIMIT_TEXT}",
        is_question=True,
        progress="" if call.flag("json") else PROGRESS_PATH,
    )
    if page:
        single = single_page(
            f"simulation: {printable(simulation['campaign'])}",
            module="js/simulation.js",
            view="simulation",
            data={"simulation": simulation, "facts": list(facts(simulation))},
        )
        files.write_text(page, single)
    return output.shown(call, simulation, _show)


def _percent(call: Call, key: str) -> float:
    text = call.text(key)
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) > 100:  # noqa: PLR2004 - percent
        raise CommandError(
            Exit.USAGE,
            f"--{key}: {text!r} is not a percentage from 0% to 100%",
            hint=f"Write it as --{key} 70%.",
        )
    return float(match[1])


def _seed(text: str) -> int:
    if _SEED.fullmatch(text) is None:
        raise CommandError(
            Exit.USAGE,
            f"--seed: {text!r} is not a whole number with at most 15 digits",
            hint="Write it as --seed 7.",
        )
    return int(text)


def _show(simulation: Json) -> None:
    """Print a simulation for a person."""
    for fact in facts(simulation):
        output.line(fact)
    output.line()
    output.table("no stages", STAGES, map(stage, simulation["stages"]))
    output.line()
    output.table("no windows", PERIODS, map(period, simulation["periods"]))
    output.line()
    output.table("no budgets", BUDGETS, map(budget, simulation["budgets"]))
    if simulation["interruptions"]:
        output.line()
        rows = map(interruption, simulation["interruptions"])
        output.table("no interruptions", INTERRUPTIONS, rows)
    output.line()
    shown = simulation["failed"][:FAILED_SHOWN]
    for host in shown:
        output.sentence(f"failed: {host}")
    if left := len(simulation["failed"]) - len(shown):
        output.line(f"and {count(left, 'more failed host')}")
    for warning in simulation["warnings"]:
        output.sentence(f"warning: {warning}")
    output.line(f"seed {simulation['seed']}; nothing was announced or changed")
