"""Handlers that send a request to another program: a 2xx response means success.

A request without a response, or with a temporary error, is sent again until the
deadline. The receiver must be idempotent, since a response can be lost. After a crash
of the agent, the request may have been received, and the outcome of the run is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forewarn.agent import forms
from forewarn.agent.handlers.port import Forgetful, Ground, Job, Result, faults_of
from forewarn.agent.handlers.posting import Post, Template, faults, unreached
from forewarn.agent.handlers.run_context import (
    PAUSE_FIRST_SECONDS,
    PAUSE_SECONDS_MAX,
    DeliveryError,
    HandlerError,
    RunContext,
    RunEndedError,
    context_for,
    doubling,
)
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import format_instant

if TYPE_CHECKING:
    from forewarn.agent.integrations.kubernetes.listing import PodList

TRY_SECONDS = 10.0
"""Maximum seconds for one attempt, so that a server that hangs is asked again. A server
that needs longer must respond with 202 and do the work in the background."""

LAST_SECONDS = 0.1
"""If fewer seconds than this are left, nothing is sent."""


CHECK_SECONDS = 5.0
"""Timeout for the check of the pod list, in seconds: a person waits."""


class WebhookWorker(Forgetful):
    """Send the requests of one handler."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Create the templates."""
        # None: the phase has no request.
        self._prepare = _template(settings, settings.prepare)
        self._recover = _template(settings, settings.recover)
        self._clock = ground.clock
        self._pods: PodList | None = None
        """If set, each request lists the pods on the node of this VM."""
        if settings.pods:
            # Loaded only if the settings need it.
            from forewarn.agent.integrations.kubernetes.listing import (  # noqa: PLC0415
                PodList,
            )

            self._pods = PodList(settings, ground)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Send the request of `prepare`; raises HandlerError."""
        return self._send(self._prepare, job, context)

    def recover(self, job: Job, context: RunContext) -> Result:
        """Send the request of `recover`; raises HandlerError."""
        return self._send(self._recover, job, context)

    def check(self, _vm: str = "") -> Sequence[str]:
        """Return the problems of the templates, and which servers cannot be reached.

        Nothing is sent.
        """
        known = KNOWN if self._pods is None else {**KNOWN, "pods": ""}
        problems: list[str] = []
        for template in filter(None, (self._prepare, self._recover)):
            problems += faults(template, known) + unreached(template, clock=self._clock)
        if self._pods is not None:
            context, look = context_for(CHECK_SECONDS, self._clock), self._pods.faults
            problems += [
                f"the pods: {fault}" for fault in faults_of(lambda: look(context))
            ]
        return tuple(dict.fromkeys(problems))

    def _send(self, template: Template | None, job: Job, context: RunContext) -> Result:
        if template is None:
            return Result()
        values, usual, detail = values_of(job), usual_body(job), ""
        if self._pods is not None:
            names, detail = _named(self._pods, context)
            values["pods"] = ", ".join(names or ())
            usual = usual_body(job, pods=names)
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        last = "no time was left for a request"
        while (seconds := context.remaining()) > LAST_SECONDS:
            try:
                # Create a new post each time: an interrupted one cannot be sent again.
                post = Post(template, values, usual=usual, clock=self._clock)
                with context.on_stop(post.interrupt):
                    post.send(seconds=min(seconds, TRY_SECONDS))
                return Result(detail=detail)
            except DeliveryError as error:
                last = error.message
                if not error.may_pass:
                    raise HandlerError(last) from error
            if not context.sleep(next(pauses)):
                break
        raise context.ended(f": {last}")


def _named(pods: PodList, context: RunContext) -> tuple[Sequence[str] | None, str]:
    """Return the pods, or None and a sentence with the reason."""
    try:
        return pods.names(context), ""
    except (HandlerError, RunEndedError) as error:
        return None, f"sent without the pods: {error.message}"


def values_of(job: Job) -> dict[str, str]:
    """Return the values of the placeholders for a run."""
    return {
        **{
            f"event_{name}": text
            for name, text in forms.event_words(job.notice).items()
        },
        **forms.event_words(job.notice),
        "phase": job.phase.value,
        "deadline": format_instant(job.stop_at),
        "vm": job.vm,
        "handler": job.handler,
        "attempt": str(job.attempt),
        "run": job.run_id,
    }


def usual_body(job: Job, **more: object) -> str:
    """Return the default body, with the additional members `more`."""
    return json.dumps(
        {
            "phase": job.phase.value,
            "vm": job.vm,
            "handler": job.handler,
            "attempt": job.attempt,
            "run": job.run_id,
            "deadline": format_instant(job.stop_at),
            "event": forms.event_json(job.notice),
            **more,
        }
    )


KNOWN = dict.fromkeys(
    [
        *(f"event_{name}" for name in forms.event_words(None)),
        *forms.event_words(None),
        *("phase", "deadline", "vm", "handler", "attempt", "run"),
    ],
    "",
)
"""All placeholders except `{pods}`, which only some handlers have."""


def _template(settings: HandlerSettings, url: tuple[str, ...]) -> Template | None:
    """Return the template of a phase; None if it has no URL."""
    if not url:
        return None
    return Template(
        url=url[0],
        method=settings.method,
        headers=settings.headers,
        body=settings.body,
        secret_file=settings.secret_file,
        ca_file=settings.ca_file,
    )
