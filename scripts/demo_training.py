"""What scripts/demo trains: a small network learns a spiral on 2 or 3 workers, as nodes come and go.

The train function is what a user would write. The rest is the demonstration: a thread on the driver
follows the journal, adds a node to the cluster, kills it with -9, and later the controller.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
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
from trainstate.v1.event_pb2 import Event

EPOCHS = 24
# A node that is killed is noticed at once: Ray takes some 15 s by default.
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 100,
    "health_check_failure_threshold": 2,
}


def spiral(points: int = 20_000) -> TensorDataset:
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


class Mischief:
    """Follows the run, and does what is due when so many workers have made so many checkpoints."""

    def __init__(self, history: History, address: str) -> None:
        self._due = [(2, 2, self._add_node), (3, 4, self._kill_node), (2, 4, self._kill_controller)]
        self._made = (0, 0)
        self._history = history
        self._address = address
        self._node: subprocess.Popen[bytes] | None = None
        self._controller = 0

    def run(self) -> None:
        """For a thread of its own."""
        with self._history.tail(self._history.end.next_seq) as tail:
            while self._due:
                for _, event in recorded(tail.read()):
                    self._see(event)

    def _see(self, event: Event) -> None:
        workers, made = self._made
        if event.HasField("controller_started"):
            self._controller = event.controller_started.pid
        if event.HasField("attempt_planned"):
            self._made = (event.attempt_planned.num_workers, 0)
        if event.HasField("checkpoint_committed"):
            self._made = (workers, made + 1)
        if self._due and self._made == self._due[0][:2]:
            self._due.pop(0)[2]()

    def _add_node(self) -> None:
        say("a node with one more CPU joins the cluster")
        ray_command = shutil.which("ray", path=Path(sys.executable).parent) or "ray"
        command = [ray_command, "start", "--address", self._address, "--num-cpus=1", "--block"]
        self._node = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _kill_node(self) -> None:
        say("kill -9 of that node")
        self.end()

    def _kill_controller(self) -> None:
        say("kill -9 of the controller")
        os.kill(self._controller, signal.SIGKILL)

    def end(self) -> None:
        """Leaves no node behind."""
        if self._node is not None and self._node.poll() is None:
            os.killpg(self._node.pid, signal.SIGKILL)
            self._node.wait()


def say(what: str) -> None:
    print(f"*** {what} ***", file=sys.stderr, flush=True)


def main() -> None:
    """Trains, with a thread beside that does mischief."""
    home = Path(os.environ["TRAINSTATE_HOME"])
    with tempfile.TemporaryDirectory(prefix="ts") as folder:
        cluster = ray.init(
            num_cpus=2,
            include_dashboard=False,
            _system_config=HEALTH,
            _temp_dir=folder,
            log_to_driver=False,
            logging_level="ERROR",
        )
        mischief = Mischief(History(journal()), cluster.address_info["gcs_address"])
        threading.Thread(target=mischief.run, daemon=True).start()
        result = TorchTrainer(
            learn,
            train_loop_config={"lr": 0.01},
            scaling_config=train.ScalingConfig(num_workers=(2, 3)),
            run_config=train.RunConfig(
                name="spiral",
                storage_path=str(home / "storage"),
                failure_config=train.FailureConfig(max_failures=1),
                checkpoint_config=train.CheckpointConfig(num_to_keep=3),
            ),
        ).fit()
        mischief.end()
        ray.shutdown()
    print(f"loss {result.metrics['loss']:.3f} after {EPOCHS} epochs, in {result.checkpoint.path}")


def journal() -> str:
    """The journal of this cluster: its state actor is started, and asked."""
    from trainstate.state import client

    path: str = ray.get(client.ensure().journal.remote())
    return path


if __name__ == "__main__":
    main()
