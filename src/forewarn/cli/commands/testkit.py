"""The commands of the test kit: what other servers and clients are held to."""

from forewarn.cli.command_table import JSON, Command, Option
from forewarn.protocol.versions import NEWEST, VERSIONS

CONFORM = Command(
    path=("conform",),
    summary="check any endpoint against the protocol",
    text="Ask the endpoint at URL as a VM would, clause by clause, and report what was "
    "expected and what was seen. A clause is kept, or broken, only by what was seen of "
    "it; otherwise it is not tried, and the report says what it needs. Nothing is "
    "approved unless --approve is given. The status is 1 if a clause is broken, or if "
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
            help="Approve events too: at a real platform this starts their impact.",
        ),
        Option(
            name="--watch",
            metavar="DURATION",
            default="0s",
            help="Go on reading the document for so long, once a second, judge each "
            "document and how they change, and try what needs an event when there is "
            "one. Ctrl-C ends the watch and makes the report. 0s if it is not given.",
        ),
        Option(
            name="--others-approve",
            is_flag=True,
            help="Others approve events meanwhile, such as an agent in this VM: what "
            "starts before its NotBefore is then no fault.",
        ),
        Option(
            name="--speed",
            metavar="NUMBER",
            default="1",
            help="What the endpoint divides its notices by, as `simulate --speed` "
            "does; 1 if it is not given.",
        ),
        Option(
            name="--evidence",
            is_flag=True,
            help="Show the requests and answers that each verdict rests on, with their "
            "times; JSON always has them.",
        ),
        Option(
            name="--report",
            metavar="FILE",
            help="Also write the report: as JSON if FILE ends in .json, else Markdown.",
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
    summary="watch an endpoint and keep what it answers",
    text="Poll the endpoint at URL as a VM would and write each different answer, and "
    "each failure, to FILE, until Ctrl-C or the end of --for. Nothing is ever approved. "
    "`forewarn simulate --replay FILE` serves the file again. The status is 3 if "
    "nobody ever answered.",
    run="forewarn.cli.record:record",
    options=(
        Option(
            name="-o",
            metavar="FILE",
            is_needed=True,
            help="Where to write, as JSON Lines; - is standard output. A file that is "
            "there and not empty is left alone.",
        ),
        Option(
            name="--endpoint",
            metavar="URL",
            help="The endpoint; else FOREWARN_ENDPOINT, else http://169.254.169.254.",
        ),
        Option(
            name="--pseudonyms",
            is_flag=True,
            help="Replace names of VMs, ids of events and all else that could name "
            "anybody, before it is written.",
        ),
        Option(
            name="--poll",
            metavar="DURATION",
            default="1s",
            help="How often to ask; 1s if it is not given.",
        ),
        Option(
            name="--for",
            metavar="DURATION",
            help="How long to record; else until Ctrl-C.",
        ),
        Option(
            name="--version",
            choices=tuple(version.name for version in VERSIONS),
            default=NEWEST.name,
            help=f"The api-version to ask with; {NEWEST.name} if it is not given.",
        ),
        Option(
            name="--timeout",
            metavar="DURATION",
            default="10s",
            help="How long to wait for an answer; the first one has 130s at least. 10s "
            "if it is not given.",
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
    summary="worlds for tests in any language, by JSON Lines",
    text="Each line on standard input orders something of a simulated world: VMs with "
    "addresses of their own, maintenance, waits and assertions. Each line on standard "
    "output is the answer. The end of the input ends it, with "
    "status 1 where a world that was open then has not seen what it expects of clients. "
    "The page 'Test kit channel' has the verbs.",
    run="forewarn.cli.testkit:testkit",
    examples=("forewarn testkit",),
)

TESTKIT = (CONFORM, RECORD, CHANNEL)
