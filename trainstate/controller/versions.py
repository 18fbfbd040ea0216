"""Which versions of what a run is trained with, for the record (reference A0.3)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from trainstate.v1 import state_pb2 as s

# What each framework brings; ray and trainstate are always said.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "jax": ("jax", "jaxlib"),
    "tensorflow": ("tensorflow", "keras"),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
}


def framework_versions(framework: str | None) -> tuple[s.Version, ...]:
    """The versions installed here; what is not installed is left out."""
    names = ("ray", "trainstate", *PACKAGES.get(framework or "", ()))
    found = ((name, _version(name)) for name in names)
    return tuple(s.Version(name=name, version=version) for name, version in found if version)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
