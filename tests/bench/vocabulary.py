"""Words to make memories of: common ones, and a long tail of names as in real talk."""

from __future__ import annotations

from itertools import product

_FRAME = (
    "the a of to and in that it was for on with as at by from they we she he my our this about after before "
    "because when while then so but or not just really very again still"
)
FRAME = tuple(_FRAME.split())

_COMMON = (
    "meeting project garden kitchen holiday birthday friend sister brother teacher doctor neighbour colleague "
    "manager customer report budget deadline release server database backup meeting train airport flight ticket "
    "hotel museum concert guitar piano painting camera photo recipe dinner breakfast coffee bread cheese soup "
    "apple market grocery bicycle river mountain beach forest island village city office school university library "
    "book novel poem chapter lesson exam homework language grammar letter parcel invoice contract salary bank loan "
    "house roof window door carpet lamp engine tyre battery charger laptop keyboard screen printer phone "
    "medicine allergy vitamin exercise marathon yoga swimming football tennis chess puzzle film series podcast "
    "weather storm snow rain summer winter autumn spring morning evening weekend monday friday "
    "bought sold found lost painted repaired cooked baked planted visited called wrote read learned taught promised "
    "forgot remembered decided planned cancelled booked paid borrowed returned started finished moved adopted "
    "likes prefers hates wants needs hopes thinks believes knows said told asked answered agreed refused "
    "happy tired worried proud excited angry surprised busy late early expensive cheap broken new old favourite "
    "red green blue black white small large quiet loud spicy sweet fresh cold warm important urgent private"
)
COMMON = tuple(_COMMON.split())

_ONSETS = ("b", "br", "d", "dr", "f", "g", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
_NUCLEI = ("a", "e", "i", "o", "u", "ai", "ea")
_ENDS = ("nd", "l", "rk", "s", "t", "m")

SPEAKERS = ("Anna", "Ben", "Clara", "David", "Elena", "Farid", "Grace", "Henry")


def names(count: int) -> list[str]:
    """Return *count* invented words, always the same ones."""
    made = ("".join(parts) for parts in product(_ONSETS, _NUCLEI, _ONSETS, _NUCLEI, _ENDS))
    step = 7
    return [word for number, word in enumerate(made) if number % step == 0][:count]
