"""Handlers that are requests to another program: an answer of 2xx says it is done.

A request that was not answered, or refused for now, is sent again while there is time.
Whoever takes it must bear it twice: an answer may be lost. A crash of the agent leaves
a request that may have been taken, and the run is lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forewarn.agent import forms
from forewarn.agent.handlers.port import Forgetful, Ground, Job, Result, faults_within
from forewarn.agent.handlers.posting import Post, PostError, Template, faults, unreached
from forewarn.agent.handlers.run_context import (
    PAUSE_FIRST_SECONDS,
    PAUSE_MOST_SECONDS,
    HandlerError,
    OverError,
    RunContext,
    doubling,
)
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import format_instant

if TYPE_CHECKING:
    from forewarn.agent.integrations.kubernetes.listing import PodList

TRY_SECONDS = 10.0
"""For one attempt, where more is left: a server that hangs is asked again. A request
whose answer takes longer must be answered with 202 and be done beside it."""

LAST_SECONDS = 0.1
"""With less than this left, nothing is sent any more."""


CHECK_SECONDS = 5.0
"""For a check of who names the pods: somebody waits."""


class WebhookWorker(Forgetful):
    """Sends the requests of one handler."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Send nothing yet."""
        # None: there is nothing to do in that phase.
        self._prepare = _template(settings, settings.prepare)
        self._recover = _template(settings, settings.recover)
        self._clock = ground.clock
        self._pods: PodList | None = None
        """Each request tells of the pods on this VM's node."""
        if settings.pods:
            # Whoever tells of no pods does not load what asks a cluster for them.
            from forewarn.agent.integrations.kubernetes.listing import (  # noqa: PLC0415
                PodList,
            )

            self._pods = PodList(settings, ground)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Send the request for preparation; raises HandlerError."""
        return self._send(self._prepare, job, context)

    def recover(self, job: Job, context: RunContext) -> Result:
        """Send the request for recovery; raises HandlerError."""
        return self._send(self._recover, job, context)

    def check(self, vm: str = "") -> Sequence[str]:
        """Return what is wrong with the templates, and who is not there.

        Nothing is sent.
        """
        del vm
        known = KNOWN if self._pods is None else {**KNOWN, "pods": ""}
        found: dict[str, None] = {}
        for template in (self._prepare, self._recover):
            if template is not None:
                told = faults(template, known)
                told += unreached(template, clock=self._clock)
                found.update(dict.fromkeys(told))
        if self._pods is not None:
            told = faults_within(CHECK_SECONDS, self._clock, self._pods.faults)
            found.update({f"the pods: {each}": None for each in told})
        return tuple(found)

    def _send(self, template: Template | None, job: Job, context: RunContext) -> Result:
        if template is None:
            return Result()
        values, usual, detail = values_of(job), usual_body(job), ""
        if self._pods is not None:
            names, detail = _named(self._pods, context)
            values["pods"] = ", ".join(names or ())
            usual = usual_body(job, pods=names)
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
        last = "there was no time left for a request"
        while (seconds := context.remaining()) > LAST_SECONDS:
            try:
                # Made anew each time: one that was interrupted is of no more use.
                post = Post(template, values, usual=usual, clock=self._clock)
                with context.on_stop(post.interrupt):
                    post.send(seconds=min(seconds, TRY_SECONDS))
                return Result(detail=detail)
            except PostError as error:
                last = error.message
                if not error.may_pass:
                    raise HandlerError(last) from error
            if not context.sleep(next(pauses)):
                break
        raise context.ended(f": {last}")


def _named(pods: PodList, context: RunContext) -> tuple[Sequence[str] | None, str]:
    """Return the pods, None: they could not be had; and then why, as a sentence."""
    try:
        return pods.names(context), ""
    except (HandlerError, OverError) as error:
        return None, f"sent without the pods: {error.message}"


def values_of(job: Job) -> dict[str, str]:
    """Return the placeholders of a run."""
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
    """Return the body where the settings have none, with what else is to be told."""
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
"""Every placeholder, but `{pods}`, which not each handler has."""


def _template(settings: HandlerSettings, url: tuple[str, ...]) -> Template | None:
    """Return the template of a phase; None where it has no URL."""
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
