"""The client over real sockets: it ends in time, whatever the other side does."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.agent.wire.http import Client, HttpError, Trouble, parse_url
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.scripted import Reply, close, plain, scripted

pytestmark = pytest.mark.system

SOON = 300 * MILLISECOND
TIMES = SystemClock()


def client_of(
    url: str, *, ca_file: str = "", cert_file: str = "", key_file: str = ""
) -> Client:
    return Client(
        parse_url(url),
        clock=TIMES,
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
    )


def trouble_of(act: Callable[[], object]) -> Trouble:
    with pytest.raises(HttpError) as caught:
        act()
    assert caught.value.message
    return caught.value.trouble


def drip(wire: socket.socket) -> None:
    """Send single bytes, for longer than the timeout."""
    pause = threading.Event()
    for byte in plain(b"x" * 1_000):
        wire.sendall(bytes([byte]))
        pause.wait(0.02)


def reset(wire: socket.socket) -> None:
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    wire.close()


def test_a_connection_is_kept_between_gets() -> None:
    with scripted(plain(b"1"), plain(b"2")) as server:
        client = client_of(server.url)
        bodies = [client.get("/x", timeout=SECOND).body for _ in range(2)]
        client.close()
        assert bodies == [b"1", b"2"]
        assert server.connections == 1
        assert (
            server.requests[0]
            == (
                b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: forewarn-agent\r\n"
                b"Accept-Encoding: identity\r\n\r\n"
            )
            % server.port
        )


def test_post_is_sent_once_over_a_separate_connection() -> None:
    with scripted(plain(b"1"), plain(b""), close, plain(b"")) as server:
        client = client_of(server.url)
        client.get("/x", timeout=SECOND)
        headers = [("Metadata", "true")]
        answer = client.send("POST", "/y", b"body", headers=headers, timeout=SECOND)
        assert answer.status == 200
        assert server.requests[1].endswith(
            b"Metadata: true\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        )
        assert server.connections == 2
        lost = trouble_of(lambda: client.send("POST", "/y", b"", timeout=SECOND))
        assert lost is Trouble.RESET
        assert len(server.requests) == 3


@pytest.mark.parametrize("ends", [close, reset])
def test_closed_kept_connection_is_opened_again(ends: Reply) -> None:
    with scripted(plain(b"1"), ends, plain(b"2")) as server:
        client = client_of(server.url)
        bodies = [client.get("/", timeout=SECOND).body for _ in range(2)]
        client.close()
        assert bodies == [b"1", b"2"]
        assert server.connections == 2


def test_unrequested_answer_is_ignored() -> None:
    """A server that says good-bye on a kept connection is not believed."""
    spoke = threading.Event()

    def talkative(wire: socket.socket) -> None:
        wire.sendall(plain(b"1"))
        wire.sendall(plain(b"time-out", status="408 Request Timeout"))
        spoke.set()

    with scripted(talkative, plain(b"2")) as server:
        client = client_of(server.url)
        assert client.get("/", timeout=SECOND).body == b"1"
        spoke.wait(5)
        assert client.get("/", timeout=SECOND).body == b"2"
        client.close()
        assert server.connections == 2


@pytest.mark.parametrize("reply", [None, drip, b"HTTP/1.1 200 OK\r\n", plain()[:-1]])
def test_silent_and_slow_servers_time_out(reply: Reply | None) -> None:
    def and_silence(wire: socket.socket) -> None:
        if isinstance(reply, bytes):
            wire.sendall(reply)
        server.ended.wait()

    script = () if reply is None else (drip if reply is drip else and_silence,)
    with scripted(*script) as server:
        client = client_of(server.url)
        began = TIMES.monotonic()
        assert trouble_of(lambda: client.get("/", timeout=SOON)) is Trouble.TIMEOUT
        assert 0.25 < TIMES.monotonic() - began < 2


@pytest.mark.parametrize(
    ("reply", "trouble"),
    [
        (close, Trouble.RESET),
        (reset, Trouble.RESET),
        (b"+OK Dovecot ready.\r\n\r\n", Trouble.MALFORMED),
        (plain(b"x" * (1 << 21)), Trouble.TOO_LARGE),
    ],
)
def test_each_failure_is_classified(reply: Reply, trouble: Trouble) -> None:
    with scripted(reply, reply) as server:
        client = client_of(server.url)
        assert trouble_of(lambda: client.get("/", timeout=SECOND)) is trouble


def test_connection_refused_is_reported() -> None:
    with socket.socket() as wire:
        wire.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{wire.getsockname()[1]}"
        refused = trouble_of(lambda: client_of(url).get("/", timeout=SECOND))
        assert refused is Trouble.REFUSED


def test_unresolvable_name_is_an_error() -> None:
    client = client_of("http://no-such-host.invalid")
    problem = trouble_of(lambda: client.get("/", timeout=5 * SECOND))
    assert problem in {Trouble.UNREACHABLE, Trouble.TIMEOUT}


def test_host_name_is_resolved() -> None:
    with scripted(plain(b"1")) as server:
        client = client_of(f"http://localhost:{server.port}")
        assert client.get("/", timeout=5 * SECOND).body == b"1"
        client.close()


def test_redirect_is_returned_and_not_followed() -> None:
    there = plain(b"", status="302 Found", more="Location: http://127.0.0.1:9/\r\n")
    with scripted(there) as server:
        client = client_of(server.url)
        assert client.get("/", timeout=SECOND).status == 302
        client.close()
        assert len(server.requests) == 1


def test_proxy_variables_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with scripted(plain(b"1")) as server:
        client = client_of(server.url)
        assert client.get("/", timeout=SECOND).body == b"1"
        client.close()


def test_ipv6_is_supported() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener:
        port = listener.getsockname()[1]
        requests: list[bytes] = []

        def serve() -> None:
            wire, _ = listener.accept()
            with wire:
                requests.append(wire.recv(65_536))
                wire.sendall(plain(b"six", more="Connection: close\r\n"))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = client_of(f"http://[::1]:{port}")
        assert client.get("/", timeout=5 * SECOND).body == b"six"
        thread.join(5)
        assert b"Host: [::1]:%d\r\n" % port in requests[0]


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        ("GET\r\n", "/", ("A", "b")),
        ("GET", "x", ("A", "b")),
        ("GET", "/ HTTP/1.1\r\nX: y", ("A", "b")),
        ("GET", "/", ("A:", "b")),
        ("GET", "/", ("A", "b\r\nX: y")),
        ("GET", "/", ("A", "\u20ac")),
    ],
)
def test_request_with_injected_characters_is_not_sent(
    method: str, target: str, header: tuple[str, str]
) -> None:
    with scripted(plain()) as server:
        client = client_of(server.url)
        sent = trouble_of(
            lambda: client.send(method, target, b"", headers=[header], timeout=SECOND)
        )
        assert sent is Trouble.REQUEST
        assert server.requests == []


def test_waiting_request_can_be_interrupted() -> None:
    with scripted() as server:
        client = client_of(server.url)
        troubles: list[Trouble] = []
        thread = threading.Thread(
            target=lambda: troubles.append(
                trouble_of(lambda: client.get("/", timeout=60 * SECOND))
            )
        )
        thread.start()
        for _ in range(500):
            if server.requests:
                break
            threading.Event().wait(0.01)
        client.interrupt()
        thread.join(5)
        assert troubles == [Trouble.STOPPED]
        assert trouble_of(lambda: client.get("/", timeout=SECOND)) is Trouble.STOPPED


@needs_openssl
def test_tls_server_is_trusted_by_a_ca_file(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    with scripted(plain(b"1"), plain(b"2"), context=certificate.server()) as server:
        url = server.url.replace("http:", "https:")
        client = client_of(url, ca_file=str(certificate.certificate))
        bodies = [client.get("/", timeout=5 * SECOND).body for _ in range(2)]
        client.close()
        assert bodies == [b"1", b"2"]
        assert server.connections == 1
        stranger = client_of(url)
        problem = trouble_of(lambda: stranger.get("/", timeout=5 * SECOND))
        assert problem is Trouble.TLS


@needs_openssl
def test_client_certificate_is_sent_on_request(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    context = certificate.server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate.certificate)
    both = tmp_path / "both.pem"
    both.write_bytes(
        certificate.key.read_bytes() + certificate.certificate.read_bytes()
    )
    trusts = {"ca_file": str(certificate.certificate)}
    with scripted(plain(b"1"), plain(b"2"), context=context) as server:
        url = server.url.replace("http:", "https:")
        for shown in (
            {
                "cert_file": str(certificate.certificate),
                "key_file": str(certificate.key),
            },
            {"cert_file": str(both)},
        ):
            client = client_of(url, **trusts, **shown)
            assert client.get("/", timeout=5 * SECOND).body in {b"1", b"2"}
            client.close()
        nothing = client_of(url, **trusts)
        problem = trouble_of(lambda: nothing.get("/", timeout=5 * SECOND))
        assert problem in {Trouble.TLS, Trouble.RESET}
        for wrong in (tmp_path / "none.pem", certificate.certificate):
            client = client_of(url, **trusts, cert_file=str(wrong))
            with pytest.raises(HttpError, match="cannot use the certificate"):
                client.get("/", timeout=5 * SECOND)


def test_server_without_tls_is_an_error() -> None:
    def babble(wire: socket.socket) -> None:
        wire.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                wire, _ = listener.accept()
                with wire:
                    wire.recv(65_536)
                    babble(wire)

        threading.Thread(target=serve, daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        problem = trouble_of(lambda: client_of(url).get("/", timeout=5 * SECOND))
        assert problem in {Trouble.TLS, Trouble.RESET}
        missing = client_of(url, ca_file="/no/such/file")
        assert trouble_of(lambda: missing.get("/", timeout=SECOND)) in {
            Trouble.TLS,
            Trouble.TIMEOUT,
        }
