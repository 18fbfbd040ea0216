"""Durable appends against raw writes of the same bytes."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

from making import SECOND, WORKERS, beginning, report
from measuring import Row, absolute, alternate, at_least, at_most, timed

from trainstate.journal import Chunk, Writer
from trainstate.store import Store
from trainstate.store.events import encode

_ROUNDS = 9
_APPENDS = 300
_PRODUCERS = 64
_SEGMENT = 64 * 1024 * 1024


def append_rows(folder: Path, events: int) -> list[Row]:
    """One producer, 64 producers, batches of 1,000, events through the store."""
    body = _event_body()
    return [
        _one_producer(folder, body),
        _many_producers(folder, body),
        _batches(folder, body),
        _stored(folder),
    ]


def _event_body() -> bytes:
    event = report("0" * 32, 1, 7, SECOND)
    event.run_id = "1" * 32
    event.run_seq = 100
    event.incarnation = 1
    return encode(event)


class _Raw:
    """The limit: preallocated file, pwrite, fdatasync."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self.fd, 0, _SEGMENT)
        os.fsync(self.fd)
        self.at = 0

    def write(self, data: bytes) -> None:
        os.pwrite(self.fd, data, self.at)
        os.fdatasync(self.fd)
        self.at += len(data)


def _one_producer(folder: Path, body: bytes) -> Row:
    raw = _Raw(folder / "raw-one")
    frame = body + bytes(64)  # what the frame adds: header, one stream, CRC
    chunk = Chunk(body, 1, (1,), SECOND, SECOND)
    with Writer.open(folder / "one") as writer:
        ours, limit = alternate(
            _ROUNDS,
            lambda: _p50(lambda: writer.append(chunk)),
            lambda: _p50(lambda: raw.write(frame)),
        )
    return at_most(
        "durable append, one producer, p50",
        ours * 1e6,
        limit * 1e6,
        "raw preallocated pwrite + fdatasync of the same bytes",
        1.3,
        "µs",
    )


def _p50(work) -> float:  # type: ignore[no-untyped-def]
    return statistics.median(timed(work) for _ in range(_APPENDS))


def _many_producers(folder: Path, body: bytes) -> Row:
    chunk = Chunk(body, 1, (1,), SECOND, SECOND)
    with Writer.open(folder / "many") as writer:
        one, many = alternate(
            5, lambda: 1 / _rate(writer, chunk, 1), lambda: 1 / _rate(writer, chunk, _PRODUCERS)
        )
    return at_least("durable appends, 64 producers", 1 / many, 1 / one, "one producer", 3, "/s")


def _rate(writer: Writer, chunk: Chunk, producers: int, seconds: float = 0.5) -> float:
    """Acknowledged appends per second of that many threads, each waiting for its own."""
    done = [0] * producers
    stop = time.perf_counter() + seconds

    def produce(index: int) -> None:
        while time.perf_counter() < stop:
            writer.append(chunk)
            done[index] += 1

    threads = [threading.Thread(target=produce, args=(index,)) for index in range(producers)]
    taken = timed(lambda: ([t.start() for t in threads], [t.join() for t in threads]))
    return sum(done) / taken


def _batches(folder: Path, body: bytes) -> Row:
    raw = _Raw(folder / "raw-batches")
    batch = body * 1000
    chunk = Chunk(batch, 1000, (1,), SECOND, SECOND)
    with Writer.open(folder / "batches") as writer:
        ours, limit = alternate(
            60, lambda: timed(lambda: writer.append(chunk)), lambda: timed(lambda: raw.write(batch))
        )
    return at_least(
        "pre-encoded batches of 1,000 events",
        1000 / ours,
        1000 / limit,
        "raw pwrite + fdatasync of the same bytes",
        0.8,
        "/s",
    )


def _stored(folder: Path) -> Row:
    rates = []
    with Store.open(folder / "stored") as store:
        for number in range(5):
            run_id, attempt_id = f"run{number}", f"{number:032x}"
            opened = store.open_run(run_id, "bench", SECOND)
            store.append(run_id, 1, opened.run_seq, list(beginning(attempt_id, SECOND)))
            rates.append(_store_rate(store, run_id, attempt_id))
    return absolute(
        "events built, checked and stored", statistics.median(rates), "/s", 100_000, most=False
    )


def _store_rate(store: Store, run_id: str, attempt_id: str, batches: int = 40) -> float:
    """Events per second, in appends of 1,000 that are durable at the end."""
    at = store.state(run_id).run_seq

    def work() -> None:
        nonlocal at
        for batch in range(batches):
            numbers = range(batch * 1000, batch * 1000 + 1000)
            events = [report(attempt_id, n % WORKERS, n // WORKERS, SECOND) for n in numbers]
            pending = store.submit(run_id, 1, at, events)
            at += 1000
        pending.wait()

    return batches * 1000 / timed(work)
