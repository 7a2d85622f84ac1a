"""The command stands on the gateway, never the other way."""

from pathlib import Path

from services import gateway


def test_the_gateway_knows_nothing_of_the_command() -> None:
    files = list(Path(gateway.__file__).parent.rglob("*.py"))
    assert len(files) > 30
    assert [file.name for file in files if "services.command" in file.read_text()] == []
