"""An agent whose approvals wait for alerts to end, and what a test asks of it."""

from __future__ import annotations

from dataclasses import replace

from forewarn.agent.core.model import NoteKind
from forewarn.agent.core.permits import GateAnswer
from forewarn.agent.core.policy import GateTerms, Policy
from tests.unit.agent.core.lock_support import FREE, at_once
from tests.unit.agent.core.support import Life, notice

CLEAR, ALERTS, TROUBLE = GateAnswer.CLEAR, GateAnswer.ALERTS, GateAnswer.TROUBLE
GATE = GateTerms(label="Prometheus at http://p")
NOTHING = replace(GATE, clear_for=0)
FIRES = "1 alert fires: DiskFull"


def gated(terms: GateTerms = GATE, **values: object) -> Policy:
    """Return a policy that approves everything unprepared, through the gate."""
    return replace(at_once(None), gate=terms, **values)


def held(settings: Policy | None = None) -> Life:
    """Return a life in which an alert holds a reboot back."""
    life = Life(settings or gated(), memory=FREE)
    life.poll(notice())
    life.gate_says(ALERTS, FIRES, alerts=1)
    return life


def told(life: Life) -> list[str]:
    return [detail for _, detail in life.told(NoteKind.GATE, NoteKind.FAILED)]
