"""What is said to be missing is missing, for the reason given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.context import Omission, OmissionReason, Section
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.services import Services
from tests.unit.engine.context.context_fixture import HERE, WHOLE, WORLD, events, remember, shown, stock, summary

RULES = replace(WHOLE, text="", sections=frozenset({Section.GLOBAL_CORE, Section.PROJECT_CORE}))


def rules(application: Services, scope: Scope, count: int) -> None:
    """Store so many core memories."""
    for number in range(count):
        application.memory_creator.create(scope, Draft(f"Rule {number}.", layer=Layer.CORE), WriteOptions())


@pytest.mark.parametrize("more", [0, 1])
def test_a_hundred_core_memories_are_looked_at(application: Services, more: int) -> None:
    """Of each of the two sections, whatever the other holds; exactly a hundred are no more than that."""
    rules(application, WORLD, 100 + more)
    here = remember(application, Scope("ada", "web"), "The main branch is protected.", layer=Layer.CORE, importance=1)

    happened = events(application, RULES)

    assert len(shown(happened, Section.GLOBAL_CORE)) == 100
    assert shown(happened, Section.PROJECT_CORE) == [here.id]
    left = [(one.section, one.reason, one.count) for one in summary(happened).left_out]
    assert left == [(Section.GLOBAL_CORE, OmissionReason.LIMIT, 1)] * more


def test_what_has_no_room_at_all_is_named(application: Services) -> None:
    """When not even the opening fits, and a delta still knows what was held."""
    made = stock(application)
    first = application.contexts.render(WHOLE, Deadline())

    nothing = summary(events(application, replace(WHOLE, total_tokens=1)))
    delta = application.contexts.render(replace(WHOLE, total_tokens=1, earlier=first.cursor), Deadline())
    again = application.contexts.render(replace(WHOLE, earlier=delta.cursor), Deadline())

    assert nothing.left_out == (
        Omission(Section.GLOBAL_CORE, OmissionReason.BUDGET, 2, (made["rule"].id, made["habit"].id)),
        Omission(Section.PROJECT_CORE, OmissionReason.BUDGET, 1, (made["project rule"].id,)),
        Omission(Section.SESSION, OmissionReason.BUDGET, 2, (made["hello"].id, made["secret"].id)),
        Omission(Section.SHORT_TERM, OmissionReason.BUDGET, 1, (made["note"].id,)),
    )
    assert {one.reason for one in summary([*delta.events]).left_out} == {OmissionReason.UNCERTAIN}
    assert shown([*again.events]) == []


def test_a_message_that_is_found_is_not_missing(application: Services) -> None:
    """The conversation has no room for it, and the query brings it back."""
    old = remember(application, HERE, "The otter swims in the river.", kind=Kind.MESSAGE)
    for number in range(30):
        remember(application, HERE, f"Something else, number {number}. " * 5, kind=Kind.MESSAGE)

    happened = events(application, replace(WHOLE, total_tokens=1_500))

    assert old.id in shown(happened, Section.LONG_TERM)
    assert old.id not in [one for left in summary(happened).left_out for one in left.memory_ids]
