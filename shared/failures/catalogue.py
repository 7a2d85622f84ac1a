"""The known failures of a training: by what words each is known, and in two lines what it is and what to do."""

DIRECTIONS = {
    "gpu_memory": "halve the batch and double accumulate; with a batch of one take a smaller input, patch or width",
    "memory": "halve the batch and double accumulate, then take a smaller input, patch or width, or fewer workers",
    "shm": "set training.workers to 0, so that no batch passes through /dev/shm, or have the runner given more of it",
    "dead_worker": "set training.workers or nnunet.workers to 0, nnunet.processes to 1; then take smaller batches",
    "disk": "remove caches, old checkpoints and logs from the workspace, and write fewer or smaller files",
    "labels": "number the classes 0, 1, 2, ... before the loss sees them, an output each; see label_map.json",
    "geometry": "hand these samples back to the Data Engineer (return_work): image and mask need one grid and affine",
    "data": "hand these samples back to the Data Engineer (return_work), or mend what reads them",
    "not_learned": "look at the loss, at labels that do not belong to their images, and at the learning rate",
    "nan": "lower the learning rate by five or ten; if it stays, look for NaN or extreme values in the images",
    "dice_zero": "draw more patches that hold a structure, train longer, and see that masks lie on their images",
    "stale_preprocessing": "remove cache/nnunet, so that it is made anew of the data as they are, or undo the change",
    "checkpoint": "undo the change of the network, or move the old checkpoints away and begin anew",
    "batch_of_one": "change training.batch_size so that no batch of one is left, or take model.norm instance or group",
    "missing_module": "the environment is pinned: do without it; if it is a file of yours, write it or mend its name",
    "network": "there is no network and never will be: use what lies in the workspace and the environment",
    "no_gpu": "train on the CPU (device cpu), or have the operator mend driver and GPU of this runner",
    "process_group": "train in one process (python, not torchrun), or look at the first error of the one that died",
    "processes": "take fewer workers and threads",
    "time": "set training.train_seconds well below the seconds of the job; packaging takes some of them, too",
}  # fmt: skip


class Sign:
    def __init__(self, name: str, cause: str, *patterns: str) -> None:
        """`{0}` of `cause` is the first group of the pattern that was found, which takes numbers and plain names
        only."""
        self.name, self.cause, self.patterns = name, cause, patterns


