"""All checks of an endpoint, and the clauses that one VM cannot check."""

from forewarn.testing.conformance import (
    answer_rules,
    approval_questions,
    approval_rules,
    document_rules,
    life_rules,
    request_questions,
    traffic_questions,
    version_rules,
)
from forewarn.testing.conformance.check import Check, Question, Rule

QUESTIONS: tuple[Question, ...] = (
    *request_questions.QUESTIONS,
    *traffic_questions.QUESTIONS,
    *approval_questions.QUESTIONS,
)
"""All questions, in the order in which they are asked. Those that approve come last,
because they may use up the only event."""

RULES: tuple[Rule, ...] = (
    *answer_rules.RULES,
    *version_rules.RULES,
    *document_rules.RULES,
    *approval_rules.RULES,
    *life_rules.RULES,
)

CHECKS: tuple[Check, ...] = (*QUESTIONS, *RULES)

_ORDERS = "requests to the platform"
_HYPERVISOR = "access to the hypervisor"
_SCOPES = "VMs of several scopes and tenants"
_SILENCE = "VMs that never sent a request, or a day without requests"
_CLIENT = "a client to check, not an endpoint"
_AIDS = "test tools to check, not an endpoint"

UNTRIED = (
    ("3.5", "Several events of one operation", _SCOPES),
    (
        "3.6",
        "Deletions of one request",
        "several VMs that are deleted in one request",
    ),
    ("4.3", "After the removal", _HYPERVISOR),
    ("4.5", "Rollouts that stop", _ORDERS),
    ("4.6", "Usual times", "a limit to measure: the clause describes usual times"),
    ("4.7", "Nothing without an event", _HYPERVISOR),
    ("4.8", "Holds of routine starts", _ORDERS),
    ("5.2", "Maintenance by the platform", _ORDERS),
    ("5.3", "Requests of users", _ORDERS),
    ("5.4", "Predicted failures", _ORDERS),
    ("5.6", "Eviction", _ORDERS),
    ("5.7", "Deletion", _ORDERS),
    ("5.8", "OS upgrade and reimage", _ORDERS),
    ("6.1", "Who sees an event", _SCOPES),
    ("6.2", "GPU scale sets", _SCOPES),
    ("6.3", "The guard", _SCOPES),
    ("7.2", "Enabling by zone", _SILENCE),
    ("7.4", "Disabled scopes", _SILENCE),
    ("8.1", "Polling", _CLIENT),
    ("8.2", "Discovery of the endpoint", _CLIENT),
    ("8.3", "Events of its own VM", _CLIENT),
    ("8.4", "Default actions", _CLIENT),
    ("8.5", "Approval after preparation", _CLIENT),
    ("8.6", "One approver for all VMs", _CLIENT),
    ("8.7", "Continuous polling", _CLIENT),
    ("8.8", "Journal", _CLIENT),
    ("9.1", "Manual events", _AIDS),
    ("9.2", "Built-in scenarios", _AIDS),
    ("9.3", "Central event feed", _AIDS),
    ("9.4", "History", _AIDS),
)
"""Clauses without a check: the clause, its title, and what a check would need."""


def checks_of(clause: str) -> tuple[Check, ...]:
    """Return the checks of a clause."""
    return tuple(check for check in CHECKS if check.clause == clause)
