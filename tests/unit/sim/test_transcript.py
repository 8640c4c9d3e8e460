"""The form of transcripts: blocks, comments and problems."""

import pytest

from tests.support.transcripts.form import Block, TranscriptError, clauses, replay

TEXT = """\
# Two commands.
# clauses: 1.1, 2.10

one
two
----
told before

# A comment between the blocks.

three
----
"""


def echo(block: Block) -> str:
    return "\n".join(f"{command} at {block.line}" for command in block.commands)


def test_replay_replaces_only_the_outputs() -> None:
    assert (
        replay(TEXT, echo, name="t")
        == """\
# Two commands.
# clauses: 1.1, 2.10

one
two
----
one at 4
two at 4

# A comment between the blocks.

three
----
three at 11
"""
    )


def test_replaying_a_transcript_again_changes_nothing() -> None:
    def again(block: Block) -> str:
        return block.commands[0]

    once = replay(TEXT, again, name="t")

    assert replay(once, again, name="t") == once


def test_command_without_output_prints_ok() -> None:
    assert replay("quiet\n----\n", lambda _block: "", name="t") == "quiet\n----\nok\n"


def test_clauses_of_a_transcript_are_listed() -> None:
    assert clauses(TEXT) == ("1.1", "2.10")


@pytest.mark.parametrize("text", ["one\n", "one\n\n----\n"])
def test_a_block_without_separator_is_refused(text: str) -> None:
    with pytest.raises(TranscriptError, match=r"^t:1: ---- is missing$"):
        replay(text, echo, name="t")


def test_error_in_a_block_gets_its_position() -> None:
    def fail(_block: Block) -> str:
        raise TranscriptError("no such command")

    with pytest.raises(TranscriptError, match=r"^t:4: no such command$"):
        replay(TEXT, fail, name="t")
