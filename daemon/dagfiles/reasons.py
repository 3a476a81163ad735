"""Inside a sandbox: what is wrong with a DAG file, for its author."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence

from tidegate.daemon.dag_access import DAG_ENV, DAG_READS
from tidegate.daemon.dagfiles.confine import PROCESSES
from tidegate.daemon.dagfiles.message import Limits
from tidegate.daemon.dagfiles.module_paths import unreadable
from tidegate.schemas.authoring import names
from tidegate.schemas.error import DagError, did_you_mean

MAX_REASON = 2000

MAX_FURTHER = 9
"""The most mistakes that a reason tells beside the first one."""

_OF_SETTINGS = "TIDEGATE_"

_REPR = re.compile(r"<(?:[^<>]|<\w+>)*")
"""The representation of an object, up to a further one inside it: `<function <lambda> at 0x7f…`."""
_UNREACHABLE = re.compile("Network is unreachable|[Nn]ame resolution|Name or service not known")
"""What the C library says in a sandbox about an address, and about a name."""
_ADDRESS = re.compile(" at 0x[0-9a-f]*")
_NOT_IMPORTED = re.compile(r"cannot import name '(\w+)' from 'tidegate'")
_LISTS = re.compile(r"unsupported operand type\(s\) for (>>|<<): '(?:list|tuple)' and '(?:list|tuple)'")
_OF_DAG = {"function": "task", "python": "task", "bash": "command", "operator": "task", "task_group": "group"}
"""Methods of `Dag`, by names of other schedulers that are not near."""

_OF_AIRFLOW = {
    "task": "`@dag.task` above the function, in the block of `with Dag(…) as dag:`",
    "dag": "`with Dag(…) as dag:` in place of a decorated function",
    "DAG": "Dag",
    "Asset": "Dataset",
    "chain": "a >> b >> c",
    "Variable": "Secret(…) in `env=`, or a Param",
    "TaskGroup": '`with dag.group("name"):`',
}
"""What to write for names of Airflow."""


class OutOfTimeError(BaseException):
    """Not an Exception, so that `except Exception` in a DAG file does not catch it."""


def reason(error: BaseException, filename: str, limits: Limits) -> str:
    """The reason of a problem, for the author of the file."""
    text = _of_file(error, filename) or _of_sandbox(error, limits)
    return without_addresses(text)[:MAX_REASON].encode(errors="replace").decode()


def with_further(first: str, mistakes: Sequence[DagError]) -> str:
    """The reason, and further mistakes with their lines."""
    others = [each for each in mistakes if (text := without_addresses(str(each))) and not first.startswith(text)]
    told = (f"; also line {each.place[1]}: {each}" if each.place else f"; also {each}" for each in others[:MAX_FURTHER])
    more = f"; and {len(others) - MAX_FURTHER} more" if len(others) > MAX_FURTHER else ""
    return without_addresses(first + "".join(told) + more)[:MAX_REASON].encode(errors="replace").decode()


def _of_file(error: BaseException, filename: str) -> str | None:
    """What the file alone is at fault for."""
    match error:
        case SyntaxError():
            where = "" if error.filename in (filename, None) else f" in {error.filename}, line {error.lineno}"
            return f"{type(error).__name__}: {error.msg}{where}"
        case DagError() | OutOfTimeError():
            return str(error)
        case SystemExit():
            return f"it called sys.exit({error.code!r}); a DAG file only builds DAGs"
        case _:
            return None


def _of_sandbox(error: BaseException, limits: Limits) -> str:
    """What the file lacks in its sandbox, or any other exception."""
    match error:
        case MemoryError():
            return f"it needs more than {limits.memory_mb} MiB of memory (TIDEGATE_PARSE_MEMORY_MB); move the work into a task"
        case KeyError(args=(str(name),)) if _is_variable(error):
            return f"KeyError: there is no environment variable {name}; {_variable_advice(name)}"
        case ModuleNotFoundError():
            return f"{error}; {_advice(error.name)}"
        case OSError(errno=errno.EFBIG):
            return f"it prints or writes more than {limits.output_mb} MiB (TIDEGATE_PARSE_OUTPUT_MB)"
        case OSError(errno=errno.EAGAIN) | RuntimeError(args=("can't start new thread",)):
            most = f"{PROCESSES} processes and threads in {limits.memory_mb} MiB of memory (TIDEGATE_PARSE_MEMORY_MB)"
            return f"it starts too many processes or threads; at most {most} are possible; move the work into a task"
        case _:
            return (
                ": ".join(filter(None, (type(error).__name__, _message(error))))
                + _offline(error)
                + _refused(error)
                + _remedy(error)
            )


def may_pass(error: BaseException) -> bool:
    """Whether the host may be the cause: it lacks a package, file or variable, or another process takes what the file needs."""
    match error:
        case OSError(errno=errno.EFBIG | errno.EMFILE):
            return False
        case ImportError() | OSError() | RuntimeError(args=("can't start new thread",)):
            return True
        case _:
            return _is_variable(error) and not str(error.args[0]).startswith(_OF_SETTINGS)


def without_addresses(text: str) -> str:
    """The text without the addresses of objects: they differ at each parse, and the reason would be another one each time."""
    return _REPR.sub(lambda shown: _ADDRESS.sub("", shown[0]), text)


def line(error: BaseException, filename: str) -> int | None:
    """The line of the file where the problem occurred, if known."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno
    if isinstance(error, DagError) and error.place is not None and error.place[0] == filename:
        return error.place[1]
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == filename]
    return lines[-1] if lines else None


