"""Scripts that run a further script as another user, or as one to whom the kernel permits less.

`python -c SCRIPT FURTHER_SCRIPT ARGUMENTS…`. The users are in a user namespace of their own, where root is user 1000. The start
of the further script takes away the rights that its maker has there. A user who may make no namespace is one without already.
"""

USER, WITHOUT_NAMESPACES, WITHOUT_ANYTHING = "user", "user without namespaces", "user without anything"

_BECOME_USER = """
import ctypes, os
user, group = os.geteuid(), os.getegid()
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    for name, line in (("uid_map", f"1000 {user} 1"), ("setgroups", "deny"), ("gid_map", f"1000 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
else:
    assert user != 0
"""
_FORBID_NAMESPACES = """
from contextlib import suppress
for kind in ("user", "net", "pid", "mnt"):
    with suppress(PermissionError), open(f"/proc/sys/user/max_{kind}_namespaces", "w") as file:
        file.write("0")
"""
_FORBID_ALL = """
import struct
from tidegate.daemon.dagfiles import libc
code = [(0x20, 0, 0, 0)]
for numbers in ((444, 444), (157, 167)):
    code += [(0x15, 0, 4, numbers[os.uname().machine != "x86_64"]), (0x20, 0, 0, 16), (0x15, 1, 0, 22), (0x15, 0, 1, 0)]
    code += [(6, 0, 0, 0x50026), (0x20, 0, 0, 0)]
code += [(6, 0, 0, 0x7fff0000)]
packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
libc.prctl(38, 1)
libc.prctl(22, 2, struct.pack("HxxxxxxP", len(code), ctypes.addressof(packed)))
"""
"""`landlock_create_ruleset` and the `prctl` that sets a filter fail as on a kernel without them."""

_RUN = """
import sys
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""

USERS = {
    "root": "import os" + _RUN,
    USER: _BECOME_USER + _RUN,
    WITHOUT_NAMESPACES: _BECOME_USER + _FORBID_NAMESPACES + _RUN,
    WITHOUT_ANYTHING: _BECOME_USER + _FORBID_NAMESPACES + _FORBID_ALL + _RUN,
}
