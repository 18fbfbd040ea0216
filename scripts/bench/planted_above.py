"""Bugs of what stands on the journal, and of those who share it; see planted_journal.py."""

from __future__ import annotations

from planted_journal import Bug

_CRASHES = "tests/proofs/test_crash_states.py::test_every_crash_state_recovers"
_STORE = "tests/proofs/test_crash_store.py"
_TWO = "tests/proofs/test_two_writers.py"
_MASK = "tests/core/test_mask.py"
_STORE_TESTS = "tests/store/test_store.py"

SHARING = [
    Bug(
        "the lock is not looked at",
        "trainstate/journal/lock.py",
        "if try_lock(fd) and os.fstat(fd).st_ino == disk.inode(path):",
        "if os.fstat(fd).st_ino == disk.inode(path):",
        f"{_TWO}::test_a_journal_that_another_process_writes_is_locked",
    ),
    Bug(
        "FENCE is not read between sync and acknowledgement",
        "trainstate/journal/active.py",
        "self._disk.fdatasync(self._fd)\n        self._fence.check()",
        "self._disk.fdatasync(self._fd)",
        f"{_TWO}::test_a_takeover_before_any_call_of_the_old_writer",
    ),
    Bug(
        "a stale epoch is accepted",
        "trainstate/journal/fence.py",
        "if self._disk.inode(self._layout.fence) == self._inode:",
        "if self._disk.inode(self._layout.fence):",
        f"{_TWO}::test_a_zombie_is_fenced_and_loses_nothing_it_acknowledged",
    ),
    Bug(
        "FENCE is checked before the write instead of after it",
        "trainstate/journal/active.py",
        "write_exactly(self._disk, self._fd, data, offset)\n"
        "        self._disk.fdatasync(self._fd)\n        self._fence.check()",
        "self._fence.check()\n        write_exactly(self._disk, self._fd, data, offset)\n"
        "        self._disk.fdatasync(self._fd)",
        f"{_TWO}::test_a_takeover_before_any_call_of_the_old_writer",
    ),
    Bug(
        "a takeover goes on in the segment of the old writer",
        "trainstate/journal/writer.py",
        "layout, uuid, fence.epoch, segment_bytes_max, same_segment=False, disk=disk",
        "layout, uuid, fence.epoch, segment_bytes_max, same_segment=True, disk=disk",
        f"{_TWO}::test_a_takeover_before_any_call_of_the_old_writer",
    ),
    Bug(
        "a takeover reads the tail before it replaces FENCE",
        "trainstate/journal/writer.py",
        "fence = Fence(layout, owner, disk)\n                undo.callback(fence.close)\n"
        "                _prepare_directories(layout, disk)\n"
        "                found = resume(\n"
        "                    layout, uuid, fence.epoch, segment_bytes_max, same_segment=False, "
        "disk=disk\n                )\n",
        "found = resume(\n"
        "                    layout, uuid, read_fence(layout, disk).epoch + 1, segment_bytes_max,\n"
        "                    same_segment=False, disk=disk,\n                )\n"
        "                fence = Fence(layout, owner, disk)\n"
        "                undo.callback(fence.close)\n",
        f"{_TWO}::test_an_old_writer_goes_on_before_any_call_of_a_takeover",
    ),
    Bug(
        "a zombie whose new segment was cleared away is not told that it is fenced",
        "trainstate/journal/active.py",
        "except FileNotFoundError:\n            self._fence.check()",
        "except FileNotFoundError:\n            pass",
        f"{_TWO}::test_a_takeover_before_any_call_of_the_old_writer",
    ),
    Bug(
        "retention ignores what pins",
        "trainstate/journal/retention.py",
        "keep_from = min([keep_from_seq, *pins.values()])",
        "keep_from = keep_from_seq",
        f"{_TWO}::test_a_tail_beside_retention_reads_every_entry",
    ),
    Bug(
        "retention removes the newest first",
        "trainstate/journal/retention.py",
        "for name in removed]",
        "for name in reversed(removed)]",
        f"{_CRASHES}[forgetting]",
    ),
    Bug(
        "retention removes the next before the last removal is durable",
        "trainstate/journal/retention.py",
        "disk.unlink(one)\n            disk.sync_dir(layout.segments)",
        "disk.unlink(one)",
        f"{_CRASHES}[forgetting]",
    ),
]

EXPORTING = [
    Bug(
        "the cursor is committed before the sink acknowledged",
        "trainstate/export/session.py",
        "gear.delivery.send(self._batch)\n",
        "gear.store.save(replace(self._cursor, next_seq=self.next_seq, epoch=self._place[0],\n"
        "                    chain=self._place[1], in_flight=None))\n"
        "            gear.delivery.send(self._batch)\n",
        _STORE,
    ),
    Bug(
        "the range in flight is not written down",
        "trainstate/export/session.py",
        "gear.store.save(\n"
        "                replace(self._cursor, in_flight=(self._cursor.next_seq, self.next_seq - 1))\n"
        "            )\n",
        "",
        "tests/export/test_pump.py::test_exactly_the_announced_range_is_sent_again",
    ),
    Bug(
        "the mark is not honoured on resuming",
        "trainstate/export/files.py",
        "file.cut(acknowledged)\n    return mark",
        "return mark",
        _STORE,
    ),
    Bug(
        "a sink acknowledges before its sync",
        "trainstate/export/files.py",
        "write_all(self._fd, data, self.size)\n            os.fdatasync(self._fd)",
        "write_all(self._fd, data, self.size)",
        _STORE,
    ),
    Bug(
        "a cursor is written in place and not synced",
        "trainstate/export/cursor.py",
        "replace_file(self.path, cursor.encode())",
        "fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)\n"
        "            os.pwrite(fd, cursor.encode(), 0)\n            os.close(fd)",
        _STORE,
    ),
]

