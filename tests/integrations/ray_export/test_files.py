"""Log files as lines: whole, growing, rotated, cut."""

from __future__ import annotations

import threading

import pytest

from trainstate.integrations.ray_export import files
from trainstate.integrations.ray_export.files import follow, read, siblings


def raws(lines):
    return [line.raw for line in lines]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "event_EXPORT_TRAIN_STATE.log"


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\n", [(1, b"a", 2)]),
        (b"a\nb\n", [(1, b"a", 2), (2, b"b", 4)]),
        (b"a\n\n\nb\n", [(1, b"a", 2), (4, b"b", 6)]),
        (b"a\r\nb\r\n", [(1, b"a", 3), (2, b"b", 6)]),
        (b"a\nb", [(1, b"a", 2), (2, b"b", 3)]),
        (b"a", [(1, b"a", 1)]),
        (b"\xff\x00\n", [(1, b"\xff\x00", 3)]),
    ],
    ids=str,
)
def test_lines_with_their_numbers_and_ends(log, content, expected):
    """Blank lines are counted and not given; one that was cut off is given as it stands."""
    log.write_bytes(content)
    assert expected == [(line.number, line.raw, line.end) for line in read(log)]
    assert {log} >= {line.path for line in read(log)}


def test_a_line_without_end_is_given_in_pieces(log, monkeypatch):
    """What is longer than any line of Ray's does not fill the memory."""
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 10)
    log.write_bytes(b"x" * 25 + b"\n" + b"y\n")
    assert [b"x" * 10, b"x" * 10, b"x" * 5, b"y"] == raws(read(log))


def test_what_is_no_file(tmp_path, log):
    """A missing file, and a directory, are the errors of the operating system."""
    with pytest.raises(FileNotFoundError):
        list(read(log))
    with pytest.raises(IsADirectoryError):
        list(read(tmp_path))


def test_rotated_files_are_oldest_first(log):
    """Ray's logger renames: the highest number is the oldest, the plain name the newest."""
    for name in ("", ".1", ".2", ".10", ".bak", ".1.gz", "x"):
        log.with_name(log.name + name).touch()
    names = [path.name.removeprefix(log.name) for path in siblings(log)]
    assert [".10", ".2", ".1", ""] == names


def test_a_log_that_was_never_rotated(log):
    """The file itself, whether it is there or not."""
    assert [log] == siblings(log)


# --- following ------------------------------------------------------------------------------------


class Follower:
    """Follows a log step by step, as fast as the test writes it."""

    def __init__(self, log):
        self.stop = threading.Event()
        self._lines = follow(log, self.stop)

    def news(self):
        """What has come since the last look."""
        found = []
        while (line := next(self._lines)) is not None:
            found.append(line.raw)
        return found


@pytest.fixture
def follower(log, monkeypatch):
    monkeypatch.setattr(files, "_POLL_S", 0)
    log.touch()
    made = Follower(log)
    yield made
    made.stop.set()
    assert [] == [line for line in made._lines if line is not None]


def append(log, content):
    with log.open("ab") as file:
        file.write(content)


def rotate(log):
    """As Python's RotatingFileHandler does it, which is what Ray uses."""
    for older in siblings(log)[:-1]:
        number = int(older.suffix[1:])
        older.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))
    log.touch()


def test_a_file_that_grows(log, follower):
    """Each line once, when its end is written."""
    assert [] == follower.news()
    append(log, b"a\nb\nc")
    assert [b"a", b"b"] == follower.news()
    assert [] == follower.news()
    append(log, b"c\nd\n")
    assert [b"cc", b"d"] == follower.news()


def test_a_file_that_is_rotated(log, follower):
    """What was written to the old file before it was renamed comes before what is in the new one."""
    append(log, b"a\n")
    assert [b"a"] == follower.news()
    append(log, b"b\n")
    rotate(log)
    append(log, b"c\n")
    assert [b"b", b"c"] == follower.news()
    append(log, b"d\n")
    assert [b"d"] == follower.news()


def test_a_file_that_is_rotated_with_each_line(log, follower):
    """A5: `RAY_EXPORT_EVENT_MAX_FILE_SIZE_BYTES=1` rotates at every line: none is skipped."""
    append(log, b"a\n")
    assert [b"a"] == follower.news()
    for line in (b"b\n", b"c\n", b"d\n", b"e\n"):
        rotate(log)
        append(log, line)
    assert [b"b", b"c", b"d", b"e"] == follower.news()


def test_a_rotated_file_that_is_deleted(log, follower):
    """The oldest file is deleted beyond the backup count: what is left is read, none of it twice."""
    append(log, b"a\n")
    assert [b"a"] == follower.news()
    rotate(log)
    append(log, b"b\n")
    rotate(log)
    append(log, b"c\n")
    log.with_name(f"{log.name}.2").unlink()
    assert [b"b", b"c"] == follower.news()


def test_a_line_cut_by_a_rotation(log, follower):
    """A line without its end in a file that will not grow is given as it stands."""
    append(log, b"half")
    assert [] == follower.news()
    rotate(log)
    append(log, b"whole\n")
    assert [b"half", b"whole"] == follower.news()


def test_a_file_that_is_cut(log, follower):
    """Truncated in place (copytruncate): read again from its start."""
    append(log, b"aaaa\nbbbb\n")
    assert [b"aaaa", b"bbbb"] == follower.news()
    log.write_bytes(b"c\n")
    assert [b"c"] == follower.news()


def test_a_file_that_is_gone_for_a_moment(log, follower):
    """Between the two renames of a rotation there is no file: that is no end."""
    append(log, b"a\n")
    assert [b"a"] == follower.news()
    aside = log.with_name(f"{log.name}.1")
    log.rename(aside)
    assert [] == follower.news()
    log.write_bytes(b"b\n")
    assert [b"b"] == follower.news()


def test_a_missing_file_is_not_followed(log):
    """To follow a file it must be there."""
    with pytest.raises(FileNotFoundError):
        next(follow(log, threading.Event()))


def test_stop_ends_it(log):
    """Set before or in the middle: the file is closed, nothing more comes."""
    log.write_bytes(b"a\nb\n")
    stop = threading.Event()
    lines = follow(log, stop)
    assert b"a" == next(lines).raw
    stop.set()
    assert [b"b"] == raws(line for line in lines if line is not None)
