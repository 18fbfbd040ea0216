"""Blocks of splits go from generation to generation of a rank, and nobody waits for who was replaced."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainstate.controller.data_relay import Relay, Together
from trainstate.errors import Fenced

# A block is (epoch, rank, number) and has ten rows.
Block = tuple[int, int, int]
BLOCKS, ROWS = 4, 10


class FakeSplit:
    """Like Ray's: at the start of an epoch it meets the others, and counts who comes."""

    def __init__(self, rank: int, meeting: threading.Barrier) -> None:
        self.rank, self.meeting = rank, meeting
        self.begun = self.ended = 0
        self.read = self.held = 0
        self.broken = False

    def blocks(self) -> Iterator[Block]:
        epoch, self.begun = self.begun, self.begun + 1
        self.meeting.wait(30)
        for number in range(BLOCKS):
            if self.broken:
                raise ValueError("no such column")
            self.read += 1
            yield epoch, self.rank, number

    def rows(self, _: Block) -> int:
        return ROWS

    def hold(self, size_bytes: int) -> None:
        self.held = size_bytes

    def end(self) -> None:
        self.ended += 1


class Reader:
    """A worker of a rank: it asks for a block when the function has had what it was given before."""

    def __init__(self, relay: Relay, generation: int = 0) -> None:
        self.relay, self.generation = relay, generation
        self.number, self.given = -1, 0

    async def begin(self) -> int:
        self.number, self.given = await self.relay.begin(self.generation), 0
        return self.number

    async def take(self, rows: int | None = None) -> Block | None:
        had = self.given if rows is None else rows
        block = await self.relay.take(self.generation, self.number, had, 7)
        self.given += ROWS if block else 0
        return block

    async def rest(self) -> list[Block]:
        found = []
        while block := await self.take():
            found.append(block)
        self.relay.end(self.generation, self.number, self.given)
        return found

    async def epoch(self) -> list[Block]:
        await self.begin()
        return await self.rest()


def whole(epoch: int, rank: int) -> list[Block]:
    return [(epoch, rank, number) for number in range(BLOCKS)]


def play(story: Callable[[list[Relay], list[FakeSplit]], Awaitable[None]], ranks: int = 2) -> None:
    """Has a story played on the relays of a dataset."""

    async def main() -> None:
        meeting = threading.Barrier(ranks)
        splits = [FakeSplit(rank, meeting) for rank in range(ranks)]
        together = Together()
        with ThreadPoolExecutor(ranks) as threads:
            relays = [Relay(split, together, threads) for split in splits]
            try:
                async with asyncio.timeout(60):
                    await story(relays, splits)
            finally:
                meeting.abort()

    asyncio.run(main())


