"""Messages about invalid stories, and guarantees of valid ones."""

from pathlib import Path

import pytest

from forewarn.sim import fleets
from forewarn.sim.engine import START
from tests.support.transcripts import fleet_lines, moments
from tests.support.transcripts.commands import play
from tests.support.transcripts.form import TranscriptError
from tests.support.transcripts.names import Names
from tests.support.transcripts.story import Story

FLEET = """\
fleet
+ host h1
+ vm web_0 host=h1
----

"""


def played(commands: str) -> str:
    """Return the output of the last block."""
    text = f"{FLEET}{commands}\n----\n"
    return play(text, name="story").rpartition("----\n")[2].rstrip("\n")


def test_ids_are_named_in_order_of_appearance() -> None:
    names = Names()
    event = "D4713D60-C8A7-4639-AB11-67B367A9C378"

    assert names.meet("op-0123456789") == "op1"
    assert names.meet(event) == "e1"
    assert names.meet("op-abcdefghjk") == "op2"
    assert names.said(f"op-0123456789 and {event}, not op-zzzzzzzzzz") == (
        "op1 and e1, not op-zzzzzzzzzz"
    )
    assert names.meant("e1") == event
    assert names.meant("web_0") == "web_0"


@pytest.mark.parametrize(
    "text", ["00:00:00", "00:15:00.5", "23:59:59.000001", "7d 00:00:00"]
)
def test_moment_text_round_trips(text: str) -> None:
    assert moments.told(moments.meant(text, now=START)) == text


def test_moment_can_be_relative_to_now() -> None:
    assert moments.told(moments.meant("+15m", now=START)) == "00:15:00"
    with pytest.raises(ValueError, match="not a time of the story"):
        moments.meant("soon", now=START)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("dance", "there is no command dance"),
        ("reboot", "takes another number of arguments"),
        ("reboot web_0 --fast", "has no option --fast"),
        ("run soon", "is not a duration"),
        ("run until 00:00:00 now", "is not a time of the story"),
        (
            "maintain h1 --impact dance",
            "say freeze or live-migrate or reboot or redeploy",
        ),
        ("maintain h1 --impact", "--impact needs a value"),
        ("crash at home", "a crash is at one of committed, published, called"),
        ("fault dance", "is not a valid FaultKind"),
        ("resolve op1 perhaps", "say done or failed"),
        ("policy recovery=5m", "settings stand at the beginning"),
        ("fleet nowhere", "there is no directory of fleets"),
        ('reboot "web_0', "No closing quotation"),
        ("fleet\n* vm web_0", "not a line of a fleet"),
        ("fleet\n+ vm web_0", "there is already a vm web_0"),
        ("fleet\n- vm web_1", "there is no vm web_1"),
        ("fleet\n~ vm web_0 host", "is not key=value"),
        ("fleet\n[[vm]", "this is not TOML"),
        ("crash\nget web_0", "the service is down"),
    ],
)
def test_mistake_in_a_story_is_reported_with_its_line(command: str, told: str) -> None:
    with pytest.raises(TranscriptError, match=r"^story:6: ") as caught:
        played(command)

    assert told in caught.value.message


def test_unknown_setting_is_a_mistake() -> None:
    with pytest.raises(TranscriptError, match="there is no one setting haste"):
        play("policy haste=1\n----\n", name="story")


def test_missing_fleet_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="there is no fleet none"):
        play("fleet none\n----\n", name="story", directory=tmp_path)


def test_refusal_is_shown_in_the_story() -> None:
    assert played("reboot web_9").startswith("refused: there is no VM 'web_9'")


def test_a_fleet_can_be_written_as_toml() -> None:
    text = 'fleet\n[[host]]\nname = "h1"\n----\n'

    assert play(text, name="story").endswith("+ host h1\n")


def test_short_fleet_lines_are_converted_to_a_fleet_file() -> None:
    tables = fleet_lines.edit({}, "+ vm web_0 host=h1 spot=true tags='{role=\"web\"}'")
    tables = fleet_lines.edit(tables, "~ vm web_0 address='[\"192.0.2.4\"]' spot=")

    assert fleets.write(tables) == (
        '[[vm]]\nname = "web_0"\nhost = "h1"\ntags = {role = "web"}\n'
        'address = ["192.0.2.4"]\n'
    )


def test_history_of_any_subject_can_be_shown() -> None:
    assert played("reboot web_0\nhistory e1").splitlines()[-1] == (
        "00:00:00 operator, event started"
    )


def test_audience_detects_a_document_with_two_contents() -> None:
    story = Story()
    story.apply_fleet(
        fleet_lines.edit(fleet_lines.edit({}, "+ host h1"), "+ vm a host=h1")
    )
    story.audience.join("a")
    story.audience.ask(story.world)
    known = story.audience.known("a")
    known.bodies[known.incarnation] = b"something else"

    with pytest.raises(AssertionError, match="a has two documents 1"):
        story.audience.ask(story.world)
