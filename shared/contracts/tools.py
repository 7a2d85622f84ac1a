"""Tools: one argument model each. Its docstring is what a core reads; its fields are the schema.

The eight of the paper keep their names (appendix 0.A.3). Paths are virtual and mean the same on every runner:
`/workspace/...` (or relative) is the role's own folder and the only writable one, `/data/...` the dataset or the
training view, read-only, `/templates/...` the training templates, read-only.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from shared.contracts.base import Contract, Ref, RunId, Service, TaskKind, Token, ToolArgs
from shared.contracts.runs import DataCard
from shared.contracts.starting import STARTERS, Repackage, StartTraining, TryConfigs

ToolClass = Literal["data", "build", "train", "intake"]
"""`intake` is what runners ask of each other: batches of an intake job. Every runner of `data` serves it, too."""

MAX_RESULT_CHARS = 12_000
"""Head and tail of a longer output are kept; the whole goes to the store."""
MAX_FILE_CHARS, MAX_READ_CHARS = 15_000, 30_000
"""The same of a file that is read, and of all files of one call: several programs of a template fit, each whole."""

MAX_PICTURE_BYTES = 48_000
"""Of one picture in a result: three of them in base64 leave room for texts in a message."""


class ListFiles(ToolArgs):
    """List code, configuration and table files below a folder, with sizes, so that you know what can be read.

    Folders with more than 1,000 files are named with their count and not entered. Use preview_dirs for image data.
    """

    tool = "list_files"
    path: str = "/workspace"


class ReadFiles(ToolArgs):
    """Read one or more text files whole, with line numbers off. Long files come as head and tail: narrow with lines."""

    tool = "read_files"
    paths: tuple[str, ...] = Field(min_length=1, max_length=20)
    first_line: int = Field(default=1, ge=1)
    last_line: int | None = Field(default=None, ge=1)


class CopyFiles(ToolArgs):
    """Copy a file or a folder (for instance a template) into the workspace. Refuses to overwrite a file with other
    content unless `overwrite` is set."""

    tool = "copy_files"
    reads_only = False
    source: str
    destination: str
    overwrite: bool = False


class WriteFiles(ToolArgs):
    """Create files with the given text. Python, JSON, YAML and shell are parsed first; what does not parse is refused.

    Refuses to overwrite a file with other content unless `overwrite` is set; `diff` shows what that changed.
    """

    tool = "write_files"
    reads_only = False
    files: dict[str, str] = Field(min_length=1)
    """Path -> text."""
    overwrite: bool = False
    diff: bool = False


class EditFiles(ToolArgs):
    """In one file, replace `old` by `new`, or in YAML `set` keys, all in one call, with comments kept.

    `old` must occur exactly once; on a miss you are told the nearest lines. `set` is dotted key -> value, such as
    {"training.learning_rate": 0.003}. The answer is a line, with `diff` the diff.
    """

    tool = "edit_files"
    reads_only = False
    path: str
    old: str = ""
    new: str | None = None
    set: dict[str, JsonValue] = {}
    diff: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.set and (self.old or self.new is not None)) or not (self.set or (self.old and self.new is not None)):
            raise ValueError("give old and new, or set")
        return self


class RunScript(ToolArgs):
    """Run a command, or the text of a Python script, in the sandbox with the workspace as current folder.

    No network. Environment: M3_WORKSPACE, M3_DATA, M3_TEMPLATES give the folders as paths. Give `command` or `script`.
    Nothing here may take more than ten minutes; a training is a job of the Model Trainer's.
    """

    tool = "run_script"
    reads_only = False
    command: str | None = None
    """A bash command line, run with pipefail."""
    script: str | None = None
    """Python source; kept as `save_as` in the workspace when that is given."""
    save_as: str | None = None
    args: tuple[str, ...] = ()
    seconds: float = Field(default=300, gt=0, le=600)


class PreviewDirs(ToolArgs):
    """Show the shape of a folder tree: for each level the number of folders and files, suffixes and examples.

    Counts every file, up to three million, and says what was passed over. A few images are opened: size, type, spacing,
    orientation, values.
    """

    tool = "preview_dirs"
    path: str = "/data"


class PreviewFiles(ToolArgs):
    """Summarise files: columns, kinds, distinct values and first rows of tables (CSV, Excel, JSON, XML); header and
    values of images in any format that is read; the beginning of other texts.
    """

    tool = "preview_files"
    paths: tuple[str, ...] = Field(min_length=1, max_length=20)
    rows: int = Field(default=5, ge=1, le=100)


class ProposeRules(ToolArgs):
    """Search for the rules by which this dataset's cases are found. Answers with the best few, each as YAML with what
    it explains: cases, patients, classes, files left out and why. Nothing is written: save the one you take as
    dataset.yaml, changed where it has to be: of few cases, much that is your own keeps the score from being useful.
    Where two explain the same and differ in one decision, ask a person.
    """

    tool = "propose_rules"
    task: TaskKind
    dimensions: Literal[2, 3] | None = None
    """A wish; what files say wins."""
    only: tuple[str, ...] = ()
    """Classes or structures that were asked for; empty for all."""
    target: str = ""
    """The request's words for what is to be told apart, marked or described."""
    answers: dict[str, str] = {}
    """What a person has decided: key of a question -> value."""
    limit: int = Field(default=3, ge=1, le=8)