EVENTS = [
    Bug(
        "an append is not checked",
        "trainstate/store/writer.py",
        "check(run, event)\n",
        "pass\n",
        f"{_STORE_TESTS}::test_a_refused_event_writes_nothing_not_even_those_before_it",
    ),
    Bug(
        "an incarnation is not checked",
        "trainstate/store/writer.py",
        "if incarnation != run.incarnation:",
        "if False:",
        f"{_STORE_TESTS}::test_a_lower_incarnation_is_fenced",
    ),
    Bug(
        "a retry is not compared with what is there",
        "trainstate/store/writer.py",
        "if event.SerializeToString() != was.event.SerializeToString():",
        "if False:",
        f"{_STORE_TESTS}::test_another_append_at_a_taken_position_is_a_concurrency_error",
    ),
    Bug(
        "the time of a run may fall",
        "trainstate/store/writer.py",
        "if event.time_unix_nano < not_before:",
        "if False:",
        f"{_STORE_TESTS}::test_time_of_a_run_never_falls",
    ),
    Bug(
        "evolve raises on an irregular move",
        "trainstate/core/applying.py",
        'note(run, f"{what} went from {entity.status.name} to {target.name}")',
        'raise ValueError(f"{what} went from {entity.status.name} to {target.name}")',
        "tests/core/test_evolve.py::test_an_irregular_move_is_applied_and_said",
    ),
    Bug(
        "a snapshot forgets where a run is",
        "trainstate/store/fold.py",
        "v.ResidentRun(run=to_proto(r.run), first_seq=r.first_seq, last_seq=r.last_seq)",
        "v.ResidentRun(run=to_proto(r.run), first_seq=r.first_seq, last_seq=r.first_seq)",
        "tests/proofs/test_folding.py::test_three_folds_of_one_history_agree",
    ),
    Bug(
        "the importer forgets which lines it knows",
        "trainstate/integrations/ray_export/importer.py",
        "taken = _Taken(run, lines)",
        "taken = _Taken(run, [])",
        "tests/integrations/ray_export/test_importer.py::test_importing_twice_adds_nothing",
    ),
    Bug(
        "the residue of a line is dropped",
        "trainstate/integrations/ray_export/deltas.py",
        'residue=orjson.dumps(residue) if residue else b"",',
        'residue=b"",',
        "tests/integrations/ray_export/test_deltas.py::test_what_the_state_does_not_show_is_in_the_residue",
    ),
]

SECRETS = [
    Bug(
        "the store masks nothing",
        "trainstate/store/writer.py",
        "if self.masking.may_touch(event, encoded):",
        "if False:",
        f"{_MASK}::test_no_byte_that_a_store_writes_has_a_secret",
    ),
    Bug(
        "a text among metrics is taken for a number",
        "trainstate/core/mask.py",
        "return bool(event.reason or _TEXT_IN.search(encoded))",
        "return bool(event.reason)",
        f"{_MASK}::test_what_is_passed_over_has_no_secret",
    ),
    Bug(
        "a repeated append is compared unmasked",
        "trainstate/store/writer.py",
        "            self._masked(event, run)\n            if event.Serialize",
        "            if event.Serialize",
        f"{_MASK}::test_a_repeated_append_is_recognised_after_reopening",
    ),
    Bug(
        "a long message is cut through a secret",
        "trainstate/core/secrets.py",
        "begin, end = begin_of(text, length // 2, names), end_of(text, length // 2, names)",
        "begin, end = text[: length // 2], text[-length // 2 :]",
        "tests/controller/test_failure.py::test_a_cut_goes_through_no_secret",
    ),
    Bug(
        "the digest of a traceback is of its secrets too",
        "trainstate/core/tracebacks.py",
        "hidden = Mask(None, Names(secret_names)).text(text)",
        "hidden = text",
        "tests/core/test_tracebacks.py::test_a_secret_is_not_in_the_digest",
    ),
    Bug(
        "an imported line is kept with its secrets",
        "trainstate/integrations/ray_export/importer.py",
        "self._record(masked(line, mask) if mask else line)",
        "self._record(line)",
        "tests/integrations/ray_export/test_importer.py::test_secrets_are_left_out",
    ),
    Bug(
        "every process has a salt of its own",
        "trainstate/state/salt.py",
        "return _read(path) or _made(path)",
        "return os.urandom(_BYTES)",
        "tests/state/test_salt.py::test_a_salt_is_made_once",
    ),
]

OTHER_BUGS = [*SHARING, *EXPORTING, *EVENTS, *SECRETS]
