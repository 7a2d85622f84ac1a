"""What is on record of a request to a language model outside of the hospital."""

from datetime import datetime

from pydantic import Field

from shared.contracts.base import AgentName, Contract, RunId


class Disclosed(Contract):
    """Told before the request is made, so that one that failed is on record, too. Beside what it counts there left
    only the role's prompt and its tools, which are the same in every run."""

    run_id: RunId
    role: AgentName
    turn: int = Field(ge=1)
    """That it asks for; asked again after a failure it is another request of the same turn."""
    at: datetime
    core: str
    sha256: str
    """Of brief and dialogue as they left, in JSON; `shared.disclosure.again` makes them again from the transcript."""
    size: int
    """Bytes of them."""
    hidden: dict[str, int] = {}
    """Rule -> places where it put a surrogate: word, mixed, digits, date, uid; `prose` counts words of sentences among
    them."""
    surrogates: int = 0
    """Different ones so far in this conversation."""
    pictures: int = 0
    """In the dialogue; the text names each with its SHA-256."""
    blind: str = ""
    """Why none were shown, where they were not."""
