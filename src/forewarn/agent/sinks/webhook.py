"""Notifications as HTTP requests; a 2xx answer means that the receiver accepted the
notification."""

from __future__ import annotations

import json
from collections.abc import Sequence

from forewarn.agent.handlers.posting import Post, PostError, Template, faults, unreached
from forewarn.agent.sinks.port import PLACES, SinkError, Told
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros


class WebhookSink:
    """Sends each notification as an HTTP request."""

    def __init__(self, template: Template, *, timeout: Micros, clock: Clock) -> None:
        """Store the parameters."""
        self._template = template
        self._timeout = timeout
        self._clock = clock

    def deliver(self, number: int, told: Told) -> None:
        """Send the notification once; raises SinkError."""
        usual = json.dumps(told.as_json(number))
        try:
            post = Post(
                self._template, told.words(number), usual=usual, clock=self._clock
            )
            post.send(seconds=self._timeout / SECOND)
        except PostError as error:
            raise SinkError(
                error.message, may_pass=error.may_pass, wait=error.wait
            ) from error

    def check(self) -> Sequence[str]:
        """Return the problems of the template, or whether the server cannot be reached.

        Nothing is sent.
        """
        return [
            *faults(self._template, PLACES),
            *unreached(self._template, clock=self._clock),
        ]
