"""The results of scenarios as JUnit XML, which build servers can read.

A scenario is a test suite. An expectation, a demand on a client, or a refused step is a
test case. A scenario without test cases passes if a client asked. A check that could not
run is an error, and a check that was not judged is skipped.
"""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence

from forewarn.instants import SECOND, Micros
from forewarn.sim.scenario.judging import NO_CLIENT
from forewarn.sim.scenario.model import Finding, Outcome, Scenario
from forewarn.sim.scenario.run import Result, cut_result

_RAN = Finding(line=0, what=NO_CLIENT, outcome=Outcome.PASSED, sentence="")
"""The test case of a scenario without findings."""


def report(results: Sequence[Result]) -> str:
    """Return the report as text, to be written as UTF-8."""
    root = ET.Element("testsuites", name="forewarn simulate")
    _count(root, [finding for result in results for finding in _cases(result)])
    root.set("time", _seconds(sum(result.took for result in results)))
    for result in results:
        _suite(root, result)
    ET.indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + ET.tostring(root, encoding="unicode") + "\n"


def unfinished(names: Sequence[str], why: str) -> str:
    """Return a report in which each scenario has an error instead of a result."""
    return report(
        [
            cut_result(Scenario(name=name, file="", description="", steps=()), why)
            for name in names
        ]
    )


def _suite(root: ET.Element, result: Result) -> None:
    name = result.scenario.name
    suite = ET.SubElement(root, "testsuite", name=name)
    cases = _cases(result)
    _count(suite, cases)
    suite.set("time", _seconds(result.took))
    for finding in cases:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=name,
            # Comparisons of runs need stable and unique names.
            name=f"{finding.what} (line {finding.line})"
            if finding.line
            else finding.what,
            file=result.scenario.file,
            line=str(finding.line),
            time=_seconds(finding.took),
        )
        sentence = _printable(finding.sentence)
        match finding.outcome:
            case Outcome.PASSED:
                if sentence:
                    ET.SubElement(case, "system-out").text = sentence
            case Outcome.SKIPPED:
                ET.SubElement(case, "skipped", message=sentence)
            case Outcome.FAILED | Outcome.ERROR as outcome:
                kind = "error" if outcome is Outcome.ERROR else "failure"
                element = ET.SubElement(case, kind, message=sentence)
                place = f"{result.scenario.file}:{finding.line}: " * bool(finding.line)
                element.text = place + sentence


def _cases(result: Result) -> Sequence[Finding]:
    return result.findings or (_RAN,)


def _count(element: ET.Element, cases: Sequence[Finding]) -> None:
    counts = Counter(finding.outcome for finding in cases)
    element.set("tests", str(len(cases)))
    element.set("failures", str(counts[Outcome.FAILED]))
    element.set("errors", str(counts[Outcome.ERROR]))
    element.set("skipped", str(counts[Outcome.SKIPPED]))


def _seconds(duration: Micros) -> str:
    return f"{duration / SECOND:.3f}"


def _printable(text: str) -> str:
    """Return the text without characters that XML cannot contain."""
    return "".join(character if character.isprintable() else " " for character in text)
