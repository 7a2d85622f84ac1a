"""What the edits of a playbook make of a configuration, by the runner's own hand."""

from services.tool_runner.tools.yaml_keys import set_keys
from shared.contracts.tools import EditFiles
from shared.contracts.transcript import Call


def edited(text: str, *calls: Call) -> str:
    """The text of config.yaml after those of the calls that are edits."""
    for call in calls:
        if call.name == EditFiles.tool:
            text = set_keys("config.yaml", text, EditFiles.model_validate(call.arguments).set)
    return text
