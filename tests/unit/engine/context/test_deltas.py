"""Deltas: what is told since an earlier context, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.context import ContextItem, Locale, OmissionReason, Section
from memsvc.domain.errors import BackendUnavailableError, InvalidRequestError
from memsvc.domain.scope import Scope
from memsvc.domain.search import SearchReply
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.search.search import SearchService
from memsvc.engine.services import Services
from tests.unit.engine.context.context_fixture import HERE, WHOLE, remember, shown, stock, summary

WEB = Scope("ada", "web")


class Unreachable(SearchService):
    """A search none of whose retrievers answers."""

    def __init__(self) -> None:
        """Need nothing."""

    def search(self, *_: object) -> SearchReply:
        """Fail."""
        raise BackendUnavailableError("vectors")


@pytest.mark.parametrize(("locale", "said"), [(Locale.EN, "not looked for again"), (Locale.ZH, "未能重新检索")])
def test_what_was_not_looked_for_is_not_gone(application: Services, locale: Locale, said: str) -> None:
    """When the search fails nothing retrieved is removed, and the next delta still knows of it."""
    made = stock(application)
    query = replace(WHOLE, locale=locale)
    first = application.contexts.render(query, Deadline())
    application.memory_updater.delete(HERE, made["note"].id, hard=False, expected_revision=0, options=WriteOptions())

    contexts = application.contexts
    sources, contexts._dependencies = contexts._dependencies, replace(contexts._dependencies, recall=Unreachable())
    hurried = contexts.render(replace(query, earlier=first.cursor), Deadline())
    contexts._dependencies = sources
    last = summary([*hurried.events])
    application.memory_updater.delete(HERE, made["fact"].id, hard=False, expected_revision=0, options=WriteOptions())
    later = application.contexts.render(replace(query, earlier=hurried.cursor), Deadline())

    assert last.removed_ids == (made["note"].id,)
    uncertain = {(one.section, one.memory_ids) for one in last.left_out if one.reason is OmissionReason.UNCERTAIN}
    assert uncertain == {(Section.LONG_TERM, (made["fact"].id,)), (Section.GLOBAL, (made["global"].id,))}
    assert said in last.text
    assert shown([*later.events]) == []
    assert summary([*later.events]).removed_ids == (made["fact"].id,)


def test_what_never_arrived_is_told(application: Services) -> None:
    """A delta since an event in the middle brings all that came after it, and a delta of that delta too."""
    stock(application)
    whole = [*application.contexts.render(WHOLE, Deadline()).events]

    for index in range(0, len(whole), 3):
        first = application.contexts.render(WHOLE, Deadline())
        rest = application.contexts.render(replace(WHOLE, earlier=(first.run_id, index)), Deadline())
        assert shown([*rest.events]) == shown(whole[index + 1 :])
        for later in range(0, len(rest.events), 2):
            last = application.contexts.render(replace(WHOLE, earlier=(rest.run_id, later)), Deadline())
            assert shown([*last.events]) == shown([*rest.events[later + 1 :]])
            assert not summary([*last.events]).removed_ids

    with pytest.raises(InvalidRequestError):
        application.contexts.begin(replace(WHOLE, earlier=(rest.run_id, 1_000)))


@pytest.mark.parametrize(
    ("parts", "queries"),
    [
        (("The otter eats fish. ", "The heron builds a nest. "), ("otter fish", "heron nest")),
        (("水獭吃鱼。", "苍鹭筑巢。"), ("水獭 鱼", "苍鹭 筑巢")),
    ],
)
def test_another_excerpt_is_told(application: Services, parts: tuple[str, str], queries: tuple[str, str]) -> None:
    """The same excerpt is unchanged, and so is any when the whole was told."""
    long = remember(application, WEB, parts[0] * 60 + "\n\n" + "x " * 3_000 + "\n\n" + parts[1] * 60)
    small = [replace(WHOLE, text=query, total_tokens=900) for query in queries]
    first, large = (
        application.contexts.render(query, Deadline()) for query in (small[0], replace(WHOLE, text=queries[0]))
    )

    same, other, after_whole = (
        application.contexts.render(query, Deadline())
        for query in (
            replace(small[0], earlier=first.cursor),
            replace(small[1], earlier=first.cursor),
            replace(small[1], earlier=large.cursor),
        )
    )

    assert [one.is_excerpt for one in first.events if isinstance(one, ContextItem)] == [True]
    assert shown([*same.events]) == []
    assert shown([*other.events]) == [long.id]
    assert shown([*after_whole.events]) == []
