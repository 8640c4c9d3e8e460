"""Messages for people: what a chat shows of events, notices and tests."""

import asyncio
import json

import pytest

from forewarn.clock import SystemClock, VirtualClock
from forewarn.ids import RandomIds
from forewarn.instants import SECOND
from forewarn.protocol.actors import operator
from forewarn.service.webhooks import payload
from forewarn.service.webhooks.commits import Pending
from forewarn.service.webhooks.decisions import Verdict
from forewarn.service.webhooks.payload import Format
from forewarn.service.webhooks.receiver import Mailbox, Receiver
from forewarn.service.webhooks.sender import Sender
from forewarn.store.memory import MemoryStore
from forewarn.store.notices import Notice, NoticeKind
from forewarn.store.records import OutboxMessage
from forewarn.store.sequence import key_of
from tests.support import fake_hooks
from tests.support.campaigns import start
from tests.support.fake_hooks import Request, hook
from tests.support.loops import in_loop
from tests.unit.admin.gateway import LocalGateway
from tests.unit.control.test_notices import messages, of
from tests.unit.service.webhooks.test_receiver import START, Box, Told
from tests.unit.service.webhooks.test_values import halted, message

CHATS = {
    Format.SLACK: (fake_hooks.slack, fake_hooks.SLACK_PATH),
    Format.TEAMS: (fake_hooks.teams, fake_hooks.TEAMS_PATH),
}


def of_brake() -> OutboxMessage:
    by = operator("bob<!channel>")
    return OutboxMessage(
        message_id=key_of(1, 1),
        receiver="on-call",
        at=START,
        public_id="X",
        notice=Notice(kind=NoticeKind.BRAKE_OFF, by=by, why="y" * 9_000),
    )


@pytest.mark.parametrize("form", CHATS)
def test_a_chat_accepts_each_message(form: Format) -> None:
    judge, path = CHATS[form]
    bodies = [
        payload.told(halted(), tenant="", form=form),
        payload.told(of_brake(), tenant="", form=form),
        payload.told(message(operator("alice")), tenant="shop", form=form),
        payload.ping("X", receiver="a", tenant="", now=START, form=form),
    ]
    for body in bodies:
        status, said, _ = judge(Request(path, {}, body))
        assert status in {200, 202}, said
    assert form.content_type == "application/json"


def test_a_halt_is_red_in_slack_and_says_what_to_do() -> None:
    shown = json.loads(payload.told(halted(), tenant="", form=Format.SLACK))
    assert shown["text"] == ":red_circle: Campaign bios-2.19 is halted"
    [_, sentence, facts] = shown["blocks"]
    assert "Run `forewarn campaign show bios-2.19`" in sentence["text"]["text"]
    assert "Failed\nh003" in [field["text"] for field in facts["fields"]]


def test_plain_text_has_a_line_for_each_fact() -> None:
    text = payload.told(halted(), tenant="", form=Format.TEXT).decode()
    assert text.splitlines()[0] == "Campaign bios-2.19 is halted"
    assert "Stage: 1 of 3" in text.splitlines()
    assert payload.Format.TEXT.content_type.startswith("text/plain")


def test_the_chat_of_a_tenant_shows_no_operator() -> None:
    stored = message(operator("alice"))
    ours = payload.told(stored, tenant="shop", form=Format.TEXT).decode()
    assert ours.splitlines()[0] == "Reboot of web_0, web_1: scheduled"
    assert "Approved by: (platform)" in ours.splitlines()
    theirs = payload.told(stored, tenant="", form=Format.TEXT).decode()
    assert "Approved by: (alice)" in theirs.splitlines()


@in_loop
async def test_a_receiver_without_a_key_signs_nothing() -> None:
    delivery = Told(Box(0))
    receiver = Receiver(
        name="a",
        tenant="",
        keys=(),
        post=delivery.post_headers,
        mailbox=delivery.box,
        clock=VirtualClock(START),
        ids=RandomIds(1),
        share=lambda: 1.0,
        form=Format.TEXT,
    )
    await receiver.test()
    assert delivery.headers == [{"Content-Type": "text/plain; charset=utf-8"}]


@pytest.mark.system
def test_the_url_of_a_chat_is_in_no_error() -> None:
    async def post(url: str) -> str:
        sender = Sender(
            url, timeout=2 * SECOND, clock=SystemClock(), ca_file="", proxy=""
        )
        answer = await sender.post(b"{}", {"Content-Type": "application/json"})
        await sender.close()
        assert answer.verdict is Verdict.RETRY
        return answer.sentence()

    with hook(fake_hooks.slack) as server:
        url = f"http://127.0.0.1:{server.port}/services/s3cret"
        assert asyncio.run(post(url)) == "HTTP status 404"
    assert "s3cret" not in asyncio.run(post(url))


@in_loop
async def test_the_message_of_a_done_campaign_has_its_figures() -> None:
    world = of(2)
    start(world)
    world.advance("3h")
    [_, done] = messages(world)
    gateway = LocalGateway()
    store = world.plane.store
    assert isinstance(store, MemoryStore)
    gateway.store = store
    box = Mailbox(receiver="ops", tenant="", gateway=gateway, pending=Pending())
    assert await box.figures(messages(world)[0]) is None
    figures = await box.figures(done)
    text = payload.told(done, tenant="", form=Format.TEXT, figures=figures).decode()
    assert "Approvals: 0 of 2 events" in text.splitlines()
    assert "Notice: 15 m given on average, 15 m used" in text.splitlines()
    assert "Downtime: 2.0 VM minutes of 2 VMs" in text.splitlines()
    [event] = json.loads(payload.told(done, tenant="", figures=figures))
    assert event["data"]["sums"]["states"] == {"Done": 2}
    # The same is posted again later.
    world.advance("2d")
    assert await box.figures(done) == figures