class TryRules(ToolArgs):
    """Carry rules out on the whole dataset, without decoding an image, and tell what they cover: cases, patients,
    counts, a given split, what is left out with the reason, contradictions, and why no model could be made of it.
    """

    tool = "try_rules"
    reads_only = False
    path: str = "dataset.yaml"
    """Of your workspace; with `text` it is written there first."""
    text: str | None = None
    """YAML of the rules."""


MOST_PICTURES = 16
"""In one view."""


class ViewImage(ToolArgs):
    """Look at an image or scan in three planes, or at several side by side, with their numbers.

    A path may be a pattern (/data/*/image.nii.gz) or the sample_id of a case (all its views), for which an overlay has
    its mask; up to 16 pictures in all. worst/NAME/1.png is the worst case of the try NAME. Of several each gets a
    numbered cell (of a scan the axial plane through its mask, else its middle), with the class of its case under it or
    the words of `captions`; `overlays` are masks, one a picture ("" for none). Without paths, once cases are locked:
    some of every class, or with their masks. The picture is also kept below /workspace/views.
    """

    tool = "view_image"
    reads_only = False
    paths: tuple[str, ...] = Field(default=(), max_length=MOST_PICTURES)
    overlays: tuple[str, ...] = ()
    captions: tuple[str, ...] = ()


TOOLS: dict[str, type[ToolArgs]] = {
    model.tool: model
    for model in (
        ListFiles,
        ReadFiles,
        CopyFiles,
        WriteFiles,
        EditFiles,
        RunScript,
        PreviewDirs,
        PreviewFiles,
        ProposeRules,
        TryRules,
        ViewImage,
        StartTraining,
        TryConfigs,
        Repackage,
    )
}

PROBES = ("resolve_rules", "verify_infeasible", "verify_batches", "verify_package")
"""Trusted code that the runner runs from its own image on behalf of a role's check; never offered to a core."""


class ProfileDataset(Contract):
    """Arguments of the call `profile_dataset`: look at the files of a dataset, where they changed since its profile.

    Asked by the gateway for a dataset that is being registered, and by the Task Manager's service before a run.
    """

    tool: ClassVar[str] = "profile_dataset"
    card: DataCard


class DecodeBatch(Contract):
    """Arguments of a runner's call `decode_batch`: cases of its intake job, for whichever runner is free."""

    tool: ClassVar[str] = "decode_batch"
    job_id: Token
    """Whoever stops this job stops its batches."""
    batch: Ref
    """In the bucket sealed (`services.tool_runner.intake.batch.Batch`)."""


class ToolCall(Contract):
    """A call for tool_runner, published to `tool.<class>.<role>.<run>.<call>`.

    The runner decides what is mounted, not the caller.
    """

    call_id: Token
    """`<run>-<role>-<turn>-<n>`: the same call keeps its id over every retry."""
    run_id: RunId
    role: Service
    tool: str
    """A name in TOOLS, or in PROBES."""
    arguments: dict[str, JsonValue] = {}
    reply: str
    """Core NATS subject on which the result is also announced, so that nobody polls."""


class Picture(Contract):
    """Shown to a core whose model sees, at an endpoint that may have pixels."""

    name: str
    """Where it is kept in the workspace."""
    media_type: Literal["image/png", "image/jpeg"]
    content: str = Field(max_length=MAX_PICTURE_BYTES * 4 // 3)
    """Base64."""


class ToolResult(Contract):
    """Recorded once under the call's id and repeated on redelivery; never empty."""

    call_id: Token
    tool: str
    ok: bool
    summary: str = Field(min_length=1)
    """What the core reads."""
    data: dict[str, JsonValue] = {}
    """The same as values, for code."""
    pictures: tuple[Picture, ...] = Field(default=(), max_length=3)
    truncated: bool = False
    log: Ref | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    isolation: str = ""
    """`bwrap`, `landlock`, `none`, or empty where nothing was executed."""

    @property
    def jobs(self) -> tuple[str, ...]:
        """Ids of the jobs that the call started."""
        ids = self.data.get("jobs") if self.ok and self.tool in STARTERS else None
        return tuple(map(str, ids)) if isinstance(ids, list | tuple) else ()
