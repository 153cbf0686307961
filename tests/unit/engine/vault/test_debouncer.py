"""Paths settle before they are looked at."""

from __future__ import annotations

from memsvc.engine.vault.watcher import MAX_DELAY_FACTOR, Debouncer


def test_a_path_is_given_once_it_is_quiet() -> None:
    """Not before its quiet time is over, and once."""
    settling = Debouncer(1.0)
    settling.note(["a"], 10.0)

    early, due, again = settling.take(10.9), settling.take(11.0), settling.take(20.0)

    assert (early, due, again) == ([], ["a"], [])


def test_every_change_begins_the_quiet_time_anew() -> None:
    """A file that is written in pieces is looked at after the last one."""
    settling = Debouncer(1.0)
    settling.note(["a"], 10.0)
    settling.note(["a"], 10.8)

    early, due = settling.take(11.5), settling.take(11.8)

    assert (early, due) == ([], ["a"])


def test_a_path_that_never_is_quiet_is_given_all_the_same() -> None:
    """A log that is appended to all the time is looked at after a few quiet times."""
    settling = Debouncer(1.0)
    found = []
    for tenth in range(100):
        settling.note(["a"], tenth / 10)
        if settling.take(tenth / 10):
            found.append(tenth / 10)

    assert found[0] == MAX_DELAY_FACTOR
    assert len(found) == 1


def test_paths_settle_by_themselves_and_come_in_order() -> None:
    """One that changes does not hold up the others; the next time is the earliest."""
    settling = Debouncer(1.0)
    settling.note(["b", "a"], 10.0)
    settling.note(["c"], 10.5)

    first_time = settling.next_time()
    due = settling.take(11.2)

    assert (first_time, due, settling.next_time(), len(settling)) == (11.0, ["a", "b"], 11.5, 1)
    assert "c" in settling
    assert Debouncer(1.0).next_time() is None
