"""DAG files that try to leave their sandbox, and how a parser runs for each kind of user.

An attack returns what it has reached, or raises. The world that it attacks is made by `test_hostile.py`.
"""

from typing import NamedTuple

SECRET = "hunter2-of-the-warehouse"  # noqa: S105 - a test looks for it

PRELUDE = """
import ctypes, fcntl, mmap, os, platform, resource, signal, socket, struct, subprocess, sys, tempfile
from tidegate import Dag

libc = ctypes.CDLL(None, use_errno=True)
WORLD = {world!r}

def kernel(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def by_machine(x86_64, others):
    return x86_64 if platform.machine() == "x86_64" else others

def machine_code(code):
    if platform.machine() != "x86_64":
        raise OSError("of another machine")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex(code))
    result = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result

def attack():
    {body}

try:
    found = attack()
except Exception as error:
    Dag("refused", description=f"{{type(error).__name__}}: {{error}}")
else:
    Dag("reached", description=repr(found))
"""


class Attack(NamedTuple):
    """`named_by` is in the text that says what is reachable, where the attack reaches something."""

    name: str
    named_by: str
    body: str

    def source(self, world: object) -> str:
        return PRELUDE.format(world=world, body=self.body.replace("\n", "\n    "))


SOCKETS, NETWORK, FILES = "Unix sockets", "the network", "all files"
ATTRIBUTES, SIGNALS, LIMITS, PROCESSES = "modes, owners and times", "signals", "limits and priorities", "processes"
HARMLESS = ""
"""Reaches nothing of the host by itself, or nothing where the tests run: other user namespaces are protected by the kernel."""

