"""PyTorch training, with the names of `ray.train.torch` (V2).

The trainer and its config need no torch where they are made; what a training function calls loads it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainstate.train.torch.config import TorchConfig
from trainstate.train.torch.torchft import TorchftConfig
from trainstate.train.torch.trainer import TorchTrainer

if TYPE_CHECKING:
    from trainstate.train.torch.devices import get_device, get_devices
    from trainstate.train.torch.loaders import prepare_data_loader
    from trainstate.train.torch.models import enable_reproducibility, prepare_model

__all__ = [
    "TorchConfig",
    "TorchTrainer",
    "TorchftConfig",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
]

_LAZY = {
    "enable_reproducibility": "models",
    "get_device": "devices",
    "get_devices": "devices",
    "prepare_data_loader": "loaders",
    "prepare_model": "models",
}
# Names of ray.train.torch that somebody may look for here, and what to do without them.
_WITHOUT = {
    "TorchCheckpoint": "torch.save() into a directory, and train.Checkpoint.from_directory()",
    "accelerate": "torch.autocast",
    "backward": "loss.backward(), with torch.amp.GradScaler where it is needed",
    "prepare_optimizer": "optimizers need no preparation",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    instead = f"; instead: {_WITHOUT[name]}" if name in _WITHOUT else ""
    raise AttributeError(f"trainstate.train.torch has no {name}{instead}")


def __dir__() -> list[str]:
    return __all__
