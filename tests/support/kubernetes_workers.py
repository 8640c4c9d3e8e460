"""Handlers of the kind `kubernetes` at the fake of an API server, on a turned clock."""

import json
from pathlib import Path
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Ground, Job, Result, Worker
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.integrations.kubernetes import KIND, KubernetesWorker
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import Clock, VirtualClock
from forewarn.instants import HOUR, SECOND
from forewarn.protocol.notices import Notice
from tests.support.agent_journals import START
from tests.support.fake_kubernetes import TOKEN, FakeKubernetes
from tests.support.jobs import VirtualContext, job_of

NODE = "web-0"
EVENT_ID = "4F2C8A10-3B5D-4E6F-8A9B-0C1D2E3F4A5B"


def notice(event_type: str = "Reboot", event_id: str = EVENT_ID, **more: Any) -> Notice:
    usual: dict[str, Any] = {
        "status": "Scheduled",
        "not_before": START + HOUR,
        "description": "Host is going to be updated.",
    }
    return Notice(event_id=event_id, event_type=event_type, **{**usual, **more})


def kubeconfig(url: str, **user: str) -> str:
    """Return a file for a cluster; without a user, with the usual token."""
    return json.dumps(
        {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user or {"token": TOKEN}}],
        }
    )


def make_worker(
    url: str, directory: Path, *, clock: Clock, name: str = "node", **more: Any
) -> KubernetesWorker:
    """Return a handler of these keys at a server."""
    file = directory / "kubeconfig"
    file.write_text(kubeconfig(url), encoding="utf-8")
    file.chmod(0o600)
    keys = {"kubeconfig": str(file), **more}
    settings = HandlerSettings(name=name, kind="kubernetes", more=keys)
    ground = Ground(
        records=RunRecords(directory / "runs"),
        environment={"NODE_NAME": NODE},
        clock=clock,
    )
    worker = KIND.make(settings, ground)
    assert isinstance(worker, KubernetesWorker)
    return worker


class Cluster:
    """A fake with a node, and handlers at it."""

    def __init__(
        self, fake: FakeKubernetes, clock: VirtualClock, directory: Path
    ) -> None:
        self.fake = fake
        self.clock = clock
        self.directory = directory
        self.context: VirtualContext | None = None

    def worker(self, name: str = "node", **more: Any) -> KubernetesWorker:
        return make_worker(
            self.fake.url, self.directory, clock=self.clock, name=name, **more
        )

    def job(
        self, phase: Phase, about: Notice | None, *, name: str = "node", **more: Any
    ) -> Job:
        """Return a run that begins now."""
        more = {"seconds": 120, "vm": "web_0", **more}
        return job_of(phase, handler=name, notice=about, clock=self.clock, **more)

    def context_of(self, job: Job) -> VirtualContext:
        seconds = (job.stop_at - self.clock.now()) / SECOND
        self.context = VirtualContext(seconds, self.clock)
        return self.context

    def prepare(
        self, worker: Worker, about: Notice | None = None, **more: Any
    ) -> Result:
        job = self.job(Phase.PREPARE, about or notice(), **more)
        return worker.prepare(job, self.context_of(job))

    def recover(
        self, worker: Worker, about: Notice | None = None, **more: Any
    ) -> Result:
        job = self.job(Phase.RECOVER, about, **more)
        return worker.recover(job, self.context_of(job))
