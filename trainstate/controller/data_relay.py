"""Hands the blocks of a split to whichever worker has its rank, generation after generation.

Ray's split has one reader, which meets the readers of the other splits at the start of every epoch; who
takes over from a reader that died would meet them once too often, and lose the rest of the epoch. So the
data host reads every split itself and never dies with a worker; workers take the blocks from here.

A block is *waiting*, then *given*, and forgotten once the training function has had all its rows. The
next generation is given again what its predecessor was given and is not forgotten, and then the rest.

A worker leaves an epoch when all rows of it were given, or when it begins another one: then it has
broken off. That its loop ended early says nothing, as it also does when the function fails.

A rank that was replaced is behind the others for good. It must not have them wait at the start of an
epoch: in torchft they would not vote then, and without their votes it could never get there. So when a
worker goes to the next epoch, the splits of ranks that were replaced are read to their end and meet it
there; what their workers have yet to take stays waiting. If a worker has broken off the epoch, theirs is
not read further.

Nothing here knows Ray. All of it runs in one loop, but for `next` of a split, which blocks in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from trainstate.errors import Fenced


class Split(Protocol):
    """One of the splits that are read together, epoch after epoch."""

    def blocks(self) -> Iterator[Any]:
        """An epoch of blocks; the first comes when every split has begun the epoch."""

    def rows(self, block: Any) -> int:
        """How many rows a block has."""

    def hold(self, size_bytes: int) -> None:
        """Says how much the worker holds of what it took."""

    def end(self) -> None:
        """Ends the epoch, at its end or before."""


@dataclass(eq=False, slots=True)
class _Epoch:
    """One rank's. `rows` were given to `reader`, a generation; a given block is kept with its end."""

    number: int
    reader: int = -1
    waiting: deque[Any] = field(default_factory=deque)
    given: deque[tuple[int, Any]] = field(default_factory=deque)
    rows: int = 0
    is_over: bool = False  # nothing more is read
    error: BaseException | None = None

    @property
    def is_used_up(self) -> bool:
        """Whether the function has had every row."""
        return self.is_over and not (self.error or self.waiting or self.given)

    def join(self, generation: int) -> None:
        """Starts anew with what was given and not forgotten."""
        self.waiting.extendleft(block for _, block in reversed(self.given))
        self.given.clear()
        self.rows, self.reader = 0, generation

    def give(self, rows: int) -> Any:
        """The next block."""
        block = self.waiting.popleft()
        self.rows += rows
        self.given.append((self.rows, block))
        return block

    def forget(self, rows: int) -> None:
        """Forgets the blocks that end within the first `rows` rows given."""
        while self.given and self.given[0][0] <= rows:
            self.given.popleft()


class Together:
    """How far the ranks of a dataset are: the newest epoch that any has begun, and has broken off."""

    def __init__(self) -> None:
        self.begun = self.broken_off = -1
        self._relays: list[Relay] = []

    def add(self, relay: Relay) -> None:
        """Once, when the relay is made."""
        self._relays.append(relay)

    def begin(self, number: int) -> None:
        """A worker goes to an epoch."""
        if number > self.begun:
            self.begun = number
            for relay in self._relays:
                relay.catch_up()

    def break_off(self, number: int) -> None:
        """A worker leaves an epoch before its end."""
        self.broken_off = max(self.broken_off, number)


