"""Who and where this worker is, for the training function: Ray Train's TrainContext."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainstate.controller.session import Session, current
from trainstate.controller.storage import Storage

_GONE: Mapping[str, str] = {
    "get_metadata": "pass what you need in train_loop_config",
    "get_trial_dir": "pass the directory in train_loop_config",
    "get_trial_id": "get_run_id()",
    "get_trial_name": "get_experiment_name()",
    "get_trial_resources": "pass what you need in train_loop_config",
}


class TrainContext:
    """What stays the same as long as this worker runs its training function."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_experiment_name(self) -> str:
        """`RunConfig.name`."""
        return self._session.info.experiment_name

    def get_world_size(self) -> int:
        """How many workers train."""
        return self._session.info.world_size

    def get_world_rank(self) -> int:
        """Which of them this is, from 0."""
        return self._session.info.world_rank

    def get_local_rank(self) -> int:
        """Which worker of its node this is, from 0."""
        return self._session.info.local_rank

    def get_local_world_size(self) -> int:
        """How many workers its node has."""
        return self._session.info.local_world_size

    def get_node_rank(self) -> int:
        """Which of the nodes that train this one is, from 0."""
        return self._session.info.node_rank

    def get_storage(self) -> Storage:
        """Where checkpoints go: paths, and the pyarrow filesystem."""
        return self._session.storage

    def get_run_id(self) -> str:
        """The run's id in the journal; new with every `fit()`."""
        return self._session.info.run_id

    def get_attempt_id(self) -> str:
        """The attempt's id in the journal; new with every start of the whole group."""
        return self._session.info.attempt_id

    def get_replica_group(self) -> int | None:
        """Which replica group this worker is of, from 0; None without replica groups."""
        return self._session.info.replica_group

    def get_replica_groups(self) -> int:
        """How many replica groups there are."""
        return self._session.info.replica_groups

    def get_generation(self) -> int:
        """How often this rank was replaced in this attempt."""
        return self._session.info.generation

    def __getattr__(self, name: str) -> object:
        if name in _GONE:
            raise AttributeError(f"{name}() is of Ray Tune; instead: {_GONE[name]}")
        raise AttributeError(f"TrainContext has no {name}")


@dataclass(frozen=True)
class PreemptionInfo:
    """Nodes that are about to be taken away; the fields of Ray's.

    `deadline_ms` is when, in ms since the Unix epoch, None if nobody said; `preempted_node_to_ranks` has
    the world ranks on each node, by node id in hex.
    """

    deadline_ms: int | None
    preempted_node_to_ranks: Mapping[str, Sequence[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The nodes, sorted."""
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The world ranks on them, sorted."""
        return sorted(rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks)


def get_preemption_info() -> PreemptionInfo | None:
    """What is about to be taken away from the run, if anything is: a good moment for a checkpoint.

    The run restarts without it as soon as a checkpoint is committed after that, else at the deadline and
    `FailureConfig.preemption_grace_s`. Raises RuntimeError outside of a training function.
    """
    found = current().preemption()
    if found is None:
        return None
    deadline_ms = None if found.deadline_ns is None else found.deadline_ns // 10**6
    return PreemptionInfo(deadline_ms, {node: list(of) for node, of in found.node_ranks.items()})


def get_context() -> TrainContext:
    """The context of the training function that runs here. Raises RuntimeError outside of one."""
    return TrainContext(current())
