"""Making what has to be removed again: actors and placement groups, in threads.

A thread cannot be cancelled. Whoever waits for it can: then it makes what nobody wants any more, and who
removes that must not look before it is done, or something stays for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Making:
    """What is being made, by one controller."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[Any]] = set()

    async def do(self, make: Callable[..., T], *args: Any) -> T:
        """Calls `make` in a thread; it goes on when this is cancelled."""
        made = asyncio.ensure_future(asyncio.to_thread(make, *args))
        self._under_way.add(made)
        made.add_done_callback(self._under_way.discard)
        return await asyncio.shield(made)

    async def over(self) -> None:
        """Returns when nothing is being made."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
