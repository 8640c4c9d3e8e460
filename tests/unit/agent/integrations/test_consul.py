"""Maintenance mode of Consul, with a fake of its agent."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.handlers.port import Job
from forewarn.agent.handlers.run_context import StoppedError, TimeUpError
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.protocol.notices import Notice
from tests.support.fake_consul import NODE_CHECK, SERVICE_CHECK, FakeConsul
from tests.support.handled import JOB, Handled
from tests.support.json_api import Response

pytestmark = pytest.mark.slow

WEB = f"{SERVICE_CHECK}web"


@pytest.fixture
def consul() -> Iterator[FakeConsul]:
    with FakeConsul() as fake:
        yield fake


class Story:
    """An agent of Consul, and handlers of it."""

    def __init__(self, consul: FakeConsul, directory: Path) -> None:
        self.consul = consul
        self.directory = directory

    def handler(self, settings: str = "") -> Handled:
        url = f'url = "{self.consul.url}"\n'
        return Handled("consul", url + settings, self.directory, {})


@pytest.fixture
def story(consul: FakeConsul, tmp_path: Path) -> Story:
    return Story(consul, tmp_path)


def reboot() -> Job:
    notice = Notice(event_id="E1", event_type="Reboot")
    return replace(JOB, notice=notice, now=SystemClock().now())


def test_the_node_goes_into_maintenance_and_comes_back(story: Story) -> None:
    handler = story.handler()
    message = handler.worker.prepare(reboot(), handler.context()).detail
    assert message == "the node is in maintenance"
    assert list(story.consul.maintained()) == [NODE_CHECK]
    assert story.consul.maintained()[NODE_CHECK].startswith("forewarn it: Reboot since")
    handler.again()
    assert handler.recover() == "the node is back"
    assert story.consul.maintained() == {}


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    before = story.consul.maintained()
    handler.prepare()
    assert story.consul.maintained() == before
    handler.recover()
    assert handler.recover() == "nothing was in maintenance"
    assert story.consul.writes() == ["PUT /v1/agent/maintenance"] * 2


def test_services_enter_maintenance_individually(story: Story) -> None:
    handler = story.handler('services = ["web", "api/v2"]')
    message = "service web is in maintenance; service api/v2 is in maintenance"
    assert handler.prepare() == message
    assert story.consul.writes()[1] == "PUT /v1/agent/service/maintenance/api/v2"
    assert handler.recover() == "service web is back; service api/v2 is back"


def test_maintenance_set_by_an_operator_is_kept(story: Story) -> None:
    story.consul.maintain(WEB, "a new disk")
    handler = story.handler('services = ["web", "api/v2"]')
    assert handler.prepare() == (
        "service web is in maintenance set by others: a new disk; "
        "service api/v2 is in maintenance"
    )
    assert handler.recover() == (
        "service api/v2 is back; "
        "service web stays in maintenance, which this handler did not set"
    )
    assert story.consul.maintained() == {WEB: "a new disk"}


def test_maintenance_set_by_another_handler_is_kept(story: Story) -> None:
    story.consul.maintain(NODE_CHECK, "forewarn it2: Reboot since yesterday")
    assert "set by others" in story.handler().prepare()
    assert "stays" in story.handler().recover()


def test_service_removed_from_the_settings_is_restored_too(story: Story) -> None:
    story.handler('services = "web"').prepare()
    assert story.handler().recover() == "service web is back"


def test_recovery_of_a_removed_service_succeeds(story: Story) -> None:
    handler = story.handler('services = "web"')
    handler.prepare()
    story.consul.refusals = [
        Response(dict(story.consul.checks)),
        Response(status=404, text='Unknown service ID "web"'),
    ]
    story.consul.checks.clear()
    assert handler.recover() == "service web is back"


def test_unknown_service_fails_the_preparation(story: Story) -> None:
    handler = story.handler('services = ["web", "wep"]')
    assert handler.fails("prepare") == "Consul's agent has no service wep"
    assert list(story.consul.maintained()) == [WEB]
    assert handler.recover() == "service web is back"
    (problem,) = handler.check()
    assert problem.endswith("has no service wep, or the token cannot read it")


def test_prepare_waits_for_clients_that_cache_the_address(story: Story) -> None:
    handler = story.handler('wait = "1h"\ntimeout = "2h"')
    with pytest.raises(
        TimeUpError, match=r"for clients that cache the address of this node \(1h\)"
    ):
        handler.worker.prepare(reboot(), handler.context(2))
    assert list(story.consul.maintained()) == [NODE_CHECK]
    context = handler.context()
    context.stop(SystemClock().now())
    with pytest.raises(StoppedError):
        handler.worker.prepare(reboot(), context)


def test_wait_that_is_already_over_is_not_repeated(story: Story) -> None:
    """Another event, or another attempt: the clients have forgotten it by now."""
    handler = story.handler('wait = "1m"')
    long_ago = replace(reboot(), now=SystemClock().now() - 3_600 * SECOND)
    for _ in range(2):
        message = handler.worker.prepare(long_ago, handler.context(1)).detail
        assert message == "the node is in maintenance"


def test_short_wait_is_completed(story: Story) -> None:
    handler = story.handler('wait = "100ms"')
    job = reboot()
    handler.worker.prepare(job, handler.context())
    assert SystemClock().now() >= job.now + SECOND // 10


def test_token_is_read_again_and_not_disclosed(story: Story, tmp_path: Path) -> None:
    story.consul.token = "s3cret"
    secret = tmp_path / "token"
    handler = story.handler(f'token_file = "{secret}"')
    assert "No such file" in handler.fails("prepare")
    assert "No such file" in handler.check()[0]
    secret.write_text("wrong\n")
    message = handler.fails("prepare")
    assert "403: ACL not found" in message
    assert "wrong" not in message
    secret.write_text("s3cret\n")
    assert handler.check() == []
    assert handler.prepare() == "the node is in maintenance"


def test_missing_permission_is_named(story: Story, tmp_path: Path) -> None:
    story.consul.token, story.consul.reader = "writer", "reader"
    secret = tmp_path / "token"
    secret.write_text("reader\n")
    keys = f'token_file = "{secret}"\n'
    message = story.handler(keys).fails("prepare")
    assert message.endswith("""; its token needs node "NAME" { policy = "write" }""")
    message = story.handler(f'{keys}services = "web"').fails("prepare")
    assert message.endswith("""; its token needs service "NAME" { policy = "write" }""")


def test_maintenance_that_does_not_appear_is_a_failure(story: Story) -> None:
    handler = story.handler()
    story.consul.refusals = [Response({}), Response(text=""), Response({})]
    message = handler.fails("prepare")
    assert message.startswith("Consul does not show the node in maintenance")


def test_maintenance_that_does_not_end_is_reported(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    shown = Response(dict(story.consul.checks))
    story.consul.refusals = [shown, Response(text=""), shown]
    assert handler.fails("recover") == "Consul still shows the node in maintenance"


def test_unavailable_agent_is_retried(story: Story) -> None:
    handler = story.handler()
    story.consul.refusals = [Response(status=503, text="starting")] * 2
    assert handler.prepare() == "the node is in maintenance"
    story.consul.end()
    message = handler.fails("recover", 0.4)
    assert message.startswith("timed out while retrying")
    assert "connection refused" in message
    assert "connection refused" in handler.check()[0]
    story.consul.begin()
    assert handler.recover() == "the node is back"


def test_own_reason_without_a_time_counts_as_old(
    story: Story,
) -> None:
    story.consul.maintain(NODE_CHECK, "forewarn it: by hand")
    handler = story.handler('wait = "1h"\ntimeout = "2h"')
    assert handler.prepare(5) == "the node is in maintenance"
    story.consul.refusals = [
        Response(dict(story.consul.checks)),
        Response(status=400, text="Invalid value"),
    ]
    assert handler.fails("recover").endswith("was answered 400: Invalid value")
    assert handler.recover() == "the node is back"


@pytest.mark.parametrize("said", [None, [], 7, {"status": "ok"}, {"a": {}}])
def test_invalid_list_of_checks_undoes_nothing(story: Story, said: object) -> None:
    handler = story.handler()
    handler.prepare()
    story.consul.refusals = [Response(said)]
    assert "GET /v1/agent/checks was answered 200 with no" in handler.fails("recover")
    assert handler.recover() == "the node is back"


def test_unexpected_answer_is_quoted_with_bounded_length(story: Story) -> None:
    page = f"<html>\n\x1b[31m{'x' * 500}</html>"
    story.consul.refusals = [Response(text=page)]
    assert story.handler().fails("prepare") == (
        "GET /v1/agent/checks was answered 200 with no JSON object: "
        f"text/plain; charset=utf-8, <html> {'x' * 72}…"
    )
    story.consul.refusals = [Response(text=" \n")]
    assert story.handler().fails("recover").endswith("charset=utf-8, an empty body")
