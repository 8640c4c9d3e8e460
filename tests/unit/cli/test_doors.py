"""The sources of the URL of the operator API, of a token for it, and of its trust."""

import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from forewarn.cli import places
from forewarn.cli.client import Client
from forewarn.cli.command_table import CommandError
from forewarn.cli.places import Place, token_of_file, trust
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@pytest.mark.parametrize(
    ("url", "socket", "is_here", "is_private"),
    [
        ("http://127.0.0.1:8200", "", True, True),
        ("http://localhost:8200/", "", True, True),
        ("http://[::1]:8200", "", True, True),
        ("https://forewarn.example", "", False, True),
        ("http://forewarn.example", "", False, False),
        ("unix:/run/forewarn/api", "/run/forewarn/api", True, True),
    ],
)
def test_service_url_is_classified(
    url: str, socket: str, *, is_here: bool, is_private: bool
) -> None:
    place = Place.of(url)
    classified = (place.socket, place.is_here, place.is_private)
    assert classified == (socket, is_here, is_private)


@pytest.mark.parametrize("url", ["unix:run/api", "ftp://x", "http://", "x"])
def test_url_without_a_service_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="is not the URL of a service"):
        Place.of(url)


def test_package_token_is_sent_only_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    monkeypatch.setattr(places, "TOKEN_FILE", file)
    assert token_of_file("", is_here=True) == ""
    for text, token in (
        ("# ours\n\n abc \nother\n", "abc"),
        ("alice: a:b\n", "a:b"),
        ("# nothing\n", ""),
    ):
        file.write_text(text)
        assert token_of_file("", is_here=True) == token
        assert token_of_file("", is_here=False) == ""
        assert token_of_file(str(file), is_here=False) == token
    file.write_bytes(b"\xff")
    assert token_of_file("", is_here=True) == ""
    with pytest.raises(CommandError, match="it is not UTF-8"):
        token_of_file(str(file), is_here=True)
    with pytest.raises(CommandError, match="No such file"):
        token_of_file(str(tmp_path / "none"), is_here=True)


def test_token_over_plain_http_prints_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for url in ("http://127.0.0.1:1", "https://forewarn.example", "unix:/run/x"):
        with closing(Client(url, "secret")):
            assert capsys.readouterr().err == ""
    with closing(Client("http://forewarn.example")):
        assert capsys.readouterr().err == ""
    with closing(Client("http://forewarn.example", "secret")):
        output = capsys.readouterr().err
    assert output == (
        "forewarn: warning: the token is sent to http://forewarn.example without "
        "encryption; use https\n"
    )


def test_unusable_ca_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    for text in (None, "no certificate"):
        if text is not None:
            file.write_text(text)
        with pytest.raises(CommandError, match="cannot be used"):
            trust(str(file), "https://forewarn")
    assert trust("", "https://forewarn") is True
    # No certificate is checked, and none would be accepted.
    without = trust("", "http://127.0.0.1:9000")
    assert isinstance(without, ssl.SSLContext)
    assert without.verify_mode is ssl.CERT_REQUIRED
    assert without.get_ca_certs() == []


# The HTTP library leaves the socket that it could not connect to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_missing_socket_is_reported(forewarn: Run, tmp_path: Path) -> None:
    ended = forewarn("operations", "--url", f"unix:{tmp_path / 'api'}")
    assert ended.status == 3
    assert "cannot be reached" in ended.err
