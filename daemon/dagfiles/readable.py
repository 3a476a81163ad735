"""The files of the host that a DAG file may read beside its DAG folder: programs of the system, and the folders of modules."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

PROGRAMS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store")

FACTS = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives"),
    *("/etc/localtime", "/etc/timezone", "/etc/locale.conf", "/etc/locale.alias", "/etc/default/locale"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/os-release", "/etc/debian_version", "/etc/lsb-release"),
    *("/etc/hosts", "/etc/host.conf", "/etc/hostname", "/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
    *("/etc/mime.types", "/etc/magic", "/etc/terminfo", "/etc/inputrc", "/etc/fonts", "/etc/gitconfig"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf"),
    *("/etc/pki/ca-trust/extracted", "/etc/crypto-policies"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg", "/proc/version", "/proc/filesystems"),
    *("/proc/sys/kernel", "/proc/sys/vm", "/sys/devices/system", "/sys/fs/cgroup"),
)
"""Files of the host that hold no secret, and that the C library and Python look for."""

_INSTALLED = ("site-packages", "dist-packages")
_ARCHIVES = "archive-v"
"""The folder of all unpacked packages in the cache of uv begins so: one path in place of hundreds."""

OWN = "/proc/self"
"""What the kernel knows of the process; what it knows of others is not readable."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Readable(NamedTuple):
    """What a DAG file may read."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def with_folder(self, folder: str) -> "Readable":
        return self._replace(folders=(*self.folders, folder))


def present(paths: Iterable[str]) -> Readable:
    """The paths that exist, with those of the system. They are named by the zygote once, and opened by each sandbox."""
    found = [path for path in (*PROGRAMS, *FACTS, *paths) if os.path.exists(path)]
    folders = tuple(filter(os.path.isdir, found))
    return Readable((*folders, OWN), tuple(path for path in found if path not in folders))


def module_folders(environ: Mapping[str, str]) -> Sequence[str]:
    """The folders of this interpreter and of its modules, with the targets of links and of editable installations."""
    libraries = filter(None, environ.get("LD_LIBRARY_PATH", "").split(":"))
    interpreter = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.realpath(sys.executable))
    paths = [path for path in sys.path if path]
    found = (*interpreter, *paths, *_linked(paths), *_editable(), *libraries)
    return outermost(os.path.realpath(path) for path in found)


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths, without any that is below another."""
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not f"{path}/".startswith(f"{kept[-1]}/"):
            kept.append(path)
    return tuple(kept)


def _editable() -> Iterator[str]:
    """The packages that the finders of editable installations by setuptools know."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("__editable__"):
            yield from getattr(module, "MAPPING", {}).values()


def _linked(paths: Iterable[str]) -> Iterator[str]:
    """Where links in folders of modules lead, and those in packages there: some installers copy nothing."""
    for path in paths:
        if os.path.basename(path) in _INSTALLED:
            yield from _linked_installations(path)
        elif os.path.realpath(path) != os.path.dirname(os.__file__):
            entries = _entries(path)
            inside = (_entries(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
            yield from (entry.path for entry in chain(entries, *inside) if entry.is_symlink())


def _linked_installations(folder: str) -> Iterator[str]:
    """Links to modules, and the folders in the cache of an installer that has linked each file of a package."""
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry.path
        elif entry.name.endswith(".dist-info") and os.path.islink(metadata := f"{entry.path}/METADATA"):
            unpacked = os.path.dirname(os.path.dirname(os.path.realpath(metadata)))
            cache = os.path.dirname(unpacked)
            yield cache if os.path.basename(cache).startswith(_ARCHIVES) else unpacked


def _entries(folder: str) -> Sequence["os.DirEntry[str]"]:
    with suppress(OSError):
        return list(os.scandir(folder))
    return ()
