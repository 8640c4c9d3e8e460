"""The commands of the test kit: checks, recordings and worlds for tests."""

from forewarn.cli.command_table import JSON, Command, Option
from forewarn.protocol.versions import NEWEST, VERSIONS

CONFORM = Command(
    path=("conform",),
    summary="check any endpoint against the protocol",
    text="Send requests to the endpoint at URL as a VM does, and report for each "
    "clause what was expected and what was seen. A check passes or fails only if the "
    "answers show it. Otherwise it is not tried, and the report says what it needs. "
    "Without --approve, no event is approved. The status is 1 if a check failed, or if "
    "no document was seen.",
    run="forewarn.cli.conform:conform",
    options=(
        Option(
            name="endpoint",
            metavar="URL",
            help="The endpoint, such as http://169.254.169.254.",
        ),
        Option(
            name="--approve",
            is_flag=True,
            help="Approve events too. On a real platform, this starts their impact.",
        ),
        Option(
            name="--watch",
            metavar="DURATION",
            default="0s",
            help="After the checks, read the document once a second for this long, "
            "judge the documents and their changes, and run checks that need an event "
            "when there is one. Ctrl-C ends the watch and prints the report. Default: "
            "0s.",
        ),
        Option(
            name="--others-approve",
            is_flag=True,
            help="Other clients approve events meanwhile, such as an agent in this VM. "
            "An event that starts before its NotBefore is then not a failure.",
        ),
        Option(
            name="--speed",
            metavar="NUMBER",
            default="1",
            help="Factor by which the endpoint shortens its notices, as with `simulate "
            "--speed`. Default: 1.",
        ),
        Option(
            name="--evidence",
            is_flag=True,
            help="Show the requests and answers behind each verdict, with their times. "
            "JSON always has them.",
        ),
        Option(
            name="--report",
            metavar="FILE",
            help="Also write the report to FILE: as JSON if it ends in .json, else as "
            "Markdown.",
        ),
        JSON,
    ),
    examples=(
        "forewarn conform http://127.0.0.1:8301",
        "forewarn conform http://127.0.0.1:8301 --approve --watch 30s --report r.md",
        "forewarn conform http://169.254.169.254 --watch 20m --others-approve",
    ),
)

RECORD = Command(
    path=("record",),
    summary="poll an endpoint and record its answers",
    text="Poll the endpoint as a VM does, and write each new answer and each failure "
    "to FILE, until Ctrl-C or the end of --for. No event is approved. `forewarn "
    "simulate --replay FILE` replays the recording. The status is 3 if the endpoint "
    "never answered.",
    run="forewarn.cli.record:record",
    options=(
        Option(
            name="-o",
            metavar="FILE",
            is_needed=True,
            help="File for the recording, as JSON Lines; - for standard output. A file "
            "that is not empty is never overwritten.",
        ),
        Option(
            name="--endpoint",
            metavar="URL",
            help="The endpoint. Default: FOREWARN_ENDPOINT, or http://169.254.169.254.",
        ),
        Option(
            name="--pseudonyms",
            is_flag=True,
            help="Replace names of VMs, IDs of events and all other identifying values "
            "in the recording.",
        ),
        Option(
            name="--poll",
            metavar="DURATION",
            default="1s",
            help="Interval between two polls. Default: 1s.",
        ),
        Option(
            name="--for",
            metavar="DURATION",
            help="Length of the recording. Default: until Ctrl-C.",
        ),
        Option(
            name="--version",
            choices=tuple(version.name for version in VERSIONS),
            default=NEWEST.name,
            help=f"The api-version of the requests. Default: {NEWEST.name}.",
        ),
        Option(
            name="--timeout",
            metavar="DURATION",
            default="10s",
            help="Timeout of an answer; at least 130s until the first answer. Default: "
            "10s.",
        ),
    ),
    examples=(
        "forewarn record -o maintenance.jsonl",
        "forewarn record -o night.jsonl --for 12h --pseudonyms",
        "forewarn record --endpoint http://127.0.0.1:8301 -o - --poll 250ms",
    ),
)

CHANNEL = Command(
    path=("testkit",),
    summary="provide worlds for tests in any language, through JSON Lines",
    text="Each line on standard input is a request to a simulated world: for VMs with "
    "addresses, maintenance, waits or assertions. Each line on standard output is the "
    "answer. The program ends with its input. The status is 1 if clients have not met "
    "the expectations of a world that was still open. The page 'Test kit channel' lists "
    "the verbs.",
    run="forewarn.cli.testkit:testkit",
    examples=("forewarn testkit",),
)

TESTKIT = (CONFORM, RECORD, CHANNEL)
