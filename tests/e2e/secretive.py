"""A script full of secrets: `-m tests.e2e.secretive FOLDER --api-key ... --db ...`.

Each is named PLANTED..., so that a search for that word finds what was left anywhere.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from trainstate import train
from trainstate.train import BackendConfig, DataParallelTrainer, UserCallback

MARK = "PLANTED"
KEY_LINES = "\n".join((f"{MARK}{number:02d}" * 6) for number in range(20))
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\n-----END RSA PRIVATE KEY-----"
NUMBER = 8315_0917_2263  # a password that is a number


@dataclass
class Login:
    """An object whose text has a secret in it."""

    user: str
    password: str


CONFIG = {
    "lr": 0.1,
    "db": {"password": f"{MARK}-config", "port": 5432, "pin": f"{MARK}-pin"},
    "password": NUMBER,
    "login": Login("me", f"{MARK}-repr"),
    "urls": [f"postgres://me:{MARK}-url@host/db", f"https://h/x?a=1&sig={MARK}sig&b=2"],
    "note": f"call with Authorization: Bearer {MARK}.bearer.1",
    "cloud": ("AKIA" + MARK + "IOSFODNNN")[:20],
    "command": ["mysql", "--password", f"{MARK}-listed"],
    "certificate": PRIVATE_KEY,
    "api_keys": {"first": [f"{MARK}-list"]},
    "cut": "x " * 8180 + f"password={MARK}-at-the-cut " + "y " * 10_000,
}


class Torch(BackendConfig):
    """A backend that says it is torch's, and has nothing to set up."""

    @property
    def framework(self) -> str:
        """Whose versions are recorded."""
        return "torch"


class Failing(UserCallback):
    """A callback that fails, and says too much."""

    def after_report(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"cannot post with token={MARK}-callback")


def fails(config: dict[str, Any]) -> None:
    """Fails of an error that names secrets, because of another one, too long to be kept."""
    try:
        raise KeyError(f"secret: '{MARK}-cause'")
    except KeyError as error:
        filler = "z " * 9_000
        text = f"{filler}password={config['db']['password']} {filler} {config['urls'][0]}"
        raise RuntimeError(text) from error


def finishes(config: dict[str, Any]) -> dict[str, str]:
    """Reports a secret, alone and with a checkpoint, and returns one."""
    train.report({"loss": 1.0, "hf_token": f"{MARK}-metric"})
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = train.Checkpoint.from_directory(folder)
        train.report({"loss": 0.5, "hf_token": f"{MARK}-checkpoint"}, checkpoint=checkpoint)
    return {"password": f"{MARK}-returned"}


def fit(function: Any, name: str, folder: Path, workers: int) -> None:
    """One training; what it raises is told as whoever catches it would."""
    trainer = DataParallelTrainer(
        function,
        backend_config=Torch() if workers else None,
        train_loop_config=CONFIG,
        scaling_config=train.ScalingConfig(workers, resources_per_worker={"CPU": 1}),
        run_config=train.RunConfig(
            name=name,
            storage_path=str(folder / "storage"),
            callbacks=[Failing()],
            worker_runtime_env={"env_vars": {"HF_TOKEN": f"{MARK}-worker-env"}},
        ),
    )
    try:
        trainer.fit()
    except train.WorkerGroupError as error:
        print(f"{name}: {error}")


def main(folder: Path) -> None:
    """Two trainings on a small cluster below `folder`, and one in this process."""
    os.environ["TRAINSTATE_SECRET_KEYS"] = "pin,!port"
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        _temp_dir=str(folder / "r"),
        runtime_env={"env_vars": {"WANDB_API_KEY": f"{MARK}-job-env"}},
    )
    try:
        fit(fails, "fails", folder, 2)
        fit(finishes, "finishes", folder, 2)
    finally:
        ray.shutdown()
    fit(fails, "alone", folder, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
