"""A run that cannot start yet: what waiting costs, whether it can be stopped, and how soon it starts."""

from __future__ import annotations

import os
import signal
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ray
from fitting import journal
from marking import OURS, Training, fit
from measuring import Row, Seconds, absolute, alternate, at_most, cpu_s
from nodes import NODE_CPUS, Nodes, nodes
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainstate.core import RunStatus

FEWEST, MOST = 2 * NODE_CPUS, 3 * NODE_CPUS
WATCHED_S = 10
SETTLE_S = 3.0


def arrival_rows(folder: Path, rounds: int) -> list[Row]:
    """A run of 4 to 6 workers on 2 CPUs: until it says what it lacks, at rest, at Ctrl-C, at last."""
    with nodes(folder, head_cpus=NODE_CPUS) as cluster:
        fit(OURS, lambda: None, folder, num_workers=1)  # the state actor starts once per cluster
        started, bare = alternate(
            rounds, lambda: _run_starts(folder, cluster), lambda: _gang_starts(cluster)
        )
        waits = [_waits(folder) for _ in range(rounds)]
    said_s, percent, stopped_s = map(statistics.median, zip(*waits, strict=True))
    what = f"{FEWEST} to {MOST} workers wanted, {NODE_CPUS} CPUs"
    return [
        absolute(f"{what}: until the run says so", said_s, "s", 1.0, most=True),
        absolute(f"{what}: waiting, of one core", percent, "%", 1.0, most=True),
        absolute(f"{what}: Ctrl-C, until fit() is over", stopped_s, "s", 2.0, most=True),
        at_most("nodes arrived, until all train", started, bare, "bare gang and actors", 1.5, "s"),
    ]


def _run_starts(folder: Path, cluster: Nodes) -> Seconds:
    """From the arrival of the CPUs that a run waits for until every worker trains."""
    with Training(OURS, folder, num_workers=(FEWEST, MOST)) as training:
        _waiting()
        time.sleep(SETTLE_S)
        there_ns = cluster.add()
        training_ns = training.started(FEWEST, range(FEWEST))
    cluster.remove()
    return (training_ns - there_ns) / 1e9


def _gang_starts(cluster: Nodes) -> Seconds:
    """The same for a placement group, and an actor in each of its bundles that answers one call."""
    group = ray.util.placement_group([{"CPU": 1}] * FEWEST)
    time.sleep(SETTLE_S)
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(_answered_ns, group)
        there_ns = cluster.add()
        took_s = (answered.result() - there_ns) / 1e9
    ray.util.remove_placement_group(group)
    cluster.remove()
    return took_s


def _answered_ns(group: PlacementGroup) -> int:
    class Plain:
        def answer(self) -> None:
            """All that it does."""

    group.wait(timeout_seconds=600)
    actors = [
        ray.remote(Plain)
        .options(num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle))
        .remote()
        for bundle in range(FEWEST)
    ]
    ray.get([actor.answer.remote() for actor in actors])
    return time.time_ns()


def _waits(folder: Path) -> tuple[Seconds, float, Seconds]:
    """How a run waits (see `_watched`), and how long it takes from Ctrl-C until `fit()` is over."""
    with ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(_interrupted)
        try:
            fit(OURS, lambda: None, folder, num_workers=(FEWEST, MOST))
        except KeyboardInterrupt:
            over_ns = time.time_ns()
            said_s, percent, sent_ns = interrupted.result()
            return said_s, percent, (over_ns - sent_ns) / 1e9
    raise RuntimeError("Ctrl-C was not heard")


def _interrupted() -> tuple[Seconds, float, int]:
    """How the newest run waits, and when Ctrl-C was sent after that; the run ends in any case."""
    try:
        return *_watched(), time.time_ns()
    finally:
        os.kill(os.getpid(), signal.SIGINT)


def _watched() -> tuple[Seconds, float]:
    """From a run's first event until it said what it lacks; its controller's percentage of a core."""
    run_id = _waiting()
    events = [one.event for one in journal().events_of(run_id)]
    said = next(one for one in events if one.HasField("run_waiting"))
    pid = next(one.controller_started.pid for one in events if one.HasField("controller_started"))
    time.sleep(SETTLE_S)
    used_s = cpu_s(pid)
    time.sleep(WATCHED_S)
    percent = 100 * (cpu_s(pid) - used_s) / WATCHED_S
    return (said.time_unix_nano - events[0].time_unix_nano) / 1e9, percent


def _waiting() -> str:
    """The newest run, once it waits for the workers it lacks."""
    while True:
        time.sleep(0.2)
        history = journal()
        run = history.run(history.summaries()[-1].run_id)
        if run.status is RunStatus.WAITING:
            if (run.have_workers, run.need_workers) != (NODE_CPUS, FEWEST):
                raise RuntimeError(f"waits for something else: {run.status_reason}")
            return run.run_id
