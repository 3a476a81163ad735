"""Inside a sandbox: executes one DAG file and writes its DAGs or its problem."""

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import NamedTuple, NoReturn

import msgspec

from tidegate.daemon.dagfiles import reasons
from tidegate.daemon.dagfiles.confine import MIB, confine, use_reserve
from tidegate.daemon.dagfiles.imports import ImportTracker
from tidegate.daemon.dagfiles.isolation import Isolation, enclose
from tidegate.daemon.dagfiles.message import Limits, Outcome, Request, Script, decode_script, encode
from tidegate.daemon.dagfiles.readable import Readable
from tidegate.daemon.dagfiles.recognition import AUTHORING, compiled, dag_name
from tidegate.daemon.dagfiles.scratch import View, enter_view
from tidegate.daemon.spark.runner.pinned_modules import install
from tidegate.schemas.authoring.build import build, build_code
from tidegate.schemas.authoring.mistakes import note_mistakes
from tidegate.schemas.dag import ImportProblem
from tidegate.schemas.error import DagError

NO_DAG_FILE = Outcome()
"""Of a file that was not executed, because no name in it speaks of DAGs."""


class Host(NamedTuple):
    """The facts of the host for the zygote.

    `processes` is the limit of processes of a sandbox's user, `readable` the folders of modules, `closed` the result of
    `closed_folders`, `places` that of `private_places`, `scratch` that of `private_folder`.
    """

    processes: int
    isolation: Isolation
    readable: Readable = Readable()
    closed: View = MappingProxyType({})
    places: View = MappingProxyType({})
    scratch: str = ""


def execute(request: Request, source: int, result: int, printed: int, host: Host) -> NoReturn:
    """Run the file in this process, the first of a sandbox, and exit.

    `source`, `result` and `printed` are descriptors of files in memory.
    """
    try:
        write(result, _outcome(request, source, printed, host), request.limits)
    finally:
        os._exit(0)


def _outcome(request: Request, source: int, printed: int, host: Host) -> Outcome:
    """What became of the file. The host is the cause when its sandbox cannot be set up, such as a DAG folder that is replaced."""
    try:
        script = _set_up(request, source, printed, host)
        imports = ImportTracker(request.root, request.filename)
        imports.track()
    except BaseException as error:  # noqa: BLE001 - none of them is the fault of the file
        why = f"its sandbox could not be set up: {reasons.reason(error, request.filename, request.limits)}"
        return Outcome(problem=ImportProblem(reason=why), may_pass=True)
    outcome = run(script.text, request.filename, request.limits)
    if outcome is NO_DAG_FILE or outcome.uncompiled is not None:
        return outcome
    try:
        imports.add_later(script, has_failed=outcome.problem is not None)
    except MemoryError as error:
        outcome = _out_of_memory(error, request.limits)
    return msgspec.structs.replace(outcome, imports=imports.digests)


def _set_up(request: Request, source: int, printed: int, host: Host) -> Script:
    """Confine this process; the script that it is to run."""
    os.setsid()
    _redirect(printed)
    script = decode_script(os.pread(source, os.fstat(source).st_size, 0))
    os.close(source)
    writable = enter_view(host.closed, host.places, request.limits.memory_mb) or _own_folder(host.scratch)
    _enter(request.root)
    confine(request.limits, host.processes)
    enclose(host.isolation, host.readable.with_folder(request.root), writable)
    if script.modules:
        install(Path(request.root), request.filename.removeprefix(f"{request.root}/"), script.modules)
    return script