async def settled(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_epochs_are_whole():
    """Every rank gets every block of its split, once, epoch after epoch."""

    async def story(relays, splits):
        readers = [Reader(relay) for relay in relays]
        for epoch in range(3):
            found = await asyncio.gather(*(reader.epoch() for reader in readers))
            assert [whole(epoch, 0), whole(epoch, 1)] == found
        assert [(3, 3, 7)] * 2 == [(one.begun, one.ended, one.held) for one in splits]

    play(story)


def test_the_replacement_goes_on():
    """It gets what its predecessor took and the function had not, then the rest; nobody else does."""

    async def story(relays, splits):
        survivor, dead = map(Reader, relays)
        first = asyncio.create_task(survivor.epoch())
        assert 0 == await dead.begin()
        assert whole(0, 1)[:3] == [await dead.take(rows) for rows in (0, 5, 19)]
        relays[1].hand_over(1)
        replacement = Reader(relays[1], 1)
        assert whole(0, 1)[1:] == await replacement.epoch()
        assert whole(0, 0) == await first
        later = await asyncio.gather(survivor.epoch(), replacement.epoch())
        assert [whole(1, 0), whole(1, 1)] == later
        assert [2, 2] == [one.begun for one in splits]

    play(story)


def test_who_was_replaced_is_fenced():
    """An older generation is refused, also one that waits already, and takes no block along."""

    async def story(relays, splits):
        dead = Reader(relays[1])
        await dead.begin()
        waiting = asyncio.create_task(dead.take())
        await settled(lambda: splits[1].meeting.n_waiting == 1)
        relays[1].hand_over(1)
        survivor = asyncio.create_task(Reader(relays[0]).epoch())
        with pytest.raises(Fenced, match="generation 0 of the rank was replaced by 1"):
            await waiting
        for refused in (dead.begin, dead.take):
            with pytest.raises(Fenced):
                await refused()
        assert whole(0, 1) == await Reader(relays[1], 1).epoch()
        assert whole(0, 0) == await survivor
        assert [1, 1] == [one.begun for one in splits]

    play(story)


def test_a_call_that_is_cancelled_takes_no_block_along():
    """The block it was waiting for is the next one given."""

    async def story(relays, splits):
        reader = Reader(relays[1])
        await reader.begin()
        waiting = asyncio.create_task(reader.take())
        await settled(lambda: splits[1].meeting.n_waiting == 1)
        waiting.cancel()
        other = asyncio.create_task(Reader(relays[0]).epoch())
        assert whole(0, 1) == await reader.rest()
        assert whole(0, 0) == await other

    play(story)


@pytest.mark.parametrize("taken", [0, 2, 4], ids=["before", "in", "after"])
def test_nobody_waits_for_who_was_replaced(taken):
    """The others go on to new epochs while it is not there; it gets the rest, and later epochs whole."""

    async def story(relays, splits):
        survivor, dead = map(Reader, relays)
        first = asyncio.create_task(survivor.epoch())
        if taken:
            await dead.begin()
        for _ in range(taken):
            await dead.take()
        relays[1].hand_over(1)
        assert whole(0, 0) == await first
        assert [whole(1, 0), whole(2, 0)] == [await survivor.epoch(), await survivor.epoch()]
        replacement = Reader(relays[1], 1)
        assert whole(0, 1)[max(0, taken - 1) :] == await replacement.epoch()
        assert [whole(1, 1), whole(2, 1)] == [await replacement.epoch(), await replacement.epoch()]

    play(story)


def test_it_may_die_between_two_epochs():
    """What it has left is not given again: its replacement begins the next epoch with the others."""

    async def story(relays, splits):
        survivor, dead = map(Reader, relays)
        await asyncio.gather(survivor.epoch(), dead.epoch())
        relays[1].hand_over(1)
        assert whole(1, 0) == await survivor.epoch()
        assert whole(1, 1) == await Reader(relays[1], 1).epoch()

    play(story)


def test_a_replacement_may_be_replaced():
    """Each generation goes on where the one before was."""

    async def story(relays, splits):
        survivor = asyncio.create_task(Reader(relays[0]).epoch())
        for generation in range(3):
            relays[1].hand_over(generation)
            reader = Reader(relays[1], generation)
            await reader.begin()
            assert (0, 1, generation) == await reader.take()
            assert (0, 1, generation + 1) == await reader.take()
        relays[1].hand_over(3)
        assert whole(0, 1)[3:] == await Reader(relays[1], 3).epoch()
        assert whole(0, 0) == await survivor

    play(story)


def test_a_loop_that_fails_breaks_nothing_off():
    """The loop of a function that fails ends like one that is left: the replacement gets the rest."""

    async def story(relays, splits):
        survivor, dead = map(Reader, relays)
        first = asyncio.create_task(survivor.epoch())
        await dead.begin()
        await dead.take()
        relays[1].end(0, 0, 10)
        relays[1].hand_over(1)
        assert whole(0, 1)[1:] == await Reader(relays[1], 1).epoch()
        assert whole(0, 0) == await first

    play(story)


def test_an_epoch_is_broken_off_when_another_is_begun():
    """The split is not read further, neither is that of who was replaced and is behind."""

    async def story(relays, splits):
        survivor, dead = map(Reader, relays)
        await asyncio.gather(survivor.begin(), dead.begin())
        await asyncio.gather(survivor.take(), dead.take())
        relays[1].hand_over(1)
        assert whole(1, 0) == await survivor.epoch()
        replacement = Reader(relays[1], 1)
        assert whole(0, 1)[:1] == await replacement.epoch()
        assert whole(1, 1) == await replacement.epoch()
        assert [1 + BLOCKS] * 2 == [one.read for one in splits]
        assert [2, 2] == [one.ended for one in splits]

    play(story)


def test_what_a_thread_reads_ahead_of_a_loop_that_was_left_is_nothing():
    """Who asks for blocks of an epoch that the worker has left is told that it is over."""

    async def story(relays, splits):
        readers = [Reader(relay) for relay in relays]
        await asyncio.gather(*(reader.epoch() for reader in readers))
        assert await readers[0].take() is None

    play(story)


def test_what_a_dataset_raises_the_worker_gets():
    """So does its replacement; what was read before is given."""

    async def story(relays, splits):
        survivor, reader = map(Reader, relays)
        await asyncio.gather(survivor.begin(), reader.begin())
        await asyncio.gather(survivor.take(), reader.take())
        splits[1].broken = True
        with pytest.raises(ValueError, match="no such column"):
            await reader.take(5)
        relays[1].hand_over(1)
        replacement = Reader(relays[1], 1)
        await replacement.begin()
        assert (0, 1, 0) == await replacement.take()
        with pytest.raises(ValueError, match="no such column"):
            await replacement.take()

    play(story)
