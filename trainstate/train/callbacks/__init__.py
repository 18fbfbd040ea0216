"""The hooks of a run: classes to derive a callback from, for `RunConfig(callbacks=[...])`."""

from trainstate.controller.hooks import (
    Callback,
    ControllerCallback,
    ExecutionGroupCallback,
    ReplicaGroupCallback,
    ReportCallback,
    TrainContextCallback,
    UserCallback,
    WorkerCallback,
    WorkerGroupCallback,
)

__all__ = [
    "Callback",
    "ControllerCallback",
    "ExecutionGroupCallback",
    "ReplicaGroupCallback",
    "ReportCallback",
    "TrainContextCallback",
    "UserCallback",
    "WorkerCallback",
    "WorkerGroupCallback",
]
