"""The error tree. Each leaf tells a caller something different to do.

M3Error
├── UserError            the person can mend it; the message says how (HTTP 4xx, exit code 2)
│   ├── NotFound         no such run, dataset or artifact (HTTP 404)
│   └── GateFailed       the run cannot pass the gate named in it, and ends as failed_gate
│       └── DataUnusable the dataset cannot be had as it was given
├── ToolRefused          the core can mend it; the text goes back as the tool's result
├── ToolBroken           we have to mend it (disk full, GPU gone); ends the role's work
├── Unavailable          a server does not answer just now; whoever handles a message keeps it and tries again
├── Conflict             the run moved on since it was folded; fold again
├── StaleTranscript      another replica holds this role's work; stop quietly
├── HandedBack           this process is told to end; another one goes on with the message
├── ReplayMismatch       a core did not repeat the turns that are on record
├── ServerUnfit          a server lacks something we rely on; the message names it
└── PermissionDenied     the bus refused a subject to this service
"""


class M3Error(Exception):
    """Root of all errors that this project raises on purpose."""


class UserError(M3Error):
    """The person's input cannot work; the message says what to do instead."""


class NotFound(UserError):
    """What was named does not exist."""


class GateFailed(UserError):
    """The run cannot pass `gate`; the message says why and what to do."""

    def __init__(self, text: str, gate: str) -> None:
        super().__init__(text)
        self.gate = gate


class DataUnusable(GateFailed):
    """The run's dataset cannot be unpacked or reached."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "dataset_available")


class ToolRefused(M3Error):
    """The call cannot be carried out as asked; the text says what the core can do about it."""


class ToolBroken(M3Error):
    """The runner cannot work; nothing that the core writes will help."""


class Unavailable(M3Error):
    """A server that we need does not answer. Nothing is lost: the same will work once it is back."""


class Conflict(M3Error):
    """An append lost the race for the head of a run or transcript."""


class StaleTranscript(Conflict):
    """Another replica of the role has written the next turn."""


class HandedBack(M3Error):
    """The process was told to end in the middle of this; what was done so far is stored."""


class PlaybookBroken(UserError):
    """A defect of a role's playbook; the message names the role and the place. Trying again would not help."""


class ReplayMismatch(M3Error):
    """The recorded turns are not those that this core produces."""


class ServerUnfit(M3Error):
    """A server does not honour a property that correctness rests on."""


class PermissionDenied(M3Error):
    """The bus refused the subject to this service's user."""
