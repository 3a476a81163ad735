"""What is read of a zip archive, and what is refused before it is unpacked."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

import pytest

from tidegate.daemon.dagfiles.archive import (
    MAX_ENTRIES,
    MAX_MODULE_BYTES,
    MAX_MODULES,
    MAX_MODULES_BYTES,
    MAX_READ_BYTES,
    BadArchiveError,
    read_modules,
)

Pack = Callable[[ZipFile], object]


def modules(path: Path, pack: Pack) -> dict[str, str]:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        pack(archive)
    return read(path)


def read(path: Path) -> dict[str, str]:
    with io.FileIO(path) as file:
        return dict(read_modules(file))


def files(*names: str) -> Pack:
    def pack(archive: ZipFile) -> None:
        for name in names:
            archive.writestr(name, f"# {name}")

    return pack


def test_modules_of_the_root_and_of_packages_are_read_and_nothing_else(tmp_path: Path) -> None:
    pack = files("daily.py", "lib/", "lib/__init__.py", "lib/part.py", "table.csv", "old.pyc")

    assert modules(tmp_path / "a.zip", pack) == {name: f"# {name}" for name in ("daily.py", "lib/__init__.py", "lib/part.py")}


@pytest.mark.parametrize("names", [(), ("table.csv",), ("lib/part.py", "/etc/table.csv"), ("../daily.py",)])
def test_an_archive_without_a_module_in_its_root_is_none_of_ours(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert modules(tmp_path / "a.zip", files(*names)) == {}


def linked(archive: ZipFile) -> None:
    entry = ZipInfo("link.py")
    entry.external_attr = 0o120777 << 16
    archive.writestr(entry, "/etc/passwd")


def encrypted(archive: ZipFile) -> None:
    archive.writestr("secret.py", "x = 1")
    archive.getinfo("secret.py").flag_bits |= 1


def twice(archive: ZipFile) -> None:
    for _ in range(2):
        archive.writestr("daily.py", "x = 1")


def large(archive: ZipFile) -> None:
    archive.writestr("large.py", "#" * (MAX_MODULE_BYTES + 1))


def bomb(archive: ZipFile) -> None:
    for number in range(MAX_MODULES_BYTES // MAX_MODULE_BYTES + 1):
        archive.writestr(f"part{number}.py", "#" * MAX_MODULE_BYTES)


REFUSED: list[tuple[Pack, str]] = [
    (files("daily.py", "/etc/x.py"), "entry '/etc/x.py': names are relative"),
    (files("daily.py", "../x.py"), "entry '../x.py': names are relative"),
    (files("daily.py", "lib/../../x.csv"), "entry 'lib/../../x.csv': names are relative"),
    (files("daily.py", "lib//x.py"), "entry 'lib//x.py': names are relative"),
    (files("daily.py", "lib\\x.py"), "entry 'lib\\\\x.py': names are relative"),
    (files(f"{'d' * 253}.py"), f"entry '{'d' * 253}.p'…: names have at most 1000 bytes, and 255 between two slashes"),
    (files("daily.py", f"{'é' * 126}/{'é' * 126}.csv"), "…: names have at most 1000 bytes"),
    (files("daily.py", f"{'l/' * 500}x"), "…: names have at most 1000 bytes"),
    (lambda archive: archive.writestr("latin.py", b"# \xe9"), "entry 'latin.py': it is not UTF-8: "),
    (lambda archive: archive.writestr("nul.py", "\0"), "entry 'nul.py': it contains a NUL character"),
    (lambda archive: archive.writestr("l.py", "x", ZIP_LZMA), "entry 'l.py': its compression is not read; pack it with deflate"),
    (linked, "entry 'link.py': it is a symbolic link"),
    (encrypted, "entry 'secret.py': it is encrypted; pack it without a password"),
    (large, f"entry 'large.py': it has {MAX_MODULE_BYTES + 1} bytes; at most {MAX_MODULE_BYTES} are read"),
    (bomb, f"entry 'part8.py': its modules have more than {MAX_MODULES_BYTES} bytes when unpacked"),
    (files(*(f"m{number}.py" for number in range(MAX_MODULES + 1))), f"it has {MAX_MODULES + 1} modules; at most {MAX_MODULES}"),
    (files("daily.py", *map(str, range(MAX_ENTRIES))), f"it has {MAX_ENTRIES + 1} entries; at most {MAX_ENTRIES} are read"),
]


@pytest.mark.parametrize(("pack", "reason"), REFUSED)
def test_what_is_refused_is_named_with_its_entry(tmp_path: Path, pack: Pack, reason: str) -> None:
    with pytest.raises(BadArchiveError) as caught:
        modules(tmp_path / "a.zip", pack)

    assert reason in str(caught.value)
    assert str(caught.value).endswith("; if the archive holds no DAG files, exclude it by .tidegateignore")


def test_a_name_may_be_as_long_as_a_file_system_has_it(tmp_path: Path) -> None:
    names = (f"{'d' * 252}.py", f"{'l/' * 498}x.py")

    assert set(modules(tmp_path / "a.zip", files(*names))) == set(names)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArchiveError, match=r"entry 'daily.py': two entries have this name"):
        modules(tmp_path / "a.zip", twice)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\5\6" + b"\xff" * 18, b"PK\5\6" + b"\0" * 8 + b"\xff" * 10])
def test_what_is_no_archive_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)

    with pytest.raises(BadArchiveError, match=r"it is no valid zip archive: |its directory has"):
        read(tmp_path / "a.zip")


def test_a_directory_of_any_size_is_not_read(tmp_path: Path) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, MAX_READ_BYTES + 1, 0, 0)
    (tmp_path / "a.zip").write_bytes(bytes(MAX_READ_BYTES + 1) + end)

    with pytest.raises(BadArchiveError, match=f"its directory has {MAX_READ_BYTES + 1} bytes; at most {MAX_READ_BYTES} are read"):
        read(tmp_path / "a.zip")


def test_an_entry_that_lies_about_its_size_is_not_unpacked_further(tmp_path: Path) -> None:
    """The directory says one byte; what is packed are 64 MiB."""
    packed = zlib.compress(b"#" * (64 << 20), 9)[2:-4]
    head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, 0, len(packed), 1, 8, 0) + b"small.py"
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 33, 0, len(packed), 1, 8, 0, 0, 0, 0, 0, 0) + b"small.py"
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(head) + len(packed), 0)
    (tmp_path / "a.zip").write_bytes(head + packed + entry + end)

    with pytest.raises(BadArchiveError, match=r"entry 'small.py': it cannot be unpacked: Bad CRC-32"):
        read(tmp_path / "a.zip")


def test_a_stored_module_is_read(tmp_path: Path) -> None:
    assert modules(tmp_path / "a.zip", lambda archive: archive.writestr("a.py", "\N{BYTE ORDER MARK}x = 1", ZIP_STORED)) == {
        "a.py": "x = 1"
    }
