"""The same durable appends with what people use otherwise. Nothing is asked of them: for comparison."""

from __future__ import annotations

import os
import sqlite3
import statistics
from pathlib import Path
from uuid import uuid4

from making import SECOND, report
from measuring import Row, noted, timed

from trainstate.journal import Chunk, Writer
from trainstate.store.events import encode

_APPENDS = 300


def peer_rows(folder: Path, events: int) -> list[Row]:
    """Median time of one durable append of one event."""
    event = report("0" * 32, 1, 7, SECOND)
    event.run_id = "1" * 32
    body = encode(event)
    rows = [
        noted("trainstate journal", _ours(folder, body), "µs", "one durable append, p50"),
        noted("SQLite, WAL, synchronous=FULL", _sqlite(folder, body), "µs", "the same"),
        noted("eventsourcing on SQLite", _eventsourcing(folder, body), "µs", "the same"),
    ]
    try:
        rows.append(noted("Ray ExportEventLogger", _ray(folder), "µs", "not synced at all"))
    except ImportError:
        rows.append(noted("Ray ExportEventLogger", float("nan"), "µs", "ray is not installed"))
    return rows


def _p50(work) -> float:  # type: ignore[no-untyped-def]
    return statistics.median(timed(work) for _ in range(_APPENDS)) * 1e6


def _ours(folder: Path, body: bytes) -> float:
    chunk = Chunk(body, 1, (1,), SECOND, SECOND)
    with Writer.open(folder / "ours") as writer:
        return _p50(lambda: writer.append(chunk))


def _sqlite(folder: Path, body: bytes) -> float:
    with sqlite3.connect(folder / "peer.sqlite", isolation_level=None) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=full")
        database.execute("create table event (seq integer primary key, run text, body blob)")
        insert = "insert into event (run, body) values (?, ?)"
        return _p50(lambda: database.execute(insert, ("1" * 32, body)))


def _eventsourcing(folder: Path, body: bytes) -> float:
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    recorder = SQLiteApplicationRecorder(SQLiteDatastore(str(folder / "eventsourcing.sqlite")))
    recorder.create_table()
    run = uuid4()
    version = 0

    def insert() -> None:
        nonlocal version
        version += 1
        recorder.insert_events([StoredEvent(run, version, "Report", body)])

    return _p50(insert)


def _ray(folder: Path) -> float:
    from ray._private.event.export_event_logger import EventLogType, get_export_event_logger
    from ray.core.generated.export_train_state_pb2 import ExportTrainRunEventData

    os.makedirs(folder / "export_events", exist_ok=True)
    logger = get_export_event_logger(EventLogType.TRAIN_STATE, str(folder))
    message = ExportTrainRunEventData(id="1" * 32, name="bench", status="RUNNING")
    return _p50(lambda: logger.send_event(message))
