"""Files that are written over live ones."""

from pathlib import Path

import pytest

from tidegate.daemon.cli.replaced_files import replace_all
from tidegate.schemas.error import RequestError


def test_a_reader_finds_the_old_content_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "daily.py").write_text("old\n")
    with (tmp_path / "daily.py").open() as reader:
        replace_all({tmp_path / "daily.py": "new\r\n", tmp_path / "lib/common.py": "é"})

        assert reader.read() == "old\n"
    assert (tmp_path / "daily.py").read_bytes() == b"new\r\n"
    assert (tmp_path / "lib/common.py").read_text(encoding="utf-8") == "é"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["common.py", "daily.py", "lib"]


def test_the_mode_and_a_link_stay(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("old")
    (tmp_path / "real.py").chmod(0o640)
    (tmp_path / "daily.py").symlink_to("real.py")

    replace_all({tmp_path / "daily.py": "new"})

    assert (tmp_path / "daily.py").is_symlink()
    assert ((tmp_path / "real.py").read_text(), (tmp_path / "real.py").stat().st_mode & 0o777) == ("new", 0o640)


def test_no_file_changes_if_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "daily.py").write_text("old")
    (tmp_path / "lib").write_text("a file")

    with pytest.raises(RequestError, match=r"lib/common\.py cannot be written: "):
        replace_all({tmp_path / "daily.py": "new", tmp_path / "lib/common.py": ""})

    assert [(path.name, path.read_text()) for path in sorted(tmp_path.iterdir())] == [("daily.py", "old"), ("lib", "a file")]