ATTACKS = [
    Attack("unix_stream", SOCKETS, "s = socket.socket(socket.AF_UNIX)\ns.connect(WORLD['stream'])\nreturn s.getpeername()"),
    Attack("unix_of_the_user", SOCKETS, "s = socket.socket(socket.AF_UNIX)\ns.connect(WORLD['private'])\nreturn s.getpeername()"),
    Attack(
        "unix_datagram",
        SOCKETS,
        "return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', WORLD['datagram'])",
    ),
    Attack(
        "unix_datagram_of_a_pair",
        SOCKETS,
        "return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', WORLD['datagram'])",
    ),
    Attack("unix_server", HARMLESS, "s = socket.socket(socket.AF_UNIX)\ns.bind(tempfile.mktemp())\nreturn s"),
    Attack("tcp", NETWORK, "return socket.create_connection(('127.0.0.1', WORLD['tcp']), 5)"),
    Attack("udp", NETWORK, "return socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', WORLD['tcp']))"),
    Attack("netlink", HARMLESS, "return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    Attack("vsock", HARMLESS, "return socket.socket(40, socket.SOCK_STREAM)"),
    Attack("kernel_crypto", HARMLESS, "return socket.socket(38, socket.SOCK_SEQPACKET)"),
    Attack("io_uring", HARMLESS, "return kernel(425, 8, ctypes.create_string_buffer(120))"),
    Attack("socket_of_32_bits", HARMLESS, "return machine_code('53b867010000bb01000000b90100000031d2cd805b4898c3')"),
    Attack("socket_of_x32", HARMLESS, "return kernel(0x40000000 | 41, 1, 1, 0)"),
    Attack("ptrace", HARMLESS, "return kernel(by_machine(101, 117), 16, WORLD['traced'], 0, 0)"),
    Attack("environment", HARMLESS, "return open(f\"/proc/{WORLD['traced']}/environ\", 'rb').read()"),
    Attack("arguments", PROCESSES, "return open(f\"/proc/{WORLD['traced']}/cmdline\", 'rb').read()"),
    Attack("memory", HARMLESS, "return open(f\"/proc/{WORLD['traced']}/mem\", 'rb')"),
    Attack("descriptors", HARMLESS, "return kernel(438, os.pidfd_open(WORLD['traced']), 0, 0)"),
    Attack("kill", SIGNALS, "return os.kill(WORLD['killed'], signal.SIGKILL) or 'killed'"),
    Attack("kill_by_queue", SIGNALS, "return kernel(424, os.pidfd_open(WORLD['queued']), 9, None, 0) or 'killed'"),
    Attack(
        "kill_by_descriptor",
        SIGNALS,
        "r, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, WORLD['owned'])\nfcntl.fcntl(r, 10, 9)\n"
        "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\nos.write(w, b'x')\nos.kill(WORLD['owned'], 0)\n"
        "return 'killed'",
    ),
    Attack("limits", LIMITS, "return resource.prlimit(WORLD['traced'], resource.RLIMIT_CORE, (0, 0))"),
    Attack("affinity", HARMLESS, "return os.sched_setaffinity(WORLD['traced'], {0}) or 'set'"),
    Attack("priority", HARMLESS, "return os.setpriority(os.PRIO_PROCESS, WORLD['traced'], 19) or 'set'"),
    Attack("password", FILES, "return open(WORLD['password']).read()"),
    Attack("password_by_root", FILES, "return open(f\"/proc/self/root{WORLD['password']}\").read()"),
    Attack("password_by_link", FILES, "p = tempfile.mktemp()\nos.symlink(WORLD['password'], p)\nreturn open(p).read()"),
    Attack("password_by_hard_link", FILES, "p = tempfile.mktemp()\nos.link(WORLD['password'], p)\nreturn open(p).read()"),
    Attack("password_by_program", FILES, "return subprocess.check_output(['cat', WORLD['password']])"),
    Attack("password_by_mapping", FILES, "return mmap.mmap(os.open(WORLD['password'], 0), 0, access=mmap.ACCESS_READ)[:]"),
    Attack("password_as_module", FILES, "sys.path.append(WORLD['spool'])\nimport credentials\nreturn credentials.WAREHOUSE"),
    Attack("list_run", FILES, "return os.listdir('/run')"),
    Attack("list_spool", FILES, "return os.listdir(WORLD['spool'])"),
    Attack("write_spool", FILES, "return open(WORLD['spool'] + '/forged', 'w').write('x')"),
    Attack("empty_spool", FILES, "return os.truncate(WORLD['emptied'], 0) or 'emptied'"),
    Attack("delete_spool", FILES, "return os.unlink(WORLD['deleted']) or 'deleted'"),
    Attack("write_dag_folder", FILES, "return open(os.path.dirname(__file__) + '/planted.txt', 'w')"),
    Attack("write_interpreter", FILES, "import tidegate\nreturn open(tidegate.__file__, 'a')"),
    Attack("modes", ATTRIBUTES, "os.chmod(WORLD['password'], 0o777)\nassert os.stat(WORLD['password']).st_mode & 0o777 == 0o777"),
    Attack("times", ATTRIBUTES, "os.utime(WORLD['spool'], (0, 0))\nassert os.stat(WORLD['spool']).st_mtime == 0"),
    Attack("disk", HARMLESS, "return open('/dev/vda', 'rb').read(1)"),
    Attack("kernel_log", HARMLESS, "return os.open('/dev/kmsg', os.O_RDONLY)"),
    Attack("user_namespace", HARMLESS, "return kernel(by_machine(272, 97), 0x10000000)"),
    Attack("user_namespace_by_clone", HARMLESS, "return kernel(by_machine(56, 220), 0x10000011, 0, 0, 0, 0) or os._exit(0)"),
    Attack("user_namespace_by_clone3", HARMLESS, "return kernel(435, struct.pack('8Q', 0x10000000, *[0] * 3, 17, *[0] * 3), 64)"),
    Attack("uncover", HARMLESS, "return kernel(by_machine(166, 39), b'/tmp', 2) or 'uncovered'"),
    Attack("keys", HARMLESS, "return kernel(by_machine(250, 219), 0, -4, 0)"),
    Attack("shared_memory", HARMLESS, "return kernel(by_machine(29, 194), WORLD['shared'], 0, 0)"),
    Attack(
        "news_of_files", HARMLESS, "return libc.inotify_add_watch(kernel(by_machine(294, 26), 0), WORLD['spool'].encode(), 256)"
    ),
    Attack("inherited", HARMLESS, "return [n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')][1:] or {}[0]"),
]
