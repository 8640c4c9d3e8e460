"""The results of scenarios as JUnit XML, which every build server reads.

A scenario is a test suite, an expectation or a refused step a test case. One
without either is a case that passes by coming to its end.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from forewarn.instants import SECOND, Micros
from forewarn.sim.scenario.run import Finding, Result

_RAN = Finding(line=0, what="runs to its end", passed=True, sentence="")
"""The case of a scenario that expects nothing."""


def report(results: Sequence[Result]) -> str:
    """Return the report, as text that is written as UTF-8."""
    root = ET.Element("testsuites", name="forewarn simulate")
    _count(root, [_cases(result) for result in results])
    root.set("time", _seconds(sum(result.took for result in results)))
    for result in results:
        _suite(root, result)
    ET.indent(root)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, result: Result) -> None:
    name = result.scenario.name
    suite = ET.SubElement(root, "testsuite", name=name)
    cases = _cases(result)
    _count(suite, [cases])
    suite.set("time", _seconds(result.took))
    for finding in cases:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=name,
            # Who compares runs needs names that stay and are not used twice.
            name=f"{finding.what} (line {finding.line})"
            if finding.line
            else finding.what,
            file=result.scenario.file,
            line=str(finding.line),
            time=_seconds(finding.took),
        )
        sentence = _printable(finding.sentence)
        if finding.passed:
            if sentence:
                ET.SubElement(case, "system-out").text = sentence
            continue
        kind = "error" if finding.is_refusal else "failure"
        what = ET.SubElement(case, kind, message=sentence)
        what.text = f"{result.scenario.file}:{finding.line}: {sentence}"


def _cases(result: Result) -> Sequence[Finding]:
    return result.findings or (_RAN,)


def _count(element: ET.Element, suites: Sequence[Sequence[Finding]]) -> None:
    cases = [finding for suite in suites for finding in suite]
    bad = [finding for finding in cases if not finding.passed]
    errors = sum(finding.is_refusal for finding in bad)
    element.set("tests", str(len(cases)))
    element.set("failures", str(len(bad) - errors))
    element.set("errors", str(errors))


def _seconds(duration: Micros) -> str:
    return f"{duration / SECOND:.3f}"


def _printable(text: str) -> str:
    """Return the text without what XML has no way to write."""
    return "".join(each if each.isprintable() else " " for each in text)
