"""The check of a conf in a process of its own: `python -m tidegate.daemon.conf_check SECONDS`.

It reads the parameters and the conf from stdin, and writes the findings to stdout, all as JSON. The kernel ends it with SIGXCPU
after these seconds of processor time.
"""

import resource
import signal
import sys
from typing import Any

import msgspec

from tidegate.daemon.dagfiles.confine import refuse_inspection
from tidegate.schemas.json_schema import conf_findings
from tidegate.schemas.params import Params

LATE_S = 10
"""The kernel looks at processor time at ticks. On a virtual machine that was not run for long, one look may find seconds more.
The second limit, whose signal says nothing of processor time, has to be beyond them.
"""


def main(cpu_s: int) -> None:
    """Answer the question on stdin."""
    refuse_inspection()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # A process inherits that its parent ignores it.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + LATE_S))
    params, conf = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[Params, dict[str, Any]])
    sys.stdout.buffer.write(msgspec.json.encode(conf_findings(params, conf)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