SIGNS = (
    # What one process says of itself. Others, that only miss it, come last.
    Sign(
        "gpu_memory",
        "the GPU's memory is full: {0} more were wanted",
        r"CUDA out of memory\. Tried to allocate ([\d.]+ [KMG]iB)",
    ),
    Sign(
        "gpu_memory",
        "the GPU's memory is full",
        r"CUDA error: out of memory",
        r"(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED",
        r"GPU's memory does not hold",
    ),
    Sign(
        "shm",
        "/dev/shm is too small for what processes pass through it",
        r"[Bb]us error",
        r"unable to (?:write to|open|mmap|resize|allocate)[^\n]{0,60}</torch_",
        r"SemLock\([\s^~]{0,200}OSError: \[Errno 28\]",
        r"(?:out of|insufficient) shared memory",
        r"/dev/shm[^\n]{0,200}No space left",
        r"No space left[^\n]{0,200}/dev/shm",
    ),
    Sign(
        "memory",
        "the memory is full: {0} bytes more were wanted",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (\d+) bytes",
    ),
    Sign("memory", "the memory does not hold a batch of one", r"out of memory: it does not hold a batch of one"),
    Sign("memory", "the memory does not hold the batch", r"out of memory: it does not hold"),
    Sign("memory", "the memory is full", r"^[\w.]{0,80}MemoryError\b", r"std::bad_alloc", r"Cannot allocate memory"),
    Sign(
        "dead_worker",
        "a process that loads or prepares data was killed, most likely for lack of memory",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal|exited)",
        r"background workers? (?:is|are) no longer alive",
        r"a process of nnU-Net died",
        r"process pool was terminated abruptly",
    ),
    Sign(
        "disk",
        "the disk is full",
        r"No space left on device",
        r"Disk quota exceeded",
        r"PytorchStreamWriter failed writing|enforce fail at inline_container",
    ),
    Sign("disk", "a file grew beyond what one may have here", r"\[Errno 27\] File too large"),
    Sign(
        "stale_preprocessing",
        "the preprocessed data lack cases of the dataset: they were made of an earlier one",
        r"No such file[^\n]{0,400}preprocessed",
        r"preprocessed[^\n]{0,400}(?:does not exist|No such file)",
    ),
    Sign(
        "labels",
        "a label has the value {0}, for which the network has no output",
        r"Target (-?\d{1,9}) is out of bounds",
    ),
    Sign("labels", "nnU-Net wants the label values 0, 1, 2, ... without gaps", r"Labels must be in consecutive order"),
    Sign(
        "labels",
        "a mask holds values that the names of the structures do not cover",
        r"Unexpected labels found in file",
        r"contained unexpected labels",
    ),
    Sign(
        "labels",
        "a label is not below the number of classes",
        r"Class values must be (?:smaller than num_classes|non-negative)",
        r"t >= 0 && t < n_classes",
    ),
    Sign(
        "labels",
        "an index on the GPU was out of bounds, most often a label that is not below the number of classes",
        r"device-side assert triggered",
    ),
    Sign(
        "labels",
        "a value of {0} met {1} places, most often a label that is not below the number of classes",
        r"index (-?\d{1,9}) is out of bounds for dimension [01] with size (\d{1,9})",
    ),
    Sign(
        "geometry",
        "a mask and its image differ in their {0}",
        r"Error: (Shape|Spacing) mismatch between segmentation and corresponding images",
    ),
    Sign(
        "geometry",
        "a mask and its image do not lie on one grid",
        r"lies elsewhere in space than the image",
        r"voxels where the image has",
    ),
    Sign("data", "{0} of the samples or files cannot be trained on", r"(?:^|: )(\d{1,9}) problem\(s\) in the data"),
    Sign(
        "checkpoint",
        "a checkpoint has other weights than the network",
        r"Error\(s\) in loading state_dict",
        r"size mismatch for [\w.]{1,120}:",
        r"loaded state dict (?:contains|has)",
    ),
    Sign(
        "batch_of_one",
        "a batch of one sample has no statistics that a norm could take",
        r"Expected more than 1 (?:value per channel|spatial element)",
        r"batch norm cannot take a batch of one",
    ),
    Sign("missing_module", "the module {0} is not there", r"No module named '([\w.]{1,80})'"),
    Sign("missing_module", "the package {0} is not there", r"No package metadata was found for ([\w.-]{1,80})"),
    Sign(
        "missing_module",
        "the system library {0} is not there",
        r"([\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file",
    ),
    Sign(
        "no_gpu",
        "there is no GPU that this process may use",
        r"Found no NVIDIA driver",
        r"No CUDA GPUs are available",
        r"no CUDA-capable device",
        r"not compiled with CUDA",
        r"CUDA-capable device\(s\) is/are busy",
    ),
    Sign(
        "no_gpu",
        "the GPU or its driver does not fit the installed CUDA",
        r"NVIDIA driver on your system is too old",
        r"driver version is insufficient",
        r"no kernel image is available",
        r"CUDA unknown error",
    ),
    Sign(
        "network",
        "something was to be fetched from a network",
        r"Temporary failure in name resolution",
        r"Name or service not known",
        r"couldn't connect to 'https?:",
        r"outgoing traffic has been disabled",
    ),
    Sign(
        "processes",
        "more processes and threads were started than a job may have",
        r"can't start new thread",
        r"BlockingIOError: \[Errno 11\]",
    ),
    Sign("nan", "the loss became {0} at {1}", r"the loss became (nan|-?inf) at (\w+ \d+)"),
    Sign(
        "nan",
        "the loss or its gradients are not finite before anything was trained",
        r"loss of one sample is (?:nan|-?inf)",
        r"gradients of one sample are not finite",
    ),
    Sign(
        "nan",
        "the loss or its gradients are not finite",
        r"returned nan values in its",
        r"(?i:loss (?:is|was|became)[ :]+(?:nan|inf)|\bnan loss)",
        r"non-finite",
        r"not finite",
    ),
    Sign(
        "not_learned",
        "the network does not even learn one batch by heart",
        r"one batch is (?:not learned|learned at a rate of)",
        r"no gradient reaches the weights",
    ),
    Sign(
        "process_group",
        "one process waited for the others until its time was over",
        r"Watchdog caught collective operation timeout",
    ),
    Sign(
        "process_group",
        "the processes of the training could not reach each other",
        r"(?:Rendezvous|DistNetwork|DistStore|DistBackend)\w{0,40}Error",
        r"[Nn]ccl\w{0,40}Error|NCCL [Ee]rror",
        r"Gloo \w{1,40} failed|\bgloo/",
        r"Cannot resolve [\d.:]+ to a \(local\) address",
    ),
    # nnU-Net goes on after these; where nothing else is known, they are worth a look.
    Sign(
        "geometry",
        "a mask and its image differ in their {0}",
        r"Warning: (Origin|Direction|Affine) mismatch between segmentation and corresponding images",
    ),
)
"""The first that is found counts."""
