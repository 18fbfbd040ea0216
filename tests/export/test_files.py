"""Durable files: a mark finds its place again, or says that it is gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainstate.errors import CursorMismatch, RefusedError, SinkUnavailable
from trainstate.export.files import AppendFile, FileMark, resume_file
from trainstate.journal import replace_file


@pytest.fixture
def file(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = AppendFile(tmp_path / "file")
    yield opened
    opened.close()


def test_what_lies_behind_the_mark_is_cut(file: AppendFile) -> None:
    """And what lies before it is what it was."""
    file.append(b"one\n")
    mark = file.mark().encode()
    file.append(b"two")
    assert mark == resume_file(file, mark)
    assert b"one\n" == file.path.read_bytes()
    file.append(b"three\n")
    assert b"one\nthree\n" == file.path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"on", b"oNe\n", b"other, and longer\n"])
def test_a_file_that_lost_what_was_acknowledged_is_not_written(
    file: AppendFile, content: bytes
) -> None:
    """Cut, changed or replaced: nothing is cut or written, and the error says what to do."""
    file.append(b"one\n")
    mark = file.mark().encode()
    file.close()
    file.path.write_bytes(content)
    again = AppendFile(file.path)
    with pytest.raises(CursorMismatch, match="does not hold") as caught:
        resume_file(again, mark)
    again.close()
    assert content == file.path.read_bytes()
    assert caught.value.hint


def test_only_the_end_is_compared(file: AppendFile) -> None:
    """The digest is of the last 4 KiB: resuming costs the same for any size."""
    file.append(b"a" * 10_000)
    mark = file.mark()
    assert mark.size == 10_000
    assert file.holds(mark)
    assert not file.holds(mark._replace(tail="00"))


@pytest.mark.parametrize("mark", [b"", b"{}", b"[]", b"null", b'{"size": 1, "tail": "", "x": 1}'])
def test_a_mark_of_another_kind_of_sink_is_refused(mark: bytes) -> None:
    """It is not taken for a mark of an empty file."""
    with pytest.raises(CursorMismatch, match="no mark of a file"):
        FileMark.decode(mark, Path("f"))


def test_a_file_is_written_by_one(file: AppendFile) -> None:
    """The second is refused while the first lives."""
    with pytest.raises(RefusedError, match="another export"):
        AppendFile(file.path)
    file.close()
    AppendFile(file.path).close()


def test_a_file_moved_away_is_noticed(file: AppendFile) -> None:
    """logrotate under our feet: nothing goes into a file that nobody finds."""
    file.append(b"one\n")
    file.path.rename(file.path.with_suffix(".1"))
    with pytest.raises(CursorMismatch, match="moved or removed"):
        file.append(b"two\n")
    file.path.write_bytes(b"")
    with pytest.raises(CursorMismatch, match="moved or removed"):
        file.append(b"two\n")


def test_a_sink_that_nobody_filled_must_be_empty(file: AppendFile) -> None:
    """Without a cursor, what is in a file is somebody else's."""
    assert file.mark().encode() == resume_file(file, None)
    file.append(b"theirs")
    with pytest.raises(RefusedError, match="6 bytes"):
        resume_file(file, None)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_is_a_sink_that_is_away(
    file: AppendFile, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A write or sync that fails acknowledges nothing, and is retried from the mark."""
    file.append(b"one\n")
    mark = file.mark().encode()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(SinkUnavailable, match="No space left"):
            file.append(b"two\n")
    assert 4 == file.size
    resume_file(file, mark)
    file.append(b"two\n")
    assert b"one\ntwo\n" == file.path.read_bytes()


def test_short_writes_are_continued(file: AppendFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take less than it is given."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    file.append(b"one two three")
    assert b"one two three" == file.path.read_bytes()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """With what to check."""
    with pytest.raises(SinkUnavailable, match="No such file") as caught:
        AppendFile(tmp_path / "missing" / "file")
    assert str(tmp_path / "missing") in (caught.value.hint or "")


def test_what_is_acknowledged_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data before an append returns, and before a file is renamed; the folder for every new name."""
    calls: list[str] = []

    def noted(name: str):  # type: ignore[no-untyped-def]
        real = getattr(os, name)

        def call(*args: object, **options: object) -> object:
            calls.append(name)
            return real(*args, **options)

        return call

    for name in ("pwrite", "fdatasync", "rename", "fsync", "ftruncate"):
        monkeypatch.setattr(os, name, noted(name))
    replace_file(tmp_path / "cursor", b"x")
    assert ["pwrite", "fdatasync", "rename", "fsync"] == calls
    calls.clear()
    file = AppendFile(tmp_path / "file")
    assert ["fsync"] == calls
    file.append(b"x")
    file.cut(FileMark(0, ""))
    file.close()
    assert ["fsync", "pwrite", "fdatasync", "ftruncate", "fdatasync"] == calls
