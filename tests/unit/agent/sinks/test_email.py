"""Letters to a strict mail server over real sockets."""

import contextlib
import email
import email.policy
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.email import KIND, EmailSink
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND
from tests.support.certificates import Certificate, certificate_in, needs_openssl
from tests.support.fake_smtp import FakeSmtp, fake_smtp
from tests.support.notes import told_of

pytestmark = [pytest.mark.system, needs_openssl]

TO = ("ops@example.com", "web@example.com")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate_in(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(own: Certificate) -> Iterator[FakeSmtp]:
    with fake_smtp(own.server()) as smtp:
        yield smtp
        assert not smtp.sins


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text("pässw0rd\n")
    file.chmod(0o600)
    return str(file)


def sink_at(server: FakeSmtp, own: Certificate, **more: Any) -> EmailSink:
    keys: dict[str, Any] = {
        "server": f"localhost:{server.port}",
        "from": "fore@example.com",
        "to": TO,
        "ca_file": str(own.certificate),
        "timeout": 5 * SECOND,
        **more,
    }
    sink = KIND.make(NotifySettings(kind="email", more=keys), SystemClock())
    assert isinstance(sink, EmailSink)
    return sink


def with_login(password_file: str) -> dict[str, Any]:
    return {"user": "fore", "password_file": password_file}


@pytest.mark.parametrize("kind", NoteKind)
def test_each_kind_is_sent_as_an_accepted_email(
    server: FakeSmtp, own: Certificate, kind: NoteKind
) -> None:
    sink = sink_at(server, own)
    sink.deliver(17, told_of(kind, ".a\n.\n“b”", handler="drain"))
    [letter] = server.letters
    assert (letter.sender, letter.recipients) == ("fore@example.com", list(TO))
    assert letter.was_secret
    message = email.message_from_bytes(letter.data, policy=email.policy.default)
    assert message["Message-ID"].startswith("<forewarn.17.")
    assert server.commands[-1] == "QUIT"


def test_a_relay_on_the_machine_needs_no_tls() -> None:
    with fake_smtp() as server:
        more = {"server": f"127.0.0.1:{server.port}", "from": "a@b.example", "to": TO}
        settings = NotifySettings(kind="email", more={**more, "tls": "none"})
        sink = KIND.make(settings, SystemClock())
        assert sink.check() == []
        sink.deliver(1, told_of())
        assert len(server.letters) == 1
        assert not server.sins


def test_implicit_tls_is_supported(own: Certificate, password_file: str) -> None:
    with fake_smtp(own.server(), implicit=True) as server:
        server.logins = {"fore": "pässw0rd"}
        sink = sink_at(server, own, tls="implicit", **with_login(password_file))
        sink.deliver(1, told_of())
        assert server.letters[0].was_secret
        assert server.letters[0].user == "fore"
        assert not server.sins


@pytest.mark.parametrize("ways", ["PLAIN LOGIN", "LOGIN", "plain CRAM-MD5"])
def test_login_uses_an_offered_method(
    server: FakeSmtp, own: Certificate, password_file: str, ways: str
) -> None:
    server.logins, server.ways = {"fore": "pässw0rd"}, ways
    sink = sink_at(server, own, **with_login(password_file))
    assert sink.check() == []
    assert not server.letters
    sink.deliver(1, told_of())
    assert server.letters[0].user == "fore"


def refused(sink: EmailSink) -> DeliveryError:
    with pytest.raises(DeliveryError) as raised:
        sink.deliver(1, told_of())
    return raised.value


def test_password_is_read_again_and_never_reported(
    server: FakeSmtp, own: Certificate, password_file: str
) -> None:
    server.logins = {"fore": "another"}
    sink = sink_at(server, own, **with_login(password_file))
    error = refused(sink)
    assert error.message == (
        f"localhost:{server.port} answered 535 to the login of fore"
    )
    assert error.may_pass
    assert sink.check() == [error.message]
    Path(password_file).write_text("another")
    sink.deliver(1, told_of())
    assert len(server.letters) == 1
    Path(password_file).unlink()
    assert "No such file" in refused(sink).message
    assert len(sink.check()) == 1


def test_login_method_that_is_not_offered_is_reported(
    server: FakeSmtp, own: Certificate, password_file: str
) -> None:
    server.logins, server.ways = {"fore": "x"}, "GSSAPI"
    sink = sink_at(server, own, **with_login(password_file))
    assert "offers no login with PLAIN or LOGIN" in refused(sink).message


def test_no_email_is_sent_without_tls(own: Certificate, password_file: str) -> None:
    with fake_smtp() as server:
        sink = sink_at(server, own, **with_login(password_file))
        error = refused(sink)
        assert "offers no STARTTLS, so no email was sent" in error.message
        assert error.may_pass
        assert server.commands == ["EHLO"]


def test_certificate_of_another_authority_is_not_trusted(
    server: FakeSmtp, own: Certificate, tmp_path: Path
) -> None:
    other = certificate_in(tmp_path)
    sink = sink_at(server, other)
    assert "no trusted connection" in refused(sink).message
    assert "no trusted connection" in sink.check()[0]
    wrong = sink_at(server, own, ca_file=str(tmp_path / "none"))
    assert "cannot read" in refused(wrong).message
    assert not server.letters


def test_data_sent_before_tls_is_an_error(server: FakeSmtp, own: Certificate) -> None:
    server.says_early = b"250 you are logged in\r\n"
    assert "it sent data before TLS" in refused(sink_at(server, own)).message


@pytest.mark.parametrize(
    ("command", "answer", "may_pass", "said"),
    [
        ("greeting", "554 no service for you", True, "to the connection"),
        ("greeting", "421 too many", True, "421 too many"),
        ("EHLO", "502 no", True, "to EHLO"),
        ("STARTTLS", "454 no certificate", True, "to STARTTLS"),
        ("MAIL", "451 later", True, "to the sender fore@example.com"),
        ("MAIL", "550 5.7.1 not yours", False, "550 5.7.1 not yours"),
        ("DATA", "451 disk", True, "to DATA"),
        ("DATA", "554 none of them", False, "to DATA"),
        (".", "452 no capacity", True, "to the email"),
        (".", "552-too large\r\n552 really", False, "552 really to the email"),
    ],
)
def test_refusal_is_reported_and_retried_if_temporary(
    server: FakeSmtp,
    own: Certificate,
    command: str,
    answer: str,
    said: str,
    *,
    may_pass: bool,
) -> None:
    server.answers = {command: [answer]}
    error = refused(sink_at(server, own))
    assert said in error.message
    assert error.may_pass is may_pass
    assert not server.letters
    # The next time it is taken.
    sink_at(server, own).deliver(1, told_of())
    assert len(server.letters) == 1


def test_accepted_recipients_get_the_email(
    server: FakeSmtp, own: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = {"RCPT": ["550 no such user"]}
    with caplog.at_level(logging.WARNING):
        sink_at(server, own).deliver(1, told_of())
    assert server.letters[0].recipients == ["web@example.com"]
    assert "not accepted for ops@example.com: 550 no such user" in caplog.text


@pytest.mark.parametrize(
    ("answers", "may_pass"),
    [(["550 a", "450 b"], True), (["550 a", "550 b"], False)],
)
def test_email_without_accepted_recipients_is_retried_if_one_may_accept(
    server: FakeSmtp, own: Certificate, answers: list[str], *, may_pass: bool
) -> None:
    server.answers = {"RCPT": answers}
    error = refused(sink_at(server, own))
    assert "refused ops@example.com: 550 a; web@example.com" in error.message
    assert error.may_pass is may_pass


@pytest.mark.parametrize("command", ["greeting", "EHLO", "MAIL", "DATA", "."])
def test_hanging_server_times_out(
    server: FakeSmtp, own: Certificate, command: str
) -> None:
    server.hangs_at = command
    error = refused(sink_at(server, own, timeout=300 * MILLISECOND))
    assert "no time left" in error.message or "in time" in error.message
    assert error.may_pass


@pytest.mark.slow
def test_hanging_quit_does_not_fail_the_delivery(
    server: FakeSmtp, own: Certificate
) -> None:
    server.hangs_at = "QUIT"
    sink_at(server, own, timeout=SECOND).deliver(1, told_of())
    assert len(server.letters) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 400 Bad\r\n", "its reply is not valid SMTP"),
        (b"x" * 9_000, "its line is too long"),
        (b"220-a\r\n" * 200, "its reply is not valid SMTP"),
        (b"220-a\r\n", "it ended the connection"),
    ],
)
def test_answer_that_is_not_smtp_is_reported(
    own: Certificate, said: bytes, told: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sink = sink_at(FakeSmtp(port=listener.getsockname()[1]), own)

        def answer() -> None:
            wire, _ = listener.accept()
            # The server may close the connection before the end.
            with wire, contextlib.suppress(OSError):
                wire.sendall(said)
                wire.shutdown(socket.SHUT_WR)
                wire.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        assert told in refused(sink).message
        thread.join()


def test_refused_connection_is_reported(own: Certificate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    sink = sink_at(FakeSmtp(port=port), own)
    assert list(sink.check()) == [f"localhost:{port}: connection refused"]


SOUND = {
    "server": '"smtp.example.com:587"',
    "from": '"a@example.com"',
    "to": '["b@example.com"]',
}


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"from": '"a"'}, "is not an address"),
        ({"to": '["b@example.com", "c@d e"]'}, "is not an address"),
        ({"to": '"b@example.com\\nBcc: c@example.com"'}, "is not an address"),
        ({"to": '"b@example.com> SIZE=1"'}, "is not an address"),
        ({"from": '"é@example.com"'}, "is not an address"),
        ({"from": f'"{"a" * 65}@example.com"'}, "is not an address"),
        ({"to": "[]"}, "must not be empty"),
        ({"to": str([f"a{n}@example.com" for n in range(51)])}, "must name 1 to 50"),
        ({"server": '"smtp.example.com"'}, "not a listening address"),
        ({"server": '"smtp.example.com:465"'}, 'write tls = "implicit"'),
        ({"server": '"smtp.example.com:0"'}, "must name a port"),
        ({"user": '"a"'}, "must be used together"),
        ({"password_file": '"a"'}, "must be used together"),
        (
            {"user": '"a"', "password_file": '"b"', "tls": '"none"'},
            "through TLS only",
        ),
        ({"tls": '"ssl"'}, "must be one of starttls, implicit, none"),
        ({"port": "25"}, "there is no such setting"),
    ],
)
def test_invalid_settings_are_reported(
    tmp_path: Path, keys: dict[str, str], fault: str
) -> None:
    file = tmp_path / "agent.toml"
    lines = [f"{key} = {value}" for key, value in {**SOUND, **keys}.items()]
    file.write_text('[[notify]]\nkind = "email"\n' + "\n".join(lines) + "\n")
    with pytest.raises(AgentSettingsError, match=fault):
        load_settings(file=str(file), environ={}, flags={})
