"""`conform` at a planted server, in one of some courses, in no time."""

from forewarn.clock import VirtualClock
from forewarn.instants import SECOND, Micros
from forewarn.testing.conformance.check import Failed
from forewarn.testing.conformance.examination import Examination, Finding
from forewarn.testing.conformance.report import detail
from tests.support.planted import Backend, Defect
from tests.support.planted.playing import BEGIN
from tests.support.planted_client import PlantedClient
from tests.support.planted_expected import Plan


def examined(defect: Defect | None, plan: Plan) -> list[Finding]:
    """Return what is found of a fresh server whose first request this is."""
    clock = VirtualClock(BEGIN)
    backend = Backend(defect, pace=plan.pace, clock=clock)

    def wait(by: Micros = SECOND) -> None:
        clock.advance_to(clock.now() + by)

    examination = Examination(
        PlantedClient(backend, clock),
        approve=plan.approves,
        now=clock.now,
        pause=lambda: wait(plan.every),
        wait=wait,
        speed=plan.speed,
    )
    return list(examination.run(plan.polls))


def broken(findings: list[Finding]) -> dict[str, str]:
    """Return the clauses that are broken, each with a complaint."""
    return {
        finding.clause: detail(finding.verdict)
        for finding in findings
        if isinstance(finding.verdict, Failed)
    }
