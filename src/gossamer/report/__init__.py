"""The HTML report of a run: what was promised, in plain words and in symbols, and what it rests on."""

from gossamer.report.page import render
from gossamer.report.writing import write_report

__all__ = ["render", "write_report"]