class Relay:
    """Of one split."""

    def __init__(self, split: Split, together: Together, threads: Executor) -> None:
        self._split = split
        self._together = together
        self._threads = threads
        self._generation = 0
        self._newest = _Epoch(-1, is_over=True)
        self._epochs: deque[_Epoch] = deque()  # those the worker has not left; the newest is last
        self._reading: tuple[_Epoch, Iterator[Any]] | None = None
        self._touching = asyncio.Lock()  # the split
        self._catching_up: asyncio.Task[None] | None = None
        together.add(self)

    # --- what workers ask -------------------------------------------------------------------------

    async def begin(self, generation: int) -> int:
        """The number of the epoch to go through: the predecessor's if it has not left it, or the next.

        Raises Fenced.
        """
        self._check(generation)
        if self._epochs and self._epochs[0].reader == generation:
            await self._leave(self._epochs.popleft())
        if not self._epochs:
            self._open()
        epoch = self._epochs[0]
        epoch.join(generation)
        self._together.begin(epoch.number)
        return epoch.number

    async def take(self, generation: int, number: int, rows: int, held_bytes: int) -> Any | None:
        """The next block of an epoch, None at its end; the function has had `rows` rows of it so far.

        Raises Fenced, and what reading the split raises.
        """
        epoch = self._current(generation, number)
        if epoch is None:
            return None  # left meanwhile: it is a thread that reads ahead who asks
        epoch.forget(rows)
        self._split.hold(held_bytes)
        while not (epoch.waiting or epoch.is_over):
            await self._read(epoch)
            self._check(generation)
        if epoch.waiting:
            return epoch.give(self._split.rows(epoch.waiting[0]))
        if epoch.error is not None:
            raise epoch.error
        return None

    def end(self, generation: int, number: int, rows: int) -> None:
        """A loop over an epoch has ended, after so many rows. Raises Fenced."""
        epoch = self._current(generation, number)
        if epoch is not None:
            epoch.forget(rows)
            if epoch.is_used_up:
                self._epochs.popleft()

    def _check(self, generation: int) -> None:
        if generation < self._generation:
            raise Fenced(
                f"generation {generation} of the rank was replaced by {self._generation}",
                hint="nothing to do: the replacement is given the rest",
            )

    def _current(self, generation: int, number: int) -> _Epoch | None:
        self._check(generation)
        epoch = self._epochs[0] if self._epochs else None
        if epoch is None or (epoch.number, epoch.reader) != (number, generation):
            return None
        return epoch

    def _open(self) -> None:
        self._newest = _Epoch(self._newest.number + 1)
        self._epochs.append(self._newest)

    async def _leave(self, epoch: _Epoch) -> None:
        if not epoch.is_over:
            self._together.break_off(epoch.number)
            await self._break_off(epoch)

    # --- ranks that were replaced -----------------------------------------------------------------

    def hand_over(self, generation: int) -> None:
        """From now on only a worker of this generation is listened to."""
        self._generation = max(self._generation, generation)
        self.catch_up()

    def catch_up(self) -> None:
        """Sees to it that a rank that was replaced keeps no other one from the next epoch."""
        if self._generation and (self._catching_up is None or self._catching_up.done()):
            self._catching_up = asyncio.ensure_future(self._catch_up())

    async def _catch_up(self) -> None:
        while self._is_awaited:
            if self._newest.is_over:
                self._open()
            elif self._newest.number <= self._together.broken_off:
                await self._break_off(self._newest)
            else:
                await self._read(self._newest)

    @property
    def _is_awaited(self) -> bool:
        """Whether others have begun an epoch that this split has not."""
        if self._newest.number < self._together.begun:
            return True
        return not (self._newest.is_over or self._is_read(self._newest))

    # --- the split --------------------------------------------------------------------------------

    async def _read(self, epoch: _Epoch) -> None:
        """One more block is waiting, or the epoch is over. Who is cancelled takes no block along."""
        await asyncio.shield(asyncio.ensure_future(self._read_one(epoch)))

    async def _read_one(self, epoch: _Epoch) -> None:
        async with self._touching:
            if epoch.is_over:
                return
            try:
                block = await self._next(epoch)
            except Exception as error:  # whatever a dataset raises, its worker fails of it
                epoch.error, block = error, None
            if block is None:
                self._stop(epoch)
            else:
                epoch.waiting.append(block)

    async def _next(self, epoch: _Epoch) -> Any | None:
        if self._reading is None or self._reading[0] is not epoch:
            self._reading = epoch, self._split.blocks()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, next, self._reading[1], None)

    async def _break_off(self, epoch: _Epoch) -> None:
        async with self._touching:
            self._stop(epoch)

    def _is_read(self, epoch: _Epoch) -> bool:
        return self._reading is not None and self._reading[0] is epoch

    def _stop(self, epoch: _Epoch) -> None:
        epoch.is_over = True
        if self._is_read(epoch):
            self._reading = None
            self._split.end()