def _is_variable(error: BaseException) -> bool:
    """Whether the error comes from `os.environ[…]`."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, KeyError) and bool(frames) and frames[-1].f_code is type(os.environ).__getitem__.__code__


def _variable_advice(name: str) -> str:
    if name.startswith(_OF_SETTINGS):
        return "DAG files never read settings; name the variable otherwise"
    return f"set it where the daemon runs, and add it to {DAG_ENV}, which names the variables that DAG files may read"


def _refused(error: BaseException) -> str:
    """The advice about a file that the sandbox closes, and not the permissions of the file."""
    match error:
        case PermissionError(filename=str(path)) if os.access(path, os.R_OK):
            return (
                f"; DAG files read their folder and modules, and write into temporary files only; {DAG_READS} opens other paths"
            )
        case _:
            return ""


def _advice(module: str | None) -> str:
    """What to do about a module that is not found."""
    if module == "airflow":
        return "this is a DAG file of Airflow: tidegate import-airflow translates it"
    return f"install it where the daemon runs, or put it into the DAG folder{_closed()}"


def _closed() -> str:
    """Why a module that exists may not be found: DAG files do not run as root."""
    closed = ", ".join(unreadable(sys.path))
    return closed and f"; DAG files run without the permissions of root: let all users read {closed}"


def _remedy(error: BaseException) -> str:
    """What to write instead of a name that Tidegate does not have, and of a link between two lists, which Python refuses."""
    match error:
        case AttributeError(name=str(name), obj=obj) if type(obj).__module__.startswith("tidegate."):
            return f"; write .{_OF_DAG[name]}" if name in _OF_DAG else did_you_mean(name, dir(obj))
        case ImportError(name="tidegate") if found := _NOT_IMPORTED.search(_message(error)):
            return f"; write {_OF_AIRFLOW[found[1]]}" if found[1] in _OF_AIRFLOW else did_you_mean(found[1], names.__all__)
        case TypeError() if found := _LISTS.search(_message(error)):
            return f"; Python links no two lists: write `for task in [a, b]: task {found[1]} [c, d]`"
        case _:
            return ""


def _offline(error: BaseException | None) -> str:
    """The advice about a file that wants the network, which its exception or the cause of that tells."""
    while error is not None:
        if _UNREACHABLE.search(_message(error)):
            return "; DAG files are read without network: do this in a task"
        error = error.__cause__ or error.__context__
    return ""


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the error's class is the file's own
        return ""
