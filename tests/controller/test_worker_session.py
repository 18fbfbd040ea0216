"""What a training function is given in a replica group: what is its own, and what was there before."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainstate.controller.messages import Assignment, Kept
from trainstate.controller.session import SessionInfo
from trainstate.controller.storage import Storage
from trainstate.controller.worker_session import WorkerSession

KEPT = (Kept(0, "a", b"", 0), Kept(1, "b", b"", 1), Kept(2, "c", b"", 0))


def session(folder: Path, group: int | None) -> WorkerSession:
    groups = 0 if group is None else 2
    info = SessionInfo("exp", "run", "attempt", 0, 2, 0, 2, 0, 1, 0, 1, group, groups)
    storage = Storage(str(folder), "exp")
    assignment = Assignment(info, storage, "zero", (), {}, {}, "checkpoint_", 10)
    made = WorkerSession(assignment, lambda: None, lambda error: None)
    made.kept = KEPT
    return made


@pytest.mark.parametrize(
    ("group", "visible", "name"),
    [(None, None, "c"), (0, 1, "c"), (1, 1, "b"), (1, 0, "b"), (2, 1, "a"), (2, 0, None)],
)
def test_the_newest_checkpoint(tmp_path: Path, group: int | None, visible: int, name: str | None):
    """Of a replica group: what was there when it began, and what it made; not what others made since."""
    made = session(tmp_path, group)
    made.visible = visible
    found = made.checkpoint()
    assert name == (None if found is None else Path(found.path).name)


@pytest.mark.parametrize(("group", "name"), [(None, "mine"), (1, "mine_g1.1")])
def test_a_name_of_the_users_is_each_groups_own(tmp_path: Path, group: int | None, name: str):
    """No group writes into another's checkpoint, which may be committed, or deleted, already."""
    assert name == session(tmp_path, group)._directory("mine", 0)
