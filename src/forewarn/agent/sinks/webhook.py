"""Notifications as HTTP requests; a 2xx answer means that the receiver accepted the
notification."""

from __future__ import annotations

import json
from collections.abc import Sequence

from forewarn.agent.handlers.posting import Post, Template, faults, unreached
from forewarn.agent.sinks.port import PLACES, Notification
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros


class WebhookSink:
    """Sends each notification as an HTTP request."""

    def __init__(self, template: Template, *, timeout: Micros, clock: Clock) -> None:
        """Store the parameters."""
        self._template = template
        self._timeout = timeout
        self._clock = clock

    def deliver(self, number: int, notification: Notification) -> None:
        """Send the notification once; raises DeliveryError."""
        values, usual = (
            notification.words(number),
            json.dumps(notification.as_json(number)),
        )
        post = Post(self._template, values, usual=usual, clock=self._clock)
        post.send(seconds=self._timeout / SECOND)

    def check(self) -> Sequence[str]:
        """Return the problems of the template, or whether the server cannot be reached.

        Nothing is sent.
        """
        return [
            *faults(self._template, PLACES),
            *unreached(self._template, clock=self._clock),
        ]
