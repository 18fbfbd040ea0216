"""What is made in threads is made to its end, and who removes it waits for that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from trainstate.controller.making import Making


def test_it_goes_on_when_it_is_cancelled():
    """Whoever waits for it is let go at once; `over` returns when it is done."""
    go, made = threading.Event(), []

    def make(what: str) -> str:
        go.wait()
        made.append(what)
        return what

    async def test() -> None:
        making = Making()
        waiting = asyncio.ensure_future(making.do(make, "actor"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        removing = asyncio.ensure_future(making.over())
        await asyncio.sleep(0)
        assert ([], False) == (made, removing.done())
        go.set()
        await removing
        assert ["actor"] == made

    asyncio.run(test())


def test_its_result_and_its_error_are_the_callers():
    """And what failed holds nobody up."""

    def fail() -> None:
        raise ValueError("no room")

    async def test() -> None:
        making = Making()
        assert "made" == await making.do(lambda: "made")
        with pytest.raises(ValueError, match="no room"):
            await making.do(fail)
        await making.over()

    asyncio.run(test())
