"""The order of a list: "field", "field asc" or "field desc"."""

from __future__ import annotations

from memsvc.domain.search import Order, OrderField

FIELDS = frozenset(field.value for field in OrderField)
DIRECTIONS = frozenset({"asc", "desc"})
_FIELD_AND_DIRECTION = 2


def is_order(order_by: str) -> bool:
    """Return whether the text is empty or an order of the grammar."""
    words = order_by.split()
    if not words:
        return not order_by
    return words[0] in FIELDS and (len(words) == 1 or (len(words) == _FIELD_AND_DIRECTION and words[1] in DIRECTIONS))


def order_from_proto(order_by: str) -> Order:
    """Return the order: newest first when the text is empty, ascending when it names no direction."""
    words = order_by.split()
    if not words:
        return Order()
    return Order(OrderField(words[0]), descending=words[1:] == ["desc"])
