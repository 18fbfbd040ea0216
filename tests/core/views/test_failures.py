"""Failures of an attempt, by rank (A6.4)."""

from __future__ import annotations

from trainstate.core.model import Attempt, AttemptStatus, Run, RunStatus, Worker
from trainstate.core.secrets import ends_of
from trainstate.core.views.failures import SNIPPET_MAX, failures, in_rays_words
from trainstate.core.views.ray_line import attempt_line, run_line
from trainstate.v1 import state_pb2 as s


def failed(rank: int, traceback: str = "", message: str = "") -> Worker:
    """A worker that failed of that."""
    error = s.Error(type="ValueError", message=message, traceback=traceback, ranks=[rank])
    return Worker(rank, error=error)


def attempt_of(*workers: Worker) -> Attempt:
    """An attempt that failed."""
    made = Attempt("a", 1, status=AttemptStatus.ERRORED, status_reason="why")
    made.workers.update({one.rank: one for one in workers})
    return made


def test_ranks_that_failed_alike_are_together():
    """What differs is a number that is no line's: one text, that of the first rank."""
    attempt = attempt_of(
        failed(0, "line 7\nno data for rank 0"),
        failed(1, "line 7\nno data for rank 1"),
        failed(2, "line 8\nno data for rank 2"),
        Worker(3),
    )
    found = failures(Run("r"), attempt)
    assert [(0, 1), (2,)] == [one.ranks for one in found]
    assert "line 7\nno data for rank 0" == found[0].text
    assert (
        "[Rank 0,1 Error Snippet]:\nline 7\nno data for rank 0\n\n"
        "[Rank 2 Error Snippet]:\nline 8\nno data for rank 2\n"
    ) == in_rays_words(Run("r"), attempt)


def test_generations_of_a_rank_count_once():
    """One that was replaced, and failed again of the same."""
    attempt = attempt_of(failed(1, "boom"))
    attempt.replaced.append(failed(1, "boom"))
    assert [(1,)] == [one.ranks for one in failures(Run("r"), attempt)]


def test_a_traceback_is_found_by_its_digest():
    """It is the run's; without one the message is told."""
    known = s.Error(type="E", message="short", traceback_digest=b"d", ranks=[0])
    attempt = attempt_of(Worker(0, error=known), failed(1, message="no story"))
    run = Run("r", tracebacks=[s.Traceback(digest=b"d", text="the whole story\n")])
    assert ["the whole story", "ValueError: no story"] == [
        one.text for one in failures(run, attempt)
    ]


def test_without_workers_it_is_the_attempts():
    """A start that failed has nobody to blame."""
    attempt = attempt_of()
    assert ([], "") == (failures(Run("r"), attempt), in_rays_words(Run("r"), attempt))
    attempt.error = s.Error(message="no room")
    assert "no room\n" == in_rays_words(Run("r"), attempt)


def test_a_long_text_has_a_beginning_and_an_end():
    """A view is to be looked at; what was raised is at the end."""
    text = "begin" + "x" * 10_000 + "end"
    cut = ends_of(text, SNIPPET_MAX)
    assert cut.startswith("begin")
    assert cut.endswith("end")
    assert f"({len(text) - SNIPPET_MAX} characters)" in cut
    assert "y" * SNIPPET_MAX == ends_of("y" * SNIPPET_MAX, SNIPPET_MAX)


def test_rays_log_tells_a_live_run_by_rank():
    """Attempt and run; an imported one has Ray's own text."""
    attempt = attempt_of(failed(0, "boom"))
    run = Run("r", status=RunStatus.ERRORED, status_reason="why", error=s.Error(message="boom"))
    run.attempts.append(attempt)
    told = "[Rank 0 Error Snippet]:\nboom\n"
    assert told == attempt_line(run, attempt)["status_detail"] == run_line(run)["status_detail"]
    run.imported = True
    assert "why" == attempt_line(run, attempt)["status_detail"] == run_line(run)["status_detail"]
