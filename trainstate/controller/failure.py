"""What failed, as the journal keeps it (an Error, within bounds) and as `fit()` raises it (a pickle).

Exceptions are the user's: they may refuse to print themselves, hold what cannot be pickled, or be of a
class that cannot be made again. None of that makes a second failure of the first.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Mapping
from typing import TypeVar

from trainstate.core import Cause
from trainstate.core.secrets import ALWAYS, Names, ends_of
from trainstate.errors import StorageError
from trainstate.v1 import state_pb2 as s

T = TypeVar("T")

# By the class's name: none of the libraries has to be there. The first names are Ray's and torch's.
_MEMORY = "use smaller batches or more workers, or ask for memory in resources_per_worker"
_HINTS: Mapping[str, str] = {
    "OutOfMemoryError": _MEMORY,
    "DistBackendError": "a peer may have failed first: look at the other ranks' errors",
    "MemoryError": _MEMORY,
    "ModuleNotFoundError": "install it on every node, or name it in RunConfig(worker_runtime_env)",
    "SystemExit": "return from the train function instead of exiting",
}
_RAISED = "the traceback ends where it was raised; the worker's log has its output"
_LOST = (
    "its process ended: os._exit, a crash in native code, or the system's out-of-memory killer;"
    " its log, and `dmesg` on that node, may say which"
)
_LOST_NODE = (
    "the machine was switched off, taken away or cut off, or its raylet was killed: `ray list nodes`;"
    " replace it, or let num_workers be a range"
)
_NODE = re.compile(r"actor's node was (terminated[^.]*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Ray writes them into the texts of its errors
_DETAIL = re.compile(r"Worker exit detail: (.*?)(?:\. |$)")
_MESSAGE_CHARACTERS = 8_000
_TRACEBACK_CHARACTERS = 32_000
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Of one stack.
_FRAMES = 128


def describe(
    error: BaseException, rank: int | None = None, node_id: str = "", names: Names = ALWAYS
) -> s.Error:
    """The Error of an exception, of a rank and on a node if it is one's.

    What Ray wraps around the exception of another process is left out. No cut of a text goes through
    what is secret by `names`.
    """
    cause = _asked(lambda: getattr(error, "cause", None), None)
    if isinstance(cause, BaseException):
        return describe(cause, rank, node_id, names)
    kind = type(error)
    hint = _HINTS.get(kind.__name__, _RAISED)
    own = _asked(lambda: str(getattr(error, "hint", None) or hint), hint)
    plain = kind.__module__ in ("builtins", "__main__")
    return s.Error(
        type=kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}",
        message=_kept(_text(error), _MESSAGE_CHARACTERS, names),
        traceback=_kept(_story(error), _TRACEBACK_CHARACTERS, names),
        hint=_kept(own, _MESSAGE_CHARACTERS, names),
        ranks=[] if rank is None else [rank],
        node_id=node_id,
    )


def lost(error: BaseException, rank: int, node_id: str) -> s.Error:
    """The Error of a worker whose process is gone: what Ray says of it, and where to look."""
    described = describe(error, rank, node_id)
    detail = _DETAIL.search(described.message)
    with_node = _NODE.search(described.message)
    described.traceback = described.message  # what Ray says, whole
    if with_node:
        described.message = (
            f"rank {rank} went with its node {node_id[:12]}, which was {with_node[1]}"
        )
        described.hint = _LOST_NODE
    else:
        what = detail[1] if detail else "no detail"
        described.message = f"the process of rank {rank} ended: {what}"
        described.hint = _HINTS.get(type(error).__name__, _LOST)
    return described


def cause_of(error: BaseException) -> Cause:
    """Why a training function failed of that exception."""
    return Cause.UPLOAD_FAILED if isinstance(error, StorageError) else Cause.WORKER_ERROR


def pickled(error: BaseException) -> bytes:
    """An exception so that `fit()` can raise it; its text, where it cannot be had again."""
    from ray import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]
        cloudpickle.loads(data)
    except BaseException:  # the boundary: pickling runs code of the user's classes
        stand_in = RuntimeError(f"{type(error).__qualname__}: {_text(error)}")
        data = cloudpickle.dumps(stand_in)  # type: ignore[no-untyped-call]
    return data


def _asked(look: Callable[[], T], instead: T) -> T:
    """What is seen of an exception, or `instead`: looking at it runs code of the user's classes."""
    try:
        return look()
    except BaseException:  # the boundary: that code may raise anything, also SystemExit
        return instead


def _text(error: BaseException) -> str:
    return _asked(lambda: str(error), "(its text cannot be had)")


def _story(error: BaseException) -> str:
    bare = "".join(traceback.format_tb(error.__traceback__, _FRAMES))
    return _asked(lambda: _within_bounds(traceback.TracebackException.from_exception(error)), bare)


def _within_bounds(story: traceback.TracebackException) -> str:
    """A traceback from the user's first frame on, of which each stack has its first and last frames."""
    while len(story.stack) > 1 and story.stack[0].filename.startswith(_OURS):
        del story.stack[0]
    part: traceback.TracebackException | None = story
    while part is not None:
        left_out = len(part.stack) - _FRAMES
        if left_out > 0:
            gap = traceback.FrameSummary("...", 0, f"({left_out} frames left out)", line="")
            part.stack[_FRAMES // 4 : _FRAMES // 4 + left_out] = [gap]
        part = part.__cause__ or part.__context__
    return "".join(story.format())


def _kept(text: str, characters: int, names: Names = ALWAYS) -> str:
    """A text that has UTF-8, and a bound; of a longer one the beginning and the end are kept."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
        # Of other alphabets as many bytes are kept.
        characters = characters * min(len(text), characters) // len(text[:characters].encode())
    return ends_of(_COLOURS.sub("", text), characters, names)
