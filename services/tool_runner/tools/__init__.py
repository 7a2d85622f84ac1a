"""The tools that a core calls: `run_tool` and what the runner has to provide for it."""

from services.tool_runner.paths import Roots
from services.tool_runner.tools.context import Execute, Executed
from services.tool_runner.tools.dispatch import run_tool

__all__ = ["Execute", "Executed", "Roots", "run_tool"]
