"""Tests of the service: its behavior before its VM stops.

pytest examples/testing
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.testing import ScheduledEvents

sys.path.insert(0, str(Path(__file__).parent))

from service import Service


@pytest.fixture
def service(scheduled_events: ScheduledEvents) -> Iterator[Service]:
    """Return the service, running in the VM web_0."""
    assert scheduled_events.vm("web_0").url
    with Service("web_0", poll_seconds=0.01) as running:
        yield running


def test_it_leaves_before_a_preemption(
    scheduled_events: ScheduledEvents, service: Service
) -> None:
    service.jobs.put("an order")
    event = scheduled_events.vm("web_0").preempt()
    event.wait_for_approval()
    assert service.done == ["an order"]


def test_it_stays_for_a_freeze(
    scheduled_events: ScheduledEvents, service: Service
) -> None:
    scheduled_events.vm("web_0").freeze().wait_for_approval()
    assert not service.is_leaving


def test_it_leaves_its_neighbours_events_alone(
    scheduled_events: ScheduledEvents, service: Service
) -> None:
    event = scheduled_events.vm("web_1").reboot()
    scheduled_events.vm("web_0").wait_for_requests(3)
    event.assert_not_approved()
    assert not service.is_leaving


@pytest.mark.scheduled_events(faults="500 x2, reset, empty")
def test_it_outlives_bad_answers(
    scheduled_events: ScheduledEvents, service: Service
) -> None:
    scheduled_events.vm("web_0").terminate().wait_for_approval()
    assert service.is_leaving
