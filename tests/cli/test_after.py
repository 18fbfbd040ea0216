"""The verbs that look after a journal: verify, repair, retain; and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import LINES, LOG, RUNS, Cli
from tests.store import making
from trainstate.store import Store

SEGMENT = "00000000000000000001-0000000001.seg"


def flip(path: Path, offset: int) -> None:
    """Damages one byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def segment(cli: Cli) -> Path:
    return cli.journal / "seg" / SEGMENT


# --- verify -------------------------------------------------------------------------------------


def test_verify_of_a_sound_journal(imported: Cli):
    """It says how much it read, and is content."""
    outcome = imported("verify")
    events = len(imported("tail", "--json").documents)
    assert (0, "") == (outcome.code, outcome.err)
    assert f"{imported.journal}: sound\n  1 segment, " in outcome.out
    assert f"{events} entries" in outcome.out


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_verify_names_damage(own: Cli, where):
    """Segment, offset, seq range, and the command to run next; exit 1. Also in the last frame."""
    size = segment(own).stat().st_size
    flip(segment(own), {"first": 200, "middle": size // 2, "last": size - 8}[where])
    outcome = own("verify")
    document = own("verify", "--json").document
    (report,) = document["journals"]
    damage = report["damages"][0]
    assert 1 == outcome.code
    assert not report["ok"]
    assert f"damage: segment {SEGMENT}, offset {damage['offset']}, " in outcome.out
    assert "seq" in outcome.out
    assert f"hint: trainstate repair --journal {own.journal}\n" in outcome.err
    assert "error: " in outcome.err
    assert outcome.err.count("\n") == 2


def test_verify_of_a_torn_tail(own: Cli):
    """A write that was cut off is no damage: exit 0, and it says what that means."""
    with segment(own).open("ab") as file:
        file.write(b"TSF1 half a frame")
    outcome = own("verify")
    assert (0, "") == (outcome.code, outcome.err)
    assert f"torn tail: segment {SEGMENT}, offset " in outcome.out
    assert "nothing acknowledged is missing" in outcome.out


def test_verify_takes_the_path_that_hints_name(own: Cli):
    """`trainstate verify PATH` is what our errors say."""
    assert own("verify").out == own("verify", own.journal, TRAINSTATE_HOME="/nowhere").out


# --- repair -------------------------------------------------------------------------------------


def test_repair_of_what_is_whole(own: Cli):
    """There is nothing to do, and nothing is done."""
    assert f"{own.journal}: nothing to repair\n" == own("repair").out


def test_repair_rebuilds_what_can_be_rebuilt(own: Cli):
    """Without loss, so without being told to accept one."""
    (own.journal / "FENCE").write_bytes(b"garbage")
    (own.journal / "IDENTITY").write_bytes(b"garbage")
    segment(own).with_suffix(".idx").unlink()
    outcome = own("repair", own.journal)
    assert (0, "") == (outcome.code, outcome.err)
    assert all(name in outcome.out for name in ("FENCE", "IDENTITY", ": repaired"))
    assert segment(own).with_suffix(".idx").exists()
    assert 0 == own("verify").code
    assert RUNS == [run["run_id"] for run in own("runs", "--json").documents]


def test_repair_loses_nothing_unasked(own: Cli):
    """It says what would be lost and the command that accepts it; then the journal ends before."""
    flip(segment(own), segment(own).stat().st_size // 2)
    before = segment(own).read_bytes()
    refused = own("repair")
    assert 1 == refused.code
    assert "gives up every entry after seq " in refused.err
    assert f"hint: trainstate repair --accept-loss --journal {own.journal}" in refused.err
    assert before == segment(own).read_bytes()
    accepted = own("repair", "--accept-loss", "--json")
    assert 0 == accepted.code
    assert accepted.document["done"]
    assert 0 == own("verify").code
    events = own("tail", "--json").documents
    assert list(range(1, len(events) + 1)) == [event["seq"] for event in events]
    assert 0 == own("import", "ray-export", LOG).code


def test_repair_beside_a_writer(own: Cli):
    """Somebody is writing: the error says what to do about it."""
    with Store.open(own.journal):
        outcome = own("repair")
    assert 1 == outcome.code
    assert "a writer lives" in outcome.err


def test_repair_is_of_one_journal(own: Cli):
    """Where there are many it asks for a name."""
    Store.open(own.home / "journals" / "second").close()
    outcome = own("repair")
    assert 2 == outcome.code
    assert "2 journals here" in outcome.err


# --- retain -------------------------------------------------------------------------------------


@pytest.fixture
def long(cli: Cli) -> Cli:
    """A journal of several segments: four runs that ended, and one that goes on."""
    cli.journal.parent.mkdir(parents=True)
    with Store.open(cli.journal, segment_bytes_max=1 << 16) as store:
        for number in range(5):
            _, at, incarnation = store.open_run(f"run-{number}", "test", 10**9)
            events = [making.created(name=f"name-{number}"), *map(making.big, [30_000] * 2)]
            if number != 2:
                events.append(making.errored())
            for event in events:
                store.append(f"run-{number}", incarnation, at, [event])
                at += 1
    return cli


def test_retain_drops_whole_segments_up_to_what_goes_on(long: Cli):
    """What keeps it from dropping more is named; the rest is gone, and everything still reads."""
    segments = list((long.journal / "seg").glob("*.seg"))
    assert len(segments) > 3
    first = [run["first_seq"] for run in long("runs", "--json").documents][2]
    told = long("retain", "--keep-days", "0", "--dry-run")
    assert segments == list((long.journal / "seg").glob("*.seg"))
    assert "would drop" in told.out
    assert "kept for run run-2 name-2 (INITIALIZING)" in told.out
    document = long("retain", "--keep-days", "0", "--json").document
    assert ["run run-2 name-2 (INITIALIZING)"] == document["pinned_by"]
    assert 1 < document["first_seq"] <= first
    assert len(document["removed"]) == len(segments) - len(
        list((long.journal / "seg").glob("*.seg"))
    )


def test_a_journal_whose_beginning_is_gone_is_read_as_ever(long: Cli):
    """From where its history begins; what asks for more is told where that is."""
    first = long("retain", "--keep-days", "0", "--json").document["first_seq"]
    assert first == long("tail", "--json").documents[0]["seq"]
    assert "run-4" in long("tail", "--run", "run-4", "--json").out
    for args in (
        ("runs",),
        ("stats",),
        ("verify",),
        ("replay",),
        ("replay", "--step"),
        ("diff", 0, 99),
        ("show", "run-2"),
        ("goodput", "run-2"),
        ("tail", "--from", 1),
    ):
        outcome = long(*args)
        assert (0, "") == (outcome.code, outcome.err), args


def test_retain_stops_before_what_is_not_exported(long: Cli, tmp_path: Path):
    """An export that has not begun with the newest events needs them."""
    pytest.importorskip("trainstate_exporters")
    assert 0 == long("export", "jsonl", "--to", tmp_path / "events.jsonl").code
    document = long("retain", "--keep-days", "0", "--json").document
    assert any("jsonl" in who for who in document["pinned_by"])


# --- export -------------------------------------------------------------------------------------


def test_export_goes_on_where_it_stopped(own: Cli, tmp_path: Path):
    """The second time there is nothing left to send."""
    target = tmp_path / "events.jsonl"
    first = own("export", "jsonl", "--to", target, "--json").document
    again = own("export", "jsonl", "--to", target)
    assert own("tail", "--json").documents == [
        json.loads(line) for line in target.read_text().splitlines()
    ]
    assert (len(target.read_text().splitlines()), str(target)) == (
        first["written"],
        first["target"],
    )
    assert f"wrote 0 records to {target}\n" == again.out


def test_export_to_standard_output(own: Cli):
    """What it did is said aside; every call prints everything."""
    outcomes = [own.process("export", "jsonl", "--to", "-") for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert own("tail", "--json").documents == outcomes[0].documents
    assert f"wrote {len(outcomes[0].documents)} records to -\n" == outcomes[0].err


def test_export_of_rays_log(own: Cli, tmp_path: Path):
    """What came in goes out, line by line, but for the event ids."""

    def lines(path: Path) -> list[dict[str, object]]:
        found = [json.loads(line) for line in path.read_text().splitlines()]
        return [{**line, "event_id": ""} for line in found]

    assert 0 == own("export", "ray_export_log", "--to", tmp_path / "ray").code
    written = lines(tmp_path / "ray" / "event_EXPORT_TRAIN_STATE.log")
    assert (LINES, lines(LOG)) == (len(written), written)


def test_a_lost_identity_is_said_and_restored(imported: Cli):
    """The segments say which journal they are of."""
    (imported.journal / "IDENTITY").unlink()
    verified = imported("verify", imported.journal)
    assert 1 == verified.code
    assert "IDENTITY is missing" in verified.out
    assert 0 == imported("repair", imported.journal).code
    assert 0 == imported("verify", imported.journal).code


def test_a_segment_of_an_epoch_nobody_claimed_is_set_aside(imported: Cli):
    """A damaged one with the highest epoch does not stop the repair, nor make it start again."""
    (imported.journal / "seg" / "00000000000000000001-0000000099.seg").touch()
    assert 1 == imported("verify", imported.journal).code
    assert 0 == imported("repair", imported.journal, "--accept-loss").code
    assert 0 == imported("verify", imported.journal).code
