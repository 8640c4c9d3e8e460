"""Recording files: round trips, and problems with their line."""

import json

import hypothesis
import hypothesis.strategies as st
import pytest

from forewarn.sim import recording
from forewarn.sim.recording import (
    Answer,
    Failed,
    Failure,
    Header,
    Moment,
    Outcome,
    RecordingError,
    Writer,
    read_recording,
)

HEADER = Header(
    api_version="2020-07-01",
    started=1_900_000_000_000_000,
    poll=1_000_000,
    endpoint="http://169.254.169.254",
    vm="web_0",
    tool="forewarn 1.0",
)
FIRST = Writer().header(HEADER)
ANSWER = '{"at":5,"answer":1,"status":200,"headers":[["ETag","\\"1\\""]],"text":"{}"}\n'


def read(*lines: str) -> recording.Recording:
    return read_recording("".join(lines).encode(), name="night.jsonl")


outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Failed, failure=st.sampled_from(Failure), detail=st.text(max_size=20)),
    st.builds(
        Answer,
        status=st.integers(200, 599),
        reason=st.sampled_from(["", "Nope"]),
        headers=st.lists(
            st.tuples(
                st.sampled_from(["ETag", "server", "Retry-After"]),
                st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=9),
            ),
            max_size=3,
        ).map(tuple),
        body=st.one_of(
            st.binary(max_size=30), st.sampled_from([b'{"Events":[]}', b"a\nb", b"{"])
        ),
    ),
)


@hypothesis.given(st.lists(st.tuples(st.integers(0, 9_999), outcomes), min_size=1))
def test_written_recording_reads_back_equal(steps: list[tuple[int, Outcome]]) -> None:
    writer, at, moments = Writer(), 0, list[Moment]()
    lines = [writer.header(HEADER)]
    for passed, outcome in steps:
        at += passed
        moments.append(Moment(at=at, outcome=outcome, took=passed))
        lines += [writer.moment(moments[-1]), writer.same(at, 3)]
    lines.append(writer.end(at + 7, "interrupted"))

    parsed = read(*lines)

    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    assert parsed.header == HEADER
    assert parsed.moments == tuple(moments)
    assert parsed.polls == 4 * len(steps)
    assert parsed.length == at + 7
    assert parsed.ended == "interrupted"
    assert not parsed.is_torn


def test_repeated_answer_is_written_as_a_reference() -> None:
    writer = Writer()
    answer = Answer(status=200, headers=(), body=b"x" * 1_000)
    down = Failed(failure=Failure.REFUSED)
    lines = [
        writer.moment(Moment(at=at, outcome=outcome))
        for at, outcome in enumerate([answer, down, answer])
    ]
    assert json.loads(lines[-1]) == {"at": 2, "again": 1}


def test_incomplete_last_line_is_ignored() -> None:
    whole = read(FIRST, ANSWER)
    assert not whole.is_torn
    for cut in range(1, len(ANSWER) - 2):
        torn = read(FIRST, ANSWER, ANSWER[:cut])
        assert torn.is_torn
        assert torn.moments == whole.moments


def test_answer_is_served_as_recorded() -> None:
    answer = Answer(
        status=503,
        reason="Busy",
        headers=(("server", "x"), ("Content-Length", "99"), ("Retry-After", "3")),
        body=b"later",
    )
    assert answer.response().payload == (
        b"HTTP/1.1 503 Busy\r\nserver: x\r\nContent-Length: 5\r\nRetry-After: 3\r\n\r\n"
        b"later"
    )
    chunked = Answer(status=200, headers=(), body=b"{}")
    assert b"Content-Length: 2\r\n" in chunked.response().payload
    nothing = Answer(status=204, headers=(), body=b"")
    assert b"Length" not in nothing.response().payload


WRONG = {
    "1: the file is empty": [""],
    "1: it is not JSON": ["hello\n"],
    "1: this is not a recording: format is not 'forewarn recording'": ['{"a":1}\n'],
    "1: format_version: 2 is not supported, only 1": [
        FIRST.replace('format_version":1', 'format_version":2')
    ],
    '1: api_version: "2020-13-01" is unknown': [
        FIRST.replace("2020-07-01", "2020-13-01")
    ],
    "1: api_version: it is missing, and must be a string": [
        FIRST.replace("api_version", "version")
    ],
    "1: started, poll: 'yesterday' is not a time such as 2026-11-21T10:00:00Z": [
        FIRST.replace("2030-03-17T17:46:40Z", "yesterday")
    ],
    "1: no answer and no failure was recorded": [FIRST],
    "2: it is not JSON": [FIRST, "{\n", ANSWER],
    "2: it is not a JSON object": [FIRST, "[]\n", ANSWER],
    "2: at: it is missing, and must be a whole number": [FIRST, '{"same":1}\n'],
    "2: at: it must be a whole number": [FIRST, '{"at":-1,"same":1}\n'],
    "2: at: it must be at most ten years": [FIRST, f'{{"at":{10**18}}}\n'],
    "2: same: there is no earlier outcome": [
        FIRST,
        '{"at":1,"same":1}\n',
    ],
    "3: at: 4 is before the line above, which has 5": [
        FIRST,
        ANSWER,
        '{"at":4,"same":1}\n',
    ],
    "3: again: there is no answer 2 above": [FIRST, ANSWER, '{"at":9,"again":2}\n'],
    '2: failure: "tired" is not one of refused, unreachable, reset, timeout, strange': [
        FIRST,
        '{"at":9,"failure":"tired"}\n',
    ],
    "2: status, again, failure, same or end is missing": [FIRST, '{"at":9}\n'],
    "2: status: 100 is not from 200 to 599": [FIRST, ANSWER.replace("200", "100")],
    "2: headers: it must be a list": [FIRST, ANSWER.replace("headers", "heads")],
    "2: headers: an entry is not a valid header name and value": [
        FIRST,
        ANSWER.replace("ETag", "E Tag"),
    ],
    "2: text: it is missing, and must be a string": [
        FIRST,
        ANSWER.replace("text", "t"),
    ],
    "2: base64: it cannot be decoded": [FIRST, ANSWER.replace("text", "base64")],
    "2: text: it has half of a surrogate pair; use base64": [
        FIRST,
        ANSWER.replace("{}", "\\ud800"),
    ],
    "4: there is a line after the end": [
        FIRST,
        ANSWER,
        '{"at":9,"end":"enough"}\n',
        ANSWER,
    ],
}


@pytest.mark.parametrize("sentence", WRONG)
def test_problem_is_reported_with_its_line(sentence: str) -> None:
    with pytest.raises(RecordingError) as error:
        read(*WRONG[sentence])
    assert error.value.message == f"night.jsonl:{sentence}"
    assert error.value.hint
