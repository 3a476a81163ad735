"""The JSON messages between daemon, zygote and sandbox."""

import msgspec

from tidegate.daemon.dagfiles.isolation import Isolation
from tidegate.schemas.dag import DagSpec, ImportProblem, ModuleSource

MAX_BYTES = 1 << 20
"""The most bytes of a DAG file, and of a file that one depends on."""

MAX_IMPORTS = 1000
"""The most files that a DAG file depends on; changes of further ones are not noticed."""

NOT_READ = ""
"""The digest of a file that is missing, or that was not read."""

DENIED = "denied"
"""The digest of a file that only the daemon reads: the user of the sandbox may not, or it is an application of a task."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of one file. `wall_s` and `cpu_s` are in seconds, the others in MiB."""

    wall_s: float
    cpu_s: int
    memory_mb: int
    output_mb: int


class Hello(msgspec.Struct, frozen=True):
    """The zygote is ready. `readable` are the folders of modules that DAG files may read. `as_nobody`: see `changes_user`."""

    isolation: Isolation
    readable: tuple[str, ...]
    as_nobody: bool


class Script(msgspec.Struct, frozen=True):
    """The content of a DAG file, and the other modules of the archive that it is in."""

    text: str
    modules: tuple[ModuleSource, ...] = ()


class Request(msgspec.Struct, frozen=True):
    """Run a file.

    Sent with four descriptors: the script, files for the result and the output, and the socket for the reply.
    """

    root: str
    filename: str
    limits: Limits


class Reply(msgspec.Struct, frozen=True):
    """A sandbox ended. `status` is as `os.waitstatus_to_exitcode` gives it: an exit code, or minus a signal."""

    status: int
    timed_out: bool
    cpu_s: float


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The DAGs of a file, or its problem. `imports` are the digests of the files below the DAG folder that it depends on.

    `may_pass`: the host may be the cause of the problem, and a further parse of the same content may succeed.
    `uncompiled`: see `ParsedFile`.
    """

    dags: tuple[DagSpec, ...] = ()
    problem: ImportProblem | None = None
    may_pass: bool = False
    uncompiled: ImportProblem | None = None
    imports: dict[str, str] = {}


encode = msgspec.json.Encoder().encode
decode_hello = msgspec.json.Decoder(Hello).decode
decode_request = msgspec.json.Decoder(Request).decode
decode_script = msgspec.json.Decoder(Script).decode
decode_reply = msgspec.json.Decoder(Reply).decode
decode_outcome = msgspec.json.Decoder(Outcome).decode
