"""Signatures, payloads and decisions, which are pure functions."""

import base64
import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact
from forewarn.campaigns.record import Halt, HaltCause
from forewarn.clock import SystemClock
from forewarn.control.transactions.event_json import event_report
from forewarn.instants import HOUR, SECOND, parse_instant
from forewarn.protocol.actors import (
    DRIVER,
    NOBODY_LISTENS,
    POLICY,
    Actor,
    operator,
    tenant_user,
    vm_actor,
)
from forewarn.service.webhooks import decisions, limits, payload
from forewarn.service.webhooks.decisions import Answer, Verdict
from forewarn.service.webhooks.signing import read_keys, signed_headers
from forewarn.store.notices import CampaignStatus, Notice, NoticeKind
from forewarn.store.records import EventChange, OutboxMessage
from forewarn.store.sequence import key_of
from tests.support.pages import OPERATE, REFERENCE
from tests.unit.control.test_subscribers import SCHEDULED

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "examples" / "webhooks"
PAGE = OPERATE / "webhooks.md"
PAYLOAD_PAGE = REFERENCE / "webhook-payload.md"

# As the libraries of the Standard Webhooks scheme test themselves.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
SECONDS = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def signed(secret: str) -> dict[str, str]:
    return signed_headers(
        read_keys(secret), message_id=MESSAGE_ID, seconds=SECONDS, body=BODY
    )


# Signatures


def test_signature_matches_the_published_example() -> None:
    assert signed(SECRET) == {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": str(SECONDS),
        "webhook-signature": SIGNATURE,
    }
    assert signed(f"\n{SECRET.removeprefix('whsec_')}\n") == signed(SECRET)


def test_two_keys_give_two_signatures() -> None:
    other = base64.b64encode(bytes(32)).decode()
    first, second = signed(f"whsec_{other}\n{SECRET}\n")["webhook-signature"].split()
    assert second == SIGNATURE
    assert first != second


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret",
        "whsec_",
        base64.b64encode(b"too short").decode(),
        base64.b64encode(bytes(65)).decode(),
        f"{SECRET}\n{SECRET}\n{SECRET}",
        "whsec_####################################",
    ],
)
def test_invalid_secret_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"must have") as caught:
        read_keys(text)
    assert caught.value.__cause__ is None
    secret = text.removeprefix("whsec_")
    assert not secret or secret not in str(caught.value)


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify", EXAMPLES / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_python_example_accepts_only_valid_signatures() -> None:
    now = SystemClock().now() // SECOND
    keys = read_keys(SECRET)
    is_genuine = example().is_genuine

    def headers(seconds: int) -> dict[str, str]:
        return signed_headers(keys, message_id="x", seconds=seconds, body=BODY)

    assert is_genuine(SECRET, headers(now), BODY)
    assert not is_genuine(SECRET, headers(now), BODY + b" ")
    assert not is_genuine(SECRET, headers(now - 600), BODY)
    assert not is_genuine(SECRET, {**headers(now), "webhook-id": "y"}, BODY)
    other = base64.b64encode(bytes(32)).decode()
    assert not is_genuine(other, headers(now), BODY)


