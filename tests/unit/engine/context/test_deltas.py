"""Deltas: what is told since an earlier context, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.context import Locale, Reason, Section
from memsvc.domain.drafts import WriteOptions
from memsvc.domain.scope import Scope
from memsvc.engine.application import Application
from tests.unit.engine.context.stock import HERE, WHOLE, shown, stock, summary

WEB = Scope("ada", "web")
PAST = Deadline.after(0.0)


@pytest.mark.parametrize(("locale", "said"), [(Locale.EN, "not looked for again"), (Locale.ZH, "未能重新检索")])
def test_what_was_not_looked_for_is_not_gone(application: Application, locale: Locale, said: str) -> None:
    """Without time for the search nothing retrieved is removed, and the next delta still knows of it."""
    made = stock(application)
    query = replace(WHOLE, locale=locale)
    first = application.contexts.render(query, Deadline())
    application.revise.delete(HERE, made["note"].id, hard=False, expected_revision=0, options=WriteOptions())

    hurried = application.contexts.render(replace(query, earlier=first.run_id), PAST)
    last = summary([*hurried.events])
    application.revise.delete(HERE, made["fact"].id, hard=False, expected_revision=0, options=WriteOptions())
    later = application.contexts.render(replace(query, earlier=hurried.run_id), Deadline())

    assert last.removed_ids == (made["note"].id,)
    uncertain = {(one.section, one.memory_ids) for one in last.left_out if one.reason is Reason.UNCERTAIN}
    assert uncertain == {(Section.LONG_TERM, (made["fact"].id,)), (Section.GLOBAL, (made["global"].id,))}
    assert said in last.text
    assert shown([*later.events]) == []
    assert summary([*later.events]).removed_ids == (made["fact"].id,)
