"""URLs of endpoints, webhooks and peers."""

import pytest

from forewarn.agent.wire.urls import parse_url


@pytest.mark.parametrize(
    ("text", "base", "authority", "target"),
    [
        ("http://169.254.169.254", "http://169.254.169.254", "169.254.169.254", ""),
        ("HTTP://Web.Example:80/x?y=z", "http://web.example", "web.example", "/x?y=z"),
        ("https://h:8443/a#b", "https://h:8443", "h:8443", "/a"),
        ("http://[::1]:8080/", "http://[::1]:8080", "[::1]:8080", "/"),
        ("http://[fe80::1%eth0]", "http://[fe80::1%eth0]", "[fe80::1]", ""),
        ("http://h?x", "http://h", "h", "/?x"),
    ],
)
def test_urls_are_parsed(text: str, base: str, authority: str, target: str) -> None:
    url = parse_url(text)
    assert (url.base, url.authority, url.target) == (base, authority, target)
    assert url.is_secure == text.lower().startswith("https")


@pytest.mark.parametrize(
    "text",
    [
        *("", "169.254.169.254", "ftp://h", "http://", "http://u:secret@h/"),
        *("http://h:0", "http://h:99999", "http://h:x", "http://a b", "http://[::1"),
        "http://h/\r\nX: y",
    ],
)
def test_invalid_url_is_refused_without_showing_its_password(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(text)
    assert "secret" not in str(caught.value)
