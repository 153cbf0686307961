"""Contexts, on their way in and out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memsvc.domain.context import ContextQuery, CoreContext, Event, Item, Locale, Notice, Plan, Section, Shares, Summary
from memsvc.engine.context.service import Rendered
from memsvc.server.addresses import ContextDefaults
from memsvc.server.call_context import Principal
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import SECTION, SEVERITY
from memsvc.server.convert.history import as_of_from_proto
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.reminders import fill_occurrence
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.selections import selection_from_proto
from memsvc.server.convert.vectors import numbers_from_proto, vector_from_proto
from memsvc.server.validate.contexts import known_zone, language_of
from memsvc.v1 import context_pb2 as pb
from memsvc.v1 import types_pb2 as types

_NO_FILTER = types.Filter()
RELEVANT_LIMIT = 50
PACK_ITEMS = 256
PACK_CHARS = 192 * 1024
"""What one message of a stream carries: a character takes at most four bytes, so that it stays under 1 MiB."""
LOAD_LIMIT = 50


def context_query_from_proto(
    request: pb.BuildContextRequest | pb.RenderContextRequest,
    defaults: ContextDefaults,
    *,
    now: datetime,
    principal: Principal,
) -> ContextQuery:
    """Return the context that is asked for, with all its defaults filled in.

    Raises:
        InvalidRequestError: A token is not of this service.
    """
    options = request.options
    as_of = as_of_from_proto(options.as_of, now, field="options.as_of")
    zone = known_zone(options.time_zone)
    return ContextQuery(
        scope=scope_from(request.scope, principal),
        text=request.query if request.query.strip() else "",
        vector=vector_from_proto(numbers_from_proto(request)),
        total_tokens=options.total_tokens if options.HasField("total_tokens") else defaults.total_tokens,
        shares=_shares(options.shares) if options.HasField("shares") else defaults.shares,
        sections=frozenset(SECTION.from_proto[number] for number in options.sections) or frozenset(Section),
        selection=selection_from_proto(options.filter, now=now, as_of=as_of),
        relevant_limit=options.relevant_limit or RELEVANT_LIMIT,
        min_score=options.min_score,
        locale=Locale(language_of(options.locale)) if options.locale else defaults.locale,
        position=tokens.position_of(request.consistency_token),
        earlier=_earlier(request.earlier_cursor),
        as_of=as_of,
        in_force=None if as_of is None else selection_from_proto(_NO_FILTER, now=now, as_of=as_of).where,
        **({} if zone is None else {"zone": zone}),
    )


def responses_to_proto(run_id: bytes, events: Iterable[tuple[int, Event]]) -> list[pb.BuildContextResponse]:
    """Return events as the stream tells them, each with its cursor; items that follow one another go together."""
    responses: list[pb.BuildContextResponse] = []
    pack: list[Item] = []
    end = chars = 0
    for index, event in events:
        if pack and (not isinstance(event, Item) or len(pack) == PACK_ITEMS or chars + len(event.text) > PACK_CHARS):
            responses.append(_items(run_id, end, pack))
            pack, chars = [], 0
        if isinstance(event, Item):
            pack.append(event)
            end, chars = index, chars + len(event.text)
        else:
            responses.append(_response(run_id, index, event))
    return [*responses, _items(run_id, end, pack)] if pack else responses


def rendered_to_proto(rendered: Rendered) -> pb.RenderContextResponse:
    """Return a context as one text."""
    response = pb.RenderContextResponse(markdown=rendered.markdown)
    place = 0
    for index, event in enumerate(rendered.events):
        if isinstance(event, Notice):
            response.warnings.append(_warning(event))
            continue
        if isinstance(event, Item):
            response.citations.add(
                memory_id=event.memory_id,
                revision=event.revision,
                section=SECTION.to_proto[event.section],
                start=place + event.heading_chars,
                end=place + len(event.text),
            )
        elif isinstance(event, Summary):
            response.token_count = event.token_count
            response.summary.CopyFrom(_summary(event, tokens.context_cursor(rendered.run_id, index)))
            response.summary.ClearField("text")
        place += len(event.text)
    return response


def essentials_to_proto(essentials: CoreContext) -> pb.LoadCoreResponse:
    """Return what is loaded at a start."""
    response = pb.LoadCoreResponse(is_incomplete=essentials.is_incomplete)
    for field, memories in (
        (response.core, essentials.core),
        (response.active, essentials.active),
        (response.preferences, essentials.preferences),
        (response.reminders, essentials.reminders),
    ):
        for memory in memories:
            fill_memory(field.add(), memory)
    for one in essentials.due:
        fill_occurrence(response.due.add(), one)
    return response


def _shares(shares: pb.ContextShares) -> Shares:
    return Shares(core=shares.core, session=shares.session, short_term=shares.short_term, long_term=shares.long_term)


def _earlier(cursor: str) -> tuple[bytes, int] | None:
    return tokens.context_place(cursor, field="earlier_cursor") if cursor else None


def _items(run_id: bytes, end: int, items: Sequence[Item]) -> pb.BuildContextResponse:
    response = pb.BuildContextResponse(cursor=tokens.context_cursor(run_id, end))
    add = response.items.items.add
    for item in items:
        add(
            section=SECTION.to_proto[item.section],
            memory_id=item.memory_id,
            revision=item.revision,
            text=item.text,
            token_count=item.token_count,
            score=item.score,
            is_excerpt=item.is_excerpt,
        )
    return response


def _response(run_id: bytes, index: int, event: Plan | Notice | Summary) -> pb.BuildContextResponse:
    cursor = tokens.context_cursor(run_id, index)
    if isinstance(event, Plan):
        return pb.BuildContextResponse(plan=_plan(event), cursor=cursor)
    if isinstance(event, Notice):
        return pb.BuildContextResponse(warning=_warning(event), cursor=cursor)
    return pb.BuildContextResponse(summary=_summary(event, cursor), cursor=cursor)


def _plan(plan: Plan) -> pb.ContextPlan:
    return pb.ContextPlan(
        text=plan.text,
        token_count=plan.token_count,
        total_tokens=plan.total_tokens,
        tokenizer=plan.tokenizer,
        sections=[
            pb.PlannedSection(section=SECTION.to_proto[section], budget_tokens=budget)
            for section, budget in plan.sections
        ],
        is_delta=plan.is_delta,
    )


def _warning(notice: Notice) -> pb.ContextWarning:
    return pb.ContextWarning(
        severity=SEVERITY.to_proto[notice.severity],
        code=notice.code,
        message=notice.message,
        value=notice.value,
        limit=notice.limit,
    )


def _summary(summary: Summary, cursor: str) -> pb.ContextSummary:
    return pb.ContextSummary(
        text=summary.text,
        text_token_count=summary.text_token_count,
        token_count=summary.token_count,
        total_tokens=summary.total_tokens,
        sections=_sections(summary),
        left_out=[
            pb.ContextLeftOut(
                section=SECTION.to_proto[one.section],
                reason=one.reason.value,
                count=one.count,
                memory_ids=one.memory_ids,
            )
            for one in summary.left_out
        ],
        removed_ids=summary.removed_ids,
        context_cursor=cursor,
    )


def _sections(summary: Summary) -> Sequence[pb.ContextSectionSummary]:
    return [
        pb.ContextSectionSummary(section=SECTION.to_proto[section], item_count=items, token_count=cost)
        for section, (items, cost) in summary.sections.items()
    ]