def test_openssl_example_creates_the_same_signature() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    done = subprocess.run(
        ["sh", str(EXAMPLES / "verify.sh"), SECRET, MESSAGE_ID, str(SECONDS)],
        input=BODY,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.decode().strip() == SIGNATURE


def test_page_shows_the_example_files_unchanged() -> None:
    page = PAGE.read_text(encoding="utf-8")
    python = (EXAMPLES / "verify.py").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown[1] in python
    shell = (EXAMPLES / "verify.sh").read_text(encoding="utf-8")
    lines = [line.strip() for line in shell.splitlines()[4:7]]
    assert all(line.rstrip(" \\") in page for line in lines), lines


# Payloads


def message(approver: Actor | None = None) -> OutboxMessage:
    event = replace(
        SCHEDULED,
        event_id="602D9444-D2CD-49C7-8624-8643E7171297",
        operation="op-w2147h2k9m4x3qa8",
        not_before=parse_instant("2030-01-01T00:15:00Z"),
        created=parse_instant("2030-01-01T00:00:00Z"),
        description="kernel update",
        duration_seconds=60,
        approver=approver,
    )
    at = parse_instant("2030-01-01T00:00:00Z")
    return OutboxMessage(
        message_id=key_of(1, 1),
        receiver="shop-oncall",
        at=at,
        change=EventChange.SCHEDULED,
        public_id="8E005A45-0E39-46DD-B541-AE5DD0BA8E2E",
        body=json.dumps(event_report(event)),
        approver=approver,
    )


def test_documentation_page_shows_the_posted_payload() -> None:
    shown = re.search(r"```json\n(.*?)```", PAYLOAD_PAGE.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    assert json.loads(shown[1]) == json.loads(payload.told(message(), tenant="shop"))


def halted() -> OutboxMessage:
    why = Halt(cause=HaltCause.CANARY, by=DRIVER, at=0, host="h003")
    return OutboxMessage(
        message_id=key_of(1, 1),
        receiver="on-call",
        at=parse_instant("2030-01-01T00:00:00Z"),
        public_id="8E005A45-0E39-46DD-B541-AE5DD0BA8E2E",
        notice=Notice(
            kind=NoticeKind.CAMPAIGN_HALTED,
            by=DRIVER,
            halt=why,
            campaign=CampaignStatus(
                campaign_id="ca-w2147h2k9m4x3qa8",
                name="bios-2.19",
                reason="CVE-2026-1234",
                impact=Impact.REBOOT,
                state=CampaignState.HALTED,
                created=parse_instant("2029-12-31T22:00:00Z"),
                ended=0,
                hosts=400,
                done=0,
                skipped=0,
                failed=1,
                failed_hosts=("h003",),
                stage=1,
                stage_hosts=1,
                stages=3,
            ),
        ),
    )


def test_documentation_page_shows_the_posted_notice() -> None:
    _, shown = re.findall(
        r"```json\n(.*?)```", PAYLOAD_PAGE.read_text("utf-8"), re.DOTALL
    )
    assert json.loads(shown) == json.loads(payload.told(halted(), tenant=""))


def test_a_notice_is_never_a_payload_of_a_tenant() -> None:
    with pytest.raises(AssertionError, match="for tenant shop"):
        payload.told(halted(), tenant="shop")


def test_page_lists_each_notice() -> None:
    text = PAYLOAD_PAGE.read_text("utf-8")
    for kind, name in payload.NOTICE_TYPES.items():
        assert f"| `{name.rpartition('.')[2]}` | `{kind.value}` |" in text, name


def test_page_lists_each_event_type() -> None:
    text = PAYLOAD_PAGE.read_text("utf-8")
    for name in (*payload.EVENT_TYPES.values(), payload.PING):
        assert f"`{name.rpartition('.')[2]}`" in text, name


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (vm_actor("web_0"), "web_0"),
        (POLICY, "(policy)"),
        (NOBODY_LISTENS, "(nobody listens)"),
        (tenant_user("shop", "alice"), "(shop/alice)"),
        (tenant_user("bank", "alice"), "(platform)"),
        (operator("alice"), "(platform)"),
        (operator("shop/alice"), "(platform)"),
    ],
)
def test_tenant_does_not_see_operator_names(by: Actor, told: str) -> None:
    def approved_by(tenant: str) -> str:
        [event] = json.loads(payload.told(message(by), tenant=tenant))
        return event["data"]["approved_by"]

    assert approved_by("shop") == told
    assert approved_by("") == by.as_approver


def test_body_is_the_same_for_each_attempt() -> None:
    assert payload.told(message(), tenant="") == payload.told(message(), tenant="")


# Decisions

NOW = parse_instant("2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, Verdict.DELIVERED),
        (204, Verdict.DELIVERED),
        (0, Verdict.RETRY),
        (302, Verdict.RETRY),
        (400, Verdict.RETRY),
        (404, Verdict.RETRY),
        (410, Verdict.GONE),
        (429, Verdict.RETRY),
        (500, Verdict.RETRY),
    ],
)
def test_each_response_status_has_its_verdict(status: int, verdict: Verdict) -> None:
    assert Answer(status=status).verdict is verdict


def test_pauses_double_up_to_a_bound() -> None:
    def pause(failures: int, share: float) -> float:
        return decisions.pause(Answer(status=500), failures, share=share, now=NOW)

    assert [pause(count, 1) for count in (1, 2, 3, 9)] == [1, 2, 4, 256]
    assert pause(10, 1) == pause(10_000, 1) == limits.RETRY_SECONDS_MAX
    assert pause(3, 0) == 2, "by chance down to a half"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("Tue, 01 Jan 2030 00:01:00 GMT", 60),
        ("Mon, 31 Dec 2029 00:01:00 GMT", 0),
        ("", 0),
        ("soon", 0),
        ("-5", 0),
        ("٣", 0),
        ("9" * 400, 9_999_999_999),
    ],
)
def test_retry_after_is_respected(text: str, seconds: float) -> None:
    assert decisions.retry_after(text, now=NOW) == seconds
    answer = Answer(status=503, retry_after=text)
    expected = min(max(seconds, 1), limits.RETRY_AFTER_SECONDS_MAX)
    assert decisions.pause(answer, 1, share=1, now=NOW) == expected


def test_message_expires() -> None:
    assert not decisions.is_stale(NOW - HOUR, now=NOW)
    assert decisions.is_stale(NOW - limits.GIVE_UP_AFTER, now=NOW)


def test_error_text_has_a_maximum_length() -> None:
    assert Answer(status=302).sentence() == (
        "HTTP status 302; redirects are not followed"
    )
    assert Answer(status=500).sentence() == "HTTP status 500"
    assert len(Answer(error="x" * 999).sentence()) == limits.ERROR_CHARACTERS_MAX
