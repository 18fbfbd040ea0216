"""What scripts/demo trains: a small network learns a spiral on 3 workers, and processes are killed.

The train function is what a user would write. The rest is the demonstration: a thread on the driver
follows the journal, kills one worker with -9 half-way, and later the controller.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import ray
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trainstate import train
from trainstate.store import History
from trainstate.store.events import recorded
from trainstate.train.torch import TorchTrainer, prepare_data_loader, prepare_model

EPOCHS = 12
KILLS = {4: "worker", 8: "controller"}


def spiral(points: int = 3_000) -> TensorDataset:
    """Two arms of a spiral, and which arm each point is of."""
    generator = torch.Generator().manual_seed(0)
    arm = torch.randint(0, 2, (points,), generator=generator)
    angle = torch.rand(points, generator=generator) * 6
    noise = torch.randn(points, 2, generator=generator) * 0.05
    turned = angle + arm * torch.pi
    place = torch.stack([angle * turned.cos(), angle * turned.sin()], 1) / 6 + noise
    return TensorDataset(place, arm)


def learn(config: dict[str, float]) -> float:
    """Trains one worker's part; rank 0 keeps a checkpoint of every epoch."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    first = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "network.pt")
        network.load_state_dict(saved["network"])
        first = saved["epoch"] + 1
    model = prepare_model(network)
    batches = prepare_data_loader(DataLoader(spiral(), batch_size=50, shuffle=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    loss = torch.tensor(0.0)
    for epoch in range(first, EPOCHS):
        for place, arm in batches:
            loss = nn.functional.cross_entropy(model(place), arm)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            if train.get_context().get_world_rank() == 0:
                saved = {"network": network.state_dict(), "epoch": epoch}
                torch.save(saved, Path(folder) / "network.pt")
                kept = train.Checkpoint.from_directory(folder)
            else:
                kept = None
            train.report({"epoch": epoch, "loss": loss.item()}, checkpoint=kept)
    return loss.item()


def kill_processes(history: History) -> None:
    """Follows the run, and kills what KILLS says when it has committed so many checkpoints."""
    left, pids = dict(KILLS), {}
    with history.tail(history.end.next_seq) as tail:
        while left:
            for _, event in recorded(tail.read()):
                if event.HasField("controller_started"):
                    pids["controller"] = event.controller_started.pid
                if event.HasField("worker_started") and event.worker_started.rank == 1:
                    pids["worker"] = event.worker_started.pid
                if event.HasField("checkpoint_committed"):
                    victim = left.pop(event.checkpoint_committed.index, None)
                    if victim is not None:
                        print(f"*** kill -9 of the {victim} ***", file=sys.stderr, flush=True)
                        os.kill(pids[victim], signal.SIGKILL)


def main() -> None:
    """Trains, with a thread beside that kills."""
    home = Path(os.environ["TRAINSTATE_HOME"])
    with tempfile.TemporaryDirectory(prefix="ts") as folder:
        ray.init(
            num_cpus=3,
            include_dashboard=False,
            _temp_dir=folder,
            log_to_driver=False,
            logging_level="ERROR",
        )
        history = History(journal())
        threading.Thread(target=kill_processes, args=(history,), daemon=True).start()
        result = TorchTrainer(
            learn,
            train_loop_config={"lr": 0.01},
            scaling_config=train.ScalingConfig(num_workers=3),
            run_config=train.RunConfig(
                name="spiral",
                storage_path=str(home / "storage"),
                failure_config=train.FailureConfig(max_failures=1),
                checkpoint_config=train.CheckpointConfig(num_to_keep=3),
            ),
        ).fit()
        ray.shutdown()
    print(f"loss {result.metrics['loss']:.3f} after {EPOCHS} epochs, in {result.checkpoint.path}")


def journal() -> str:
    """The journal of this cluster: its state actor is started, and asked."""
    from trainstate.state import client

    path: str = ray.get(client.ensure().journal.remote())
    return path


if __name__ == "__main__":
    main()
