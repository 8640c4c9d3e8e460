"""Requests whose settings have secrets in headers and URLs, and answers that repeat them."""

import pytest

from forewarn.agent.handlers.posting import Post, Template, secrets_of
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.clock import SystemClock
from tests.support.receivers import receiving


def test_header_and_query_values_are_secret_except_common_values() -> None:
    template = Template(
        url="https://h.example.com/v1/hooks/T0123456789abcdef?key=abc123&at={event_id}",
        headers=(
            ("Content-Type", "application/xml"),
            ("Authorization", "Bearer tok-1234"),
            ("X-Api-Key", "k-98765"),
            ("X-Event", "{event_id}"),
            ("X-Short", "on"),
        ),
    )
    expected = {"T0123456789abcdef", "abc123", "tok-1234", "k-98765"}
    assert set(secrets_of(template)) == expected


def test_secrets_in_the_response_are_redacted_in_the_error() -> None:
    with receiving() as hook:
        hook.usual, hook.echoes = 400, True
        template = Template(
            url=f"{hook.url}/prepare?key=abc-12345",
            headers=(("X-Api-Key", "k-987654321"), ("X-Event", "{event_id}")),
        )
        post = Post(template, {"event_id": "E1"}, usual="{}", clock=SystemClock())
        with pytest.raises(DeliveryError) as caught:
            post.send(seconds=5)
    assert "the answer was 400: said 400 /prepare?key=(secret)" in caught.value.message
    assert "'X-Api-Key', '(secret)'" in caught.value.message
