"""The state actor: journal, store and reaper of a Ray cluster, in one process on its head node.

It survives its own death by opening the journal again: Ray restarts the process, the constructor folds
the journal and watches the controllers of all open runs. So does a process that cannot write any more:
after a failed write or sync nothing is acknowledged, and the process ends itself once that is said.

A store call waits for the disk, so it runs in a thread: the loop stays free, and appends that wait
together share one sync.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import ray

from trainstate.core import RunStatus
from trainstate.core.freeze import freeze
from trainstate.errors import NotFound, StorageError, TrainstateError
from trainstate.state.home import Owner, journals_of, raylet_of
from trainstate.state.names import STATE_ACTOR, controller_name
from trainstate.state.reaper import Reaper
from trainstate.state.reconcile import reconcile_lost
from trainstate.state.salt import masking_of
from trainstate.state.version import check_version
from trainstate.state.version import version as version_of_ours
from trainstate.store import Store
from trainstate.v1 import event_pb2 as e

P = ParamSpec("P")
R = TypeVar("R")

# Appends that wait for the disk at the same time; the others queue.
_THREADS = 64
# Between saying that the disk failed and going: time for the answer to get out.
_FAREWELL_S = 0.2
# Whose runs end with their controller; a foreign controller's manager asks to be watched itself.
_REAPED_WRITERS = {"controller", "reaper"}


class TrainStateActor:
    """The one writer of a cluster's journal; its constructor opens it, and raises what that raises.

    Errors cross to the caller as the classes of `trainstate.errors`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, "trainstate-store")
        raylet = raylet_of(os.getpid())
        journals = journals_of(raylet.environ)
        # The name of the session is unique among all clusters that were ever started on a machine.
        node = ray._private.worker.global_worker.node
        assert node is not None
        self._path = journals / node.session_name
        owner = str(Owner.of(STATE_ACTOR, raylet.pid))
        self._masking = masking_of(raylet.environ)
        self._store = Store.open(self._path, owner=owner, masking=self._masking)
        self._reaper = Reaper(self._store, self._run)
        self._watch_open_runs()
        self._tidying = self._loop.create_task(self._tidy(journals))

    async def hello(self, version: str) -> str:
        """The version of this actor. Raises UsageError if that of the caller does not go with it."""
        mine = version_of_ours()
        check_version(version, mine)
        return mine

    async def open_run(
        self, run_id: str, writer: str, time_ns: int
    ) -> tuple[bytes, int, int, bytes]:
        """`Store.open_run`: the frozen state, its run_seq, the writer's incarnation.

        And the salt of the home, so that the writer's fold has the markers that the journal has.
        """
        opened = await self._run(self._store.open_run, run_id, writer, time_ns)
        return freeze(opened.state), opened.run_seq, opened.incarnation, self._masking.salt

    async def append(
        self, run_id: str, incarnation: int, expected_run_seq: int, batch: bytes
    ) -> tuple[int, int]:
        """`Store.append` of an encoded Batch, durable: the positions of its first and last event."""
        events = e.Batch.FromString(batch).events
        seqs = await self._run(
            self._store.append, run_id, incarnation, expected_run_seq, list(events)
        )
        return (seqs[0], seqs[-1]) if seqs else (0, 0)

    async def watch(self, run_id: str, controller: str) -> None:
        """Ends the run when the actor of that name is gone for good."""
        self._reaper.watch(run_id, controller)

    async def state(self, run_id: str) -> bytes:
        """The frozen state of a run. Raises NotFound."""
        return freeze(await self._run(self._store.state, run_id))

    async def find_open(self, text: str) -> str:
        """The id of the open run whose id is or starts with `text`, or whose name is `text`.

        Raises NotFound if none is, or several are.
        """
        fits = [
            run
            for run in self._store.summaries()
            if not RunStatus(run.status).is_terminal
            and (run.run_id.startswith(text) or run.name == text)
        ]
        if len(fits) == 1:
            return fits[0].run_id
        ids = ", ".join(run.run_id for run in fits[:5])
        raise NotFound(
            f"{len(fits)} open runs fit {text!r}: {ids}" if fits else f"no open run fits {text!r}",
            path=self._path,
            hint="this is the cluster that was asked; another one is named with --address HOST:PORT",
        )

    async def journal(self) -> str:
        """The path of the journal on the head node."""
        return str(self._path)

    def _watch_open_runs(self) -> None:
        for summary in self._store.summaries():
            if RunStatus(summary.status).is_terminal:
                continue
            run = self._store.state(summary.run_id)
            if run.writer in _REAPED_WRITERS and not run.imported:
                self._reaper.watch(run.run_id, controller_name(run.run_id))

    async def _tidy(self, journals: Path) -> None:
        """Ends what the clusters before this one left open, while this one already serves."""
        await asyncio.to_thread(reconcile_lost, journals)

    async def _run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await self._loop.run_in_executor(self._threads, lambda: work(*args, **kwargs))
        except OSError as error:
            self._leave()
            raise StorageError(str(error), path=self._path) from error
        except TrainstateError as error:
            if isinstance(error, StorageError) or self._store.writer.is_over:
                self._leave()
            raise

    def _leave(self) -> None:
        """Ends the process, for Ray to start another that opens the journal again."""
        self._loop.call_later(_FAREWELL_S, os._exit, 1)
