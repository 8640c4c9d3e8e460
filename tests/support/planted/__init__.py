"""A small, healthy Scheduled Events server, and named defects to plant in it.

    with planted.server() as url: ...                      # all is right
    with planted.server(planted.DEFECTS["events-null"]) as url: ...

It is for tests of what judges an endpoint: it shares no code with the service, and
was written from the clauses of the protocol alone.
"""

from typing import Final

from tests.support.planted import (
    faults_approvals,
    faults_document,
    faults_events,
    faults_http,
    faults_incarnations,
    faults_instance,
    faults_life,
    faults_requests,
    faults_scopes,
)
from tests.support.planted.catalog import FOUND, Defect
from tests.support.planted.serving import ASKER, Backend, Served, server, serving
from tests.support.planted.story import APPROVED, AT_ONCE, QUICK, STEADY, Pace, Story

_SECTIONS: Final = (
    faults_requests,
    faults_http,
    faults_instance,
    faults_document,
    faults_events,
    faults_incarnations,
    faults_approvals,
    faults_life,
    faults_scopes,
)
"""The modules that define defects, in the order of the clauses."""

DEFECTS: Final = dict(FOUND)
"""All defects by name."""

__all__ = (
    "APPROVED",
    "ASKER",
    "AT_ONCE",
    "DEFECTS",
    "QUICK",
    "STEADY",
    "Backend",
    "Defect",
    "Pace",
    "Served",
    "Story",
    "server",
    "serving",
)
