"""Behavior that only locks with a list of holders have: Leases and keys of Consul."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.locks import kubernetes, register
from forewarn.agent.locks.port import LockError, make_lock
from forewarn.agent.locks.register import Page, RegisterLock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import HOUR
from forewarn.protocol.errors import ForewarnError
from tests.support.agent_journals import START
from tests.support.fake_consul_keys import FakeConsulKeys
from tests.support.fake_kubernetes import FakeKubernetes, Right, serving
from tests.support.json_api import Response
from tests.support.kubernetes_workers import kubeconfig

pytestmark = pytest.mark.slow

KEY = "forewarn/locks/default"


def context(seconds: float = 30.0) -> RunContext:
    return context_for(seconds, SystemClock())


# The list itself, with a register in memory


class FakeRegister:
    """A register in memory, which others change where a test wants it."""

    def __init__(self) -> None:
        self.text = ""
        self.version = 0
        self.faster = 0
        """How many of the next writes come too late."""

    def read(self, context: RunContext) -> Page:
        del context
        return Page(text=self.text, version=self.version, now=START)

    def write(self, text: str, page: Page, context: RunContext) -> bool:
        del context
        if self.faster:
            self.faster -= 1
            self.version += 1
        if page.version != self.version:
            return False
        self.text, self.version = text, self.version + 1
        return True


def lock_on(fake: FakeRegister) -> RegisterLock:
    settings = LockSettings(holders=1, ttl=HOUR)
    return RegisterLock(fake, settings, clock=VirtualClock(START))


def test_conflicting_write_is_retried() -> None:
    fake = FakeRegister()
    fake.faster = register.TRIES - 1
    assert lock_on(fake).take("web_0", context()).is_held
    fake.faster = register.TRIES - 1
    lock_on(fake).release("web_0", context())
    assert json.loads(fake.text) == {"holders": {}}


def test_repeated_conflict_refuses_the_lock_until_the_next_try() -> None:
    fake = FakeRegister()
    fake.faster = register.TRIES
    refused = lock_on(fake).take("web_0", context())
    assert (refused.is_held, refused.detail) == (
        False,
        "other agents requested it at the same time",
    )
    assert lock_on(fake).take("web_0", context()).is_held
    fake.faster = register.TRIES
    with pytest.raises(
        LockError, match="other agents changed the list of holders 8 times"
    ):
        lock_on(fake).release("web_0", context())


def test_retries_after_conflicts_end_at_the_timeout() -> None:
    fake = FakeRegister()
    fake.faster = register.TRIES
    with pytest.raises(ForewarnError, match="timed out while other agents changed"):
        lock_on(fake).take("web_0", context(0.01))


# Kubernetes


@pytest.fixture
def cluster() -> Iterator[FakeKubernetes]:
    with serving(VirtualClock(START)) as fake:
        yield fake


def lease_lock(cluster: FakeKubernetes, directory: Path, **more: Any) -> RegisterLock:
    file = directory / "kubeconfig"
    file.write_text(kubeconfig(cluster.url), encoding="utf-8")
    settings = LockSettings(kind="kubernetes", kubeconfig=str(file), **more)
    lock = make_lock(settings, {}, SystemClock())
    assert isinstance(lock, RegisterLock)
    return lock


def test_lease_shows_its_holders(cluster: FakeKubernetes, tmp_path: Path) -> None:
    lock = lease_lock(cluster, tmp_path, group="web", holders=2)
    lock.take("web_1", context())
    lock.take("web_0", context())
    lease = cluster.leases.found["default", "forewarn-web"]
    assert lease["spec"] == {
        "renewTime": "2026-11-21T10:00:00.000000Z",
        "acquireTime": "2026-11-21T10:00:00.000000Z",
        "holderIdentity": "web_0, web_1",
        "leaseDurationSeconds": 3600,
    }
    assert json.loads(lease["metadata"]["annotations"]["forewarn/holders"]) == {
        "holders": {
            name: {"since": "2026-11-21T10:00:00Z", "until": "2026-11-21T11:00:00Z"}
            for name in ("web_1", "web_0")
        }
    }
    for name in ("web_0", "web_1"):
        lock.release(name, context())
    lease = cluster.leases.found["default", "forewarn-web"]
    assert "holderIdentity" not in lease["spec"]


def test_metadata_that_others_set_on_the_lease_is_kept(
    cluster: FakeKubernetes, tmp_path: Path
) -> None:
    lock = lease_lock(cluster, tmp_path)
    lock.take("web_0", context())
    lease = cluster.leases.found["default", "forewarn-default"]
    lease["metadata"]["labels"] = {"team": "shop"}
    lease["metadata"]["annotations"]["note"] = "see the runbook"
    lease["spec"]["leaseTransitions"] = 7
    lock.release("web_0", context())
    lease = cluster.leases.found["default", "forewarn-default"]
    assert lease["metadata"]["labels"] == {"team": "shop"}
    assert lease["metadata"]["annotations"]["note"] == "see the runbook"
    assert lease["spec"]["leaseTransitions"] == 7


def test_lease_without_our_annotation_has_no_holders(
    cluster: FakeKubernetes, tmp_path: Path
) -> None:
    cluster.leases.found["default", "forewarn-default"] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "forewarn-default", "resourceVersion": "1"},
    }
    assert lease_lock(cluster, tmp_path).take("web_0", context()).is_held


def test_deleted_lease_is_created_again(
    cluster: FakeKubernetes, tmp_path: Path
) -> None:
    lock = lease_lock(cluster, tmp_path)
    lock.take("web_0", context())
    cluster.leases.found.clear()
    assert lock.take("web_1", context()).is_held
    assert list(cluster.leases.found) == [("default", "forewarn-default")]


@pytest.mark.parametrize("is_new", [True, False])
def test_lease_changed_concurrently_is_read_again(
    cluster: FakeKubernetes, tmp_path: Path, is_new: bool
) -> None:
    other = lease_lock(cluster, tmp_path)
    lock = lease_lock(cluster, tmp_path)
    if not is_new:
        other.take("web_1", context())
        other.release("web_1", context())
    page = lock._register.read(context())
    other.take("web_1", context())
    assert not lock._register.write('{"holders": {}}', page, context())
    refused = lock.take("web_0", context())
    assert not refused.is_held
    assert refused.detail == "held by web_1 since 2026-11-21T10:00:00Z"


def test_error_for_a_forbidden_account_names_the_required_rights(
    cluster: FakeKubernetes, tmp_path: Path
) -> None:
    cluster.allowed = set()
    lock = lease_lock(cluster, tmp_path, namespace="ops")
    with pytest.raises(ForewarnError) as refused:
        lock.take("web_0", context())
    assert refused.value.message.endswith(
        "its account needs get, create and update of leases in namespace ops"
    )
    group = "coordination.k8s.io"
    cluster.allowed = {
        Right(verb, group, "leases") for verb in ("get", "create", "update")
    }
    assert lock.take("web_0", context()).is_held
    lock.release("web_0", context())
    assert cluster.used == cluster.allowed


def test_answer_that_is_not_a_lease_does_not_grant_the_lock(
    cluster: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.leases, "answer", lambda *_: (200, ["x"]))
    with pytest.raises(ForewarnError, match="with no JSON object"):
        lease_lock(cluster, tmp_path).take("web_0", context())


def test_lease_without_the_written_data_does_not_grant_the_lock(
    cluster: FakeKubernetes, tmp_path: Path
) -> None:
    """As where an admission webhook takes annotations away."""
    real = cluster.answer

    def answer(request: Any) -> tuple[int, Any]:
        status, said = real(request)
        if request.method in {"POST", "PUT"}:
            said["metadata"]["annotations"] = {}
        return status, said

    cluster.answer = answer
    with pytest.raises(LockError, match="without the annotation forewarn/holders"):
        lease_lock(cluster, tmp_path).take("web_0", context())


def test_server_errors_are_reported(cluster: FakeKubernetes, tmp_path: Path) -> None:
    cluster.script = [500]
    with pytest.raises(ForewarnError, match="500: said 500"):
        lease_lock(cluster, tmp_path).take("web_0", context())
    cluster.script = [None, 500]
    with pytest.raises(ForewarnError, match="500: said 500"):
        lease_lock(cluster, tmp_path).take("web_0", context())


@pytest.mark.parametrize(
    ("written", "used"), [("shop\n", "shop"), ("", "default"), (None, "default")]
)
def test_pod_uses_its_own_namespace(
    written: str | None, used: str, tmp_path: Path
) -> None:
    if written is not None:
        (tmp_path / "namespace").write_text(written)
    (tmp_path / "ca.crt").write_text("")
    (tmp_path / "token").write_text("a-token")
    register = kubernetes.LeaseRegister(
        LockSettings(kind="kubernetes"),
        {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "9"},
        clock=SystemClock(),
        directory=str(tmp_path),
    )
    with pytest.raises(ForewarnError, match="connection refused"):
        register.read(context())
    assert register._path("x").split("/")[5] == used


# Consul


def consul_lock(fake: FakeConsulKeys, **more: Any) -> RegisterLock:
    settings = LockSettings(kind="consul", url=fake.url, **more)
    lock = make_lock(settings, {}, SystemClock())
    assert isinstance(lock, RegisterLock)
    return lock


def test_key_is_written_with_its_modify_index(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with FakeConsulKeys(token="s3cret") as fake:
        consul_lock(fake, token_file=str(token)).take("web_0", context())
        requests = [
            (request.method, request.path, dict(request.query))
            for request in fake.asked
        ]
        assert requests == [
            ("GET", "/v1/kv/forewarn/locks/default", {"consistent": ""}),
            ("PUT", "/v1/kv/forewarn/locks/default", {"cas": "0"}),
        ]
        with pytest.raises(ForewarnError) as refused:
            consul_lock(fake).take("web_1", context())
    assert refused.value.message.endswith(
        'its token needs key "forewarn/locks/default" { policy = "write" }'
    )


@pytest.mark.parametrize(
    "said",
    [
        Response([]),
        Response({"ModifyIndex": 7}),
        Response([{"Key": KEY, "ModifyIndex": "7", "Value": ""}]),
        Response([{"Key": KEY, "ModifyIndex": 7, "Value": "not base64"}]),
        Response([{"Key": KEY, "ModifyIndex": 7, "Value": "/w=="}]),
        Response([{"Key": KEY, "ModifyIndex": 7, "Value": 7}]),
        Response([{"ModifyIndex": 7, "Value": None, "Key": "another"}]),
        Response(None),
        Response(text=""),
        Response(text="<html>"),
        Response(text="[" * 60_000),
    ],
)
def test_answer_that_is_not_an_entry_does_not_grant_the_lock(said: Response) -> None:
    with FakeConsulKeys() as fake:
        fake.refusals = [said]
        with pytest.raises(ForewarnError, match=r"not an entry of Consul|no JSON list"):
            consul_lock(fake).take("web_0", context())


@pytest.mark.parametrize("said", [Response(None), Response(1), Response(text="yes")])
def test_write_answered_neither_true_nor_false_does_not_grant_the_lock(
    said: Response,
) -> None:
    with FakeConsulKeys() as fake:
        fake.refusals = [Response(status=404, text=""), said]
        with pytest.raises(ForewarnError, match=r"neither true nor false|no JSON"):
            consul_lock(fake).take("web_0", context())


def test_key_without_a_value_has_no_holders() -> None:
    with FakeConsulKeys() as fake:
        fake.keys["forewarn/locks/default"] = 7, b""
        assert consul_lock(fake).take("web_0", context()).is_held


def test_consul_errors_are_reported() -> None:
    with FakeConsulKeys() as fake:
        fake.refusals = [Response(status=500, text="No cluster leader")]
        with pytest.raises(ForewarnError, match="500: No cluster leader"):
            consul_lock(fake).take("web_0", context())


def test_lock_expiry_does_not_depend_on_the_local_clock() -> None:
    """The lock lasts by Consul's clock, which is a day behind that of this machine."""
    with FakeConsulKeys() as fake:
        fake.ahead = -86_400
        assert consul_lock(fake).take("web_0", context()).is_held
        assert not consul_lock(fake).take("web_1", context()).is_held
        fake.ahead += 3_700
        assert consul_lock(fake).take("web_1", context()).is_held
