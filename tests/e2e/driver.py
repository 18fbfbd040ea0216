"""A driver that trains until a file appears: `-m tests.e2e.driver ADDRESS NAME STORAGE WORKERS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ray

from tests.e2e.running import trainer


def main(address: str, name: str, storage: Path, workers: int) -> None:
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    over = storage / "over"

    def function() -> None:
        from trainstate import train

        while not over.exists():
            train.report({"time": time.time()})
            time.sleep(0.05)

    trainer(function, name, storage, workers, max_failures=3).fit()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
