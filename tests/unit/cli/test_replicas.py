"""The command line with the URLs of several replicas."""

import json
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forewarn.cli.client import Client
from forewarn.cli.command_table import CommandError
from forewarn.cli.places import REPLICAS_MAX

pytestmark = pytest.mark.system


class Replica:
    """A server that leads, or says who does; it keeps what it was asked."""

    def __init__(self) -> None:
        self.leader: str | None = None
        """The URL of the leader; empty: none; None: this replica leads."""
        self.cuts = False
        """Whether it takes a request and gives no answer."""
        self.asked: list[tuple[str, str, str]] = []
        replica = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                replica.answer(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                replica.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        key = request.headers.get("Idempotency-Key", "")
        self.asked.append((request.command, request.path, key))
        if self.cuts:
            request.close_connection = True
            return
        body: dict[str, object] = {"served_by": self.url}
        status = 200
        if self.leader is not None and request.command == "POST":
            status = 503
            body = {"error": "this replica follows", "hint": "Wait.", "kind": "follows"}
            if self.leader:
                body["leader"] = self.leader
        data = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)


@contextmanager
def serving(number: int) -> Generator[list[Replica]]:
    replicas = [Replica() for _ in range(number)]
    threads = [
        threading.Thread(target=replica.server.serve_forever, args=(0.01,))
        for replica in replicas
    ]
    for thread in threads:
        thread.start()
    try:
        yield replicas
    finally:
        for replica_, thread in zip(replicas, threads, strict=True):
            replica_.server.shutdown()
            replica_.server.server_close()
            thread.join()


def urls(replicas: list[Replica], between: str = " ") -> str:
    return between.join(replica.url for replica in replicas)


def test_request_goes_to_the_leader_that_a_follower_names() -> None:
    with serving(3) as replicas:
        replicas[0].leader = replicas[1].leader = replicas[2].url + "/"
        with closing(Client(urls(replicas))) as client:
            assert client.post("drain", {}) == {"served_by": replicas[2].url}
            assert client.post("drain", {}) == {"served_by": replicas[2].url}
        assert len(replicas[0].asked) == 1
        assert replicas[1].asked == []


def test_reads_stay_where_they_are() -> None:
    with serving(2) as replicas:
        replicas[0].leader = replicas[1].url
        with closing(Client(urls(replicas, ", "))) as client:
            assert client.get("hosts") == {"served_by": replicas[0].url}


def test_replica_that_cannot_be_reached_is_left_for_the_next_one() -> None:
    with serving(1) as replicas:
        text = f"http://127.0.0.1:1 {replicas[0].url}"
        with closing(Client(text)) as client:
            assert client.post("drain", {}) == {"served_by": replicas[0].url}


def test_lost_answer_is_asked_for_at_the_next_replica_with_the_same_key() -> None:
    with serving(2) as replicas:
        replicas[0].cuts = True
        with closing(Client(urls(replicas), order_key="k")) as client:
            assert client.post("drain", {}) == {"served_by": replicas[1].url}
        assert replicas[1].asked == [("POST", "/v1/drain", "k")]


def test_token_is_not_sent_to_a_url_that_the_user_has_not_given() -> None:
    with serving(2) as replicas:
        replicas[0].leader = replicas[1].url
        with (
            closing(Client(replicas[0].url, "secret")) as client,
            pytest.raises(CommandError, match="this replica follows"),
        ):
            client.post("drain", {})
        assert replicas[1].asked == []


def test_without_a_leader_each_replica_is_asked_once() -> None:
    with serving(3) as replicas:
        for replica in replicas:
            replica.leader = ""
        with (
            closing(Client(urls(replicas))) as client,
            pytest.raises(CommandError, match="this replica follows"),
        ):
            client.post("drain", {})
        assert [len(replica_.asked) for replica_ in replicas] == [1, 1, 1]


def test_no_replica_can_be_reached() -> None:
    with (
        closing(Client("http://127.0.0.1:1 http://127.0.0.1:2")) as client,
        pytest.raises(CommandError, match=r"127\.0\.0\.1:2 cannot be reached"),
    ):
        client.get("hosts")


@pytest.mark.parametrize("text", ["", " , "])
def test_no_url_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not the URL of a service"):
        Client(text)


def test_too_many_urls_are_refused() -> None:
    text = " ".join(f"http://r{number}" for number in range(REPLICAS_MAX + 1))
    with pytest.raises(CommandError, match="10 URLs of services are given"):
        Client(text)
