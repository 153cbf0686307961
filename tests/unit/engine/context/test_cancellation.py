"""Contexts that nobody listens to any more, and contexts whose time runs out on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.context import ContextNotice, ContextPlan, ContextSummary, Event, Locale, OmissionReason, Section
from memsvc.engine.context.service import ContextRun
from memsvc.engine.services import Services
from tests.unit.engine.context.context_fixture import HERE, WHOLE, shown, stock, summary


@contextmanager
def searches_held_up(application: Services) -> Iterator[None]:
    """No search begins in here."""
    pool = application.contexts._search_executor
    release, busy = threading.Event(), threading.Barrier(pool._max_workers + 1)

    def occupy() -> None:
        busy.wait()
        release.wait()

    held = [pool.submit(occupy) for _ in range(pool._max_workers)]
    busy.wait()
    try:
        yield
    finally:
        release.set()
        for one in held:
            one.result()


def rest_of(run: ContextRun, told: int, deadline: Deadline) -> list[Event]:
    """Go on to the end."""
    events: list[Event] = []
    while batch := run.next_events(told + len(events) - 1, deadline):
        events += [event for _, event in batch]
    return events


def test_an_abandoned_context_ends_its_search(application: Services) -> None:
    """It is not begun any more, nothing further is built, and the context can be gone on with all the same."""
    made = stock(application)
    with searches_held_up(application):
        run = application.contexts.begin(WHOLE)
        told = len(run.next_events(-1, Deadline()))
        search = run._builder._pending
        assert search is not None

        run.abandon()

        assert search.cancelled()
        assert run.next_events(told - 1, Deadline()) == []
    again = application.contexts.resume(run.id, told - 1, HERE)
    rest = rest_of(again, told, Deadline())
    assert made["fact"].id in shown(rest, Section.LONG_TERM)
    assert isinstance(rest[-1], ContextSummary)


def test_a_broken_stream_that_ends_late_leaves_the_one_that_resumed_it_alone(application: Services) -> None:
    """The service may learn of a broken connection when the client has long gone on over another one."""
    stock(application)
    with searches_held_up(application):
        run = application.contexts.begin(WHOLE)
        told = len(run.next_events(-1, Deadline()))
        again = application.contexts.resume(run.id, told - 1, HERE)

        run.abandon()

    assert isinstance(rest_of(again, told, Deadline())[-1], ContextSummary)


def test_abandoning_frees_who_waits_for_the_search(application: Services) -> None:
    """The thread that builds returns at once, with nothing."""
    stock(application)
    with searches_held_up(application), ThreadPoolExecutor(1) as pool:
        run = application.contexts.begin(WHOLE)
        told = 0
        while batch := run.next_events(told - 1, Deadline()):
            told += len(batch)
            if shown([event for _, event in batch], Section.SESSION):
                break
        waiting = pool.submit(run.next_events, told - 1, Deadline())

        run.abandon()

        assert waiting.result(timeout=30) == []
    assert isinstance(rest_of(application.contexts.resume(run.id, 0, HERE), told, Deadline())[-1], ContextSummary)


@pytest.mark.parametrize(("locale", "said"), [(Locale.EN, "no time for: This conversation"), (Locale.ZH, "本次对话")])
def test_a_deadline_on_the_way_leaves_sections_out(application: Services, locale: Locale, said: str) -> None:
    """The summary comes, a warning names what was not read, and a delta does not call it removed."""
    made = stock(application)
    query = replace(WHOLE, locale=locale)
    first = application.contexts.render(query, Deadline())
    run = application.contexts.begin(replace(query, earlier=first.cursor))
    plan = [event for _, event in run.next_events(-1, Deadline())]

    rest = rest_of(run, len(plan), Deadline.after(0.0))

    assert isinstance(plan[0], ContextPlan)
    (notice,) = [one for one in rest if isinstance(one, ContextNotice)]
    assert notice.code == "DEADLINE"
    assert said in notice.message
    last = summary(rest)
    assert last.removed_ids == ()
    uncertain = {one for left in last.left_out if left.reason is OmissionReason.UNCERTAIN for one in left.memory_ids}
    assert uncertain == {made[name].id for name in ("hello", "secret", "fact", "note", "global")}


def test_a_session_is_measured_by_the_counts_kept_of_it(application: Services) -> None:
    """Against its own limit, whatever the budget: nothing is counted anew."""
    contexts = application.contexts
    contexts._dependencies = replace(contexts._dependencies, session_size=lambda _: (90, 100))

    notices = [one for one in contexts.render(WHOLE, Deadline()).events if isinstance(one, ContextNotice)]

    assert [(one.code, one.value, one.limit) for one in notices] == [("SESSION_NEARLY_FULL", 90, 100)]
