"""MLAgentBench's ResearchAgent on an exported task: its benchmark folder, its start, its log.

Where it is installed, M3_MLAGENTBENCH names its Python. It calls models by functions that the library `openai` has no
more, and chats with `gpt-4...` only; so its one call is sent to the endpoint. Its prompts, actions and limits stay. It
was run from a rebuild of its source without retrieval, summaries and LangChain, not from an installation.
"""

import json
import re
import shutil
from pathlib import Path

from m3bench.results import Part

TASK = "exported"
READ_ONLY = ("data/*", "templates/*", "library/*")
"""What it need not copy at each step."""
REMARK = (
    "What you run are Python scripts that you write; from them, run other programs by the module `subprocess`. They "
    "run in this folder."
)
START = """
import os, runpy
from types import SimpleNamespace
import anthropic, openai
for name, word in (("HUMAN_PROMPT", "Human"), ("AI_PROMPT", "Assistant")):
    vars(anthropic).setdefault(name, f"\\n\\n{word}:")
from MLAgentBench import environment, prepare_task

client = openai.OpenAI()
def create(**asked):
    return client.chat.completions.create(**{**asked, "model": os.environ["M3_MODEL"]}).model_dump()
openai.ChatCompletion = SimpleNamespace(create=create)
# It looks for benchmarks beside its own files.
here = os.path.dirname(os.path.abspath(__file__))
environment.__file__ = os.path.join(here, "environment.py")
prepare_task.benchmarks_dir = os.path.join(here, "benchmarks")
runpy.run_module("MLAgentBench.runner", run_name="__main__", alter_sys=True)
"""


def lay_out(folder: Path, own: Path) -> None:
    """Write the exported task as a benchmark of it, and what starts it, to `own`."""
    (own / "start.py").write_text(START, encoding="utf-8")
    benchmark = own / "benchmarks" / TASK
    shutil.copytree(folder, benchmark / "env")
    (own / "benchmarks" / "tasks.json").write_text("{}\n", encoding="utf-8")
    scripts = benchmark / "scripts"
    scripts.mkdir()
    shutil.copy(folder / "PROMPT.md", scripts / "research_problem.txt")
    (scripts / "read_only_files.txt").write_text("\n".join(READ_ONLY), encoding="utf-8")


def spent(log: Path) -> Part | None:
    """Steps are actions; tokens are its own count of what it sent and got, by a tokenizer of its choice."""
    try:
        steps = json.loads((log / "env_log" / "trace.json").read_text(encoding="utf-8"))["steps"]
        seen = [str(step["observation"]) for step in steps]
        agent = [path.read_text(encoding="utf-8") for path in log.glob("agent_log/step_*_log.log*")]
        tools = [path.read_text(encoding="utf-8") for path in log.glob("env_log/tool_logs/*.log*")]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    failed = sum(bool(re.match(r"\w*Error: |Invalid action|The action input", one) or TRACE in one) for one in seen)
    turns = sum(len(re.findall(COUNTED.format("prompt"), one)) for one in agent)
    tokens = sum(int(one) for text in agent + tools for one in re.findall(COUNTED.format("(?:prompt|sampled)"), text))
    return Part(done=True, turns=turns, actions=len(steps), iterations=1 + failed, tokens=tokens, estimated=True)


TRACE = "Traceback (most recent call last)"
COUNTED = r"(?m)^Number of {} tokens: (\d+)$"