def run(source: str, filename: str, limits: Limits) -> Outcome:
    """The DAGs of the file, if it is a DAG file; any exception becomes a problem."""
    _arm(limits)
    name = AUTHORING
    try:
        code = compiled(source, filename)
        if (name := dag_name(source, code) or "") == "" and code is not None:
            return NO_DAG_FILE
        dags = build(source, filename) if code is None else build_code(code, filename)
        specs = tuple(dag.spec() for dag in dags)
        sys.stdout.flush()
        return Outcome(dags=specs)
    except BaseException as error:  # noqa: BLE001 - a DAG file may raise anything
        further = _further_mistakes(source, filename) if isinstance(error, DagError) else ()
        _disarm()
        if isinstance(error, MemoryError):
            use_reserve()
        why = reasons.with_further(reasons.reason(error, filename, limits), further)
        problem = ImportProblem(reason=why, line=reasons.line(error, filename))
        if not name:
            return Outcome(uncompiled=problem)
        problem = msgspec.structs.replace(problem, reason=problem.reason + taken_for_a_dag_file(name))
        return Outcome(problem=problem, may_pass=reasons.may_pass(error))
    finally:
        _disarm()


def _further_mistakes(source: str, filename: str) -> Sequence[DagError]:
    """All mistakes that a second run of the file meets, which goes on after each: the first one has ended the first run."""
    noted: list[DagError] = []
    try:
        with note_mistakes(filename) as noted:
            build(source, filename)
    except BaseException:  # noqa: BLE001 - the file may not go on after a mistake
        return noted
    return noted


def taken_for_a_dag_file(name: str) -> str:
    """The advice about a file that may be no DAG file: it does not import tidegate, and only a name in it speaks of DAGs."""
    if name == AUTHORING:
        return ""
    return (
        f"; it was taken for a DAG file because of the name {name!r} in it: if it builds no DAGs, exclude it by .tidegateignore"
    )


def write(result: int, outcome: Outcome, limits: Limits) -> None:
    """Write the outcome, or a problem if it is too large or no valid JSON."""
    try:
        body = encode(outcome)
    except UnicodeEncodeError as error:
        body = encode(Outcome(problem=ImportProblem(reason=f"a text of its DAGs is not valid Unicode: {error}")))
    except MemoryError as error:
        body = encode(_out_of_memory(error, limits))
    if len(body) > limits.output_mb * MIB:
        size = f"its DAGs take {len(body) / MIB:.1f} MiB when serialised; at most {limits.output_mb} MiB are accepted"
        body = encode(Outcome(problem=ImportProblem(reason=f"{size} (TIDEGATE_PARSE_OUTPUT_MB)")))
    os.pwrite(result, body, 0)


def _out_of_memory(error: MemoryError, limits: Limits) -> Outcome:
    """The problem of a file that has built its DAGs with the last of its memory."""
    use_reserve()
    return Outcome(problem=ImportProblem(reason=reasons.reason(error, "", limits)))


def _redirect(printed: int) -> None:
    """stdin is empty, output goes to memory, and faulthandler prints the line of a crash in C."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for descriptor in (1, 2):
        os.dup2(printed, descriptor)
    os.close(printed)
    faulthandler.enable(2)


def _own_folder(scratch: str) -> tuple[str, ...]:
    """Make it the folder of temporary files."""
    if not scratch:
        return ()
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    return (scratch,)


def _enter(root: str) -> None:
    os.chdir(root)
    sys.path.insert(0, root)
    sys.argv = [""]


def _arm(limits: Limits) -> None:
    """Interrupt the file at its limits to get the current line; it is killed if it does not stop."""
    wall = f"it was still running after {limits.wall_s:g} s (TIDEGATE_PARSE_WALL_S)"
    cpu = f"it used up {limits.cpu_s} s of processor time (TIDEGATE_PARSE_CPU_S)"
    signal.signal(signal.SIGALRM, _interrupt(f"{wall}; move the work into a task"))
    signal.signal(signal.SIGXCPU, _interrupt(f"{cpu}; move the work into a task"))
    signal.setitimer(signal.ITIMER_REAL, limits.wall_s)


def _disarm() -> None:
    for number in (signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(text: str) -> Callable[[int, FrameType | None], None]:
    def interrupt(_: int, __: FrameType | None) -> None:
        _disarm()
        raise reasons.OutOfTimeError(text)

    return interrupt
