"""Who and where this worker is, for the training function: Ray Train's TrainContext."""

from __future__ import annotations

from collections.abc import Mapping

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

    def get_generation(self) -> int:
        """How often this rank was replaced in this attempt."""
        return self._session.info.generation

    def __getattr__(self, name: str) -> object:
        if name in _GONE:
            raise AttributeError(f"{name}() is of Ray Tune; instead: {_GONE[name]}")
        raise AttributeError(f"TrainContext has no {name}")


def get_context() -> TrainContext:
    """The context of the training function that runs here. Raises RuntimeError outside of one."""
    return TrainContext(current())
