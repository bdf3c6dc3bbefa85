"""A run as JUnit XML: a test case for each condition of `--fail-on` and for each figure of `--baseline`.

    <testsuites tests="2" failures="1" errors="0" skipped="0">
      <testsuite name="v2_shared_memory on sm_89" tests="2" failures="1" errors="0" skipped="0">
        <properties><property name="cycles" value="778"/>...</properties>
        <testcase classname="gpuemu.v2_shared_memory" name="--fail-on excess_wavefronts&gt;0">
          <failure type="excess_wavefronts" message="--fail-on excess_wavefronts&gt;0: excess_wavefronts is 12"/>

A run without conditions has one case, `runs`. The file has no times, so that equal runs give equal files. The emulated
cycles are among the properties.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from gpuemu.views.baseline import FIGURES
from gpuemu.views.verdict import Verdict

_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow."""


def as_junit(kernel: str, arch: str, values: Mapping[str, int], verdicts: Sequence[Verdict], text: str) -> str:
    """The file. `values` are the metrics of the run, and `text` is the log of the test."""
    failures = sum(verdict.failed for verdict in verdicts)
    counts = {
        "tests": str(len(verdicts) or 1), "failures": str(failures), "errors": "0", "skipped": "0",
    }  # fmt: skip
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"{kernel} on {arch}", **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for name in FIGURES:
        if name in values:
            ElementTree.SubElement(properties, "property", {"name": name, "value": str(values[name])})
    for name in [verdict.asked for verdict in verdicts] or ["runs"]:
        ElementTree.SubElement(suite, "testcase", {"classname": f"gpuemu.{kernel}", "name": name})
    for case, verdict in zip(suite.iter("testcase"), verdicts, strict=False):
        if verdict.failed:
            told = {"type": verdict.figure, "message": verdict.sentence}
            ElementTree.SubElement(case, "failure", told).text = verdict.sentence
    ElementTree.SubElement(suite, "system-out").text = _NO_XML.sub("?", text)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
