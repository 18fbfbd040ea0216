"""A driver that begins a run and then does nothing: `-m tests.state.driver ADDRESS RUN WORKERS`."""

from __future__ import annotations

import sys
import time

import ray

from tests.state.making import start_controller, start_sleepers


def main(address: str, run_id: str, workers: int) -> None:
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    controller = start_controller(run_id)
    attempt_id = ray.get(controller.begin.remote(workers=workers))
    start_sleepers([f"{run_id}/{attempt_id}/{bundle}/0" for bundle in range(workers)])
    start_sleepers([f"{run_id}/{attempt_id}/data"])
    print(attempt_id, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
