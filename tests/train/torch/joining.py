"""What a process does that joins others: in a module that loads little, since each process loads it."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from trainstate.controller.session import SessionInfo, set_current
from trainstate.train.torch.config import TorchConfig, _join, _leave


def join_and_sum(rank: int, size: int, port: int, config: TorchConfig, results: Any) -> None:
    """Puts the sum over the ranks, counted from 1."""
    import torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    info = SessionInfo("exp", "r", "a", rank, size, rank, size, 0, 0, rank, size)
    set_current(SimpleNamespace(info=info))
    _join(config)
    total = torch.tensor([rank + 1])
    torch.distributed.all_reduce(total)
    _leave()
    results.put(int(total))
