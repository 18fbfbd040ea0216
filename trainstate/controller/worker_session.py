"""The session of a training function that runs in a worker: reports, checkpoints, shards, collectives.

Called from the training thread and from threads it starts; what it says to the controller goes through
the report buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import ray

from trainstate.controller.buffer import ReportBuffer
from trainstate.controller.failure import describe
from trainstate.controller.hooks import Callback, TrainContextCallback
from trainstate.controller.messages import Assignment, HookFailure, Kept
from trainstate.controller.session import CheckpointUploadMode, Preemption, stored
from trainstate.core.values import from_map, to_map
from trainstate.state.names import NAMESPACE
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class WorkerSession:
    """`fail` ends the worker's part of the attempt from another thread than the training one."""

    def __init__(
        self,
        assignment: Assignment,
        notify: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.info = assignment.info
        self.storage = assignment.storage
        self.buffer = ReportBuffer(assignment.report_buffer, notify)
        self.kept: tuple[Kept, ...] = ()
        self.version = -1
        self.visible: int | None = None
        self.taken_away: Preemption | None = None
        self._assignment = assignment
        self._fail = fail
        self._uploads = ThreadPoolExecutor(1, "upload")
        self._meetings = 0
        self.hook_failures: list[HookFailure] = []

    # --- reporting --------------------------------------------------------------------------------

    def report(
        self,
        metrics: Mapping[str, Any],
        checkpoint: Any | None,
        checkpoint_dir_name: str | None,
        upload_mode: CheckpointUploadMode,
        delete_local: bool,
        upload_fn: Callable[[Any, str], Any] | None,
    ) -> None:
        """Takes one report. With a checkpoint it returns when that is committed, unless ASYNC.

        A checkpoint that cannot be handed over fails this worker, also if the caller catches the error:
        the others would wait for its part for ever.
        """
        with self._around("on_report"):
            report = e.ReportReceived(
                rank=self.info.world_rank, index=self.buffer.take(), metrics=to_map(metrics)
            )
            if checkpoint is None:
                self.buffer.put(report)
                return
            directory = self._directory(checkpoint_dir_name, report.index)
            upload = (report, checkpoint, directory, upload_mode, delete_local, upload_fn)
            if upload_mode is CheckpointUploadMode.ASYNC:
                self._uploads.submit(self._upload, *upload)
                return
            self._upload(*upload)
            self.buffer.wait_committed(report.index)

    def _directory(self, name: str | None, index: int) -> str:
        """No two replica groups, nor generations of one, write to the same place."""
        if name is None:
            return f"{self._assignment.directory_prefix}{index:06d}"
        info = self.info
        apart = "" if info.replica_group is None else f"_g{info.replica_group}.{info.generation}"
        return f"{name}{apart}"

    def _upload(
        self,
        report: e.ReportReceived,
        checkpoint: Any,
        directory: str,
        mode: CheckpointUploadMode,
        delete_local: bool,
        upload_fn: Callable[[Any, str], Any] | None,
    ) -> None:
        try:
            with self._around("on_checkpoint_transfer"):
                there = stored(self.storage, checkpoint, directory, mode, upload_fn)
            directory = self.storage.extract_checkpoint_dir_name_from_path(there.path)
            if delete_local and mode is not CheckpointUploadMode.NO_UPLOAD:
                self.storage.discard(checkpoint)
            self._hand_over(report, directory)
        except BaseException as error:  # whatever it is, the worker fails of it, caught or not
            self._fail(error)
            raise

    def _hand_over(self, report: e.ReportReceived, directory: str) -> None:
        report.checkpoint = directory
        self.buffer.put(report)

    @contextmanager
    def _around(self, hook: str) -> Iterator[None]:
        with ExitStack() as stack:
            for callback in self._assignment.callbacks:
                if isinstance(callback, TrainContextCallback):
                    stack.enter_context(self._isolated(callback, hook))
            yield

    @contextmanager
    def _isolated(self, callback: Callback, hook: str) -> Iterator[None]:
        manager: AbstractContextManager[None] = nullcontext()
        with self.guarded(callback, hook):
            manager = getattr(callback, hook)()
            manager.__enter__()
        try:
            yield
        finally:
            with self.guarded(callback, hook):
                manager.__exit__(None, None, None)

    @contextmanager
    def guarded(self, callback: Callback, hook: str) -> Iterator[None]:
        """Notes what a callback raises, and goes on (B.3 row 12)."""
        try:
            yield
        except (
            BaseException
        ) as error:  # the boundary between a callback and training: also SystemExit
            described = describe(error, self.info.world_rank).SerializeToString()
            self.hook_failures.append(HookFailure(type(callback).__name__, hook, described))

    # --- what was reported ------------------------------------------------------------------------

    def checkpoint(self) -> Any | None:
        """The newest committed ray.train.Checkpoint, the same for all ranks of a gang.

        Of a replica group: the newest that was there when it began, or that it made itself.
        """
        ours = [
            one
            for one in self.kept
            if self.visible is None
            or one.index < self.visible
            or one.group == self.info.replica_group
        ]
        newest = max(ours, key=lambda one: one.index, default=None)
        return None if newest is None else self.storage.checkpoint(newest.directory)

    def reported_checkpoints(self) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        """Every committed checkpoint that is kept, oldest first, with its metrics."""
        kept = sorted(self.kept, key=lambda one: one.index)
        return [
            (self.storage.checkpoint(one.directory), from_map(s.ValueMap.FromString(one.metrics)))
            for one in kept
        ]

    def preemption(self) -> Preemption | None:
        """What is about to be taken away, if anything is."""
        return self.taken_away

    # --- data and collectives ---------------------------------------------------------------------

    def dataset_shard(self, name: str) -> Any:
        """This worker's part of a dataset. Raises KeyError."""
        shards = self._assignment.shards
        if name not in shards:
            known = ", ".join(map(repr, shards)) or "none"
            raise KeyError(f"no dataset {name!r} was given to the trainer: there is {known}")
        return shards[name]

    def extra(self, name: str) -> Any:
        """What a callback's `before_init_train_context` gave this worker. Raises KeyError."""
        return self._assignment.extra[name]

    def barrier(self) -> None:
        """Returns when every rank of the gang is here."""
        self.broadcast(None)

    def broadcast(self, data: Any) -> Any:
        """What the gang's rank 0 passes, on every rank of it. Ranks meet in rank 0's process."""
        self._meetings += 1
        rank_zero = ray.get_actor(self._assignment.rank_zero, namespace=NAMESPACE)
        rank, size = self.info.gang_rank, self.info.gang_size
        mine = data if rank == 0 else None
        return ray.get(rank_zero.meet.remote(self._meetings, rank, size, mine))
