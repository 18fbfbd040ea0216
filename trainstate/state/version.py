"""Which versions of trainstate may talk to each other across processes: those of one release."""

from __future__ import annotations

from importlib import metadata

from trainstate.errors import UsageError


def version() -> str:
    """The version of this installation; of a checkout that is not installed, 0.0.0."""
    try:
        return metadata.version("trainstate")
    except metadata.PackageNotFoundError:
        return "0.0.0"


def check_version(theirs: str, ours: str) -> None:
    """Raises UsageError unless a caller of version `theirs` goes with us."""
    if _release(theirs) != _release(ours):
        raise UsageError(
            f"the cluster's state actor is trainstate {ours}, the caller is {theirs}",
            hint=f"pip install 'trainstate=={ours}', or restart the cluster with {theirs}",
        )


def _release(text: str) -> list[str]:
    """Major and minor."""
    return text.split(".")[:2]
