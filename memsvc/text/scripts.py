"""Which writing system a character belongs to, as ranges for regular expressions."""

from __future__ import annotations

import re

HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
"""Han ideographs with radicals, compatibility forms and the iteration mark."""

KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""Hiragana and katakana, half-width forms included."""

HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
"""Hangul syllables and letters."""

SOUTH_EAST_ASIAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
"""Thai, Lao, Burmese and Khmer: written without spaces, like kana."""

UNSPACED = HAN + KANA + HANGUL + SOUTH_EAST_ASIAN

MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a51"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3c-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d81-\u0ddf\u0f71-\u0f84\u0f8d-\u0fbc"
)
"""Combining marks that continue a word although `\\w` does not match them."""

_HAN_RUN = re.compile(f"[{HAN}]+")
_OTHER_WORD = re.compile(rf"[^\W_{HAN}]+(?:['’._/@-][^\W_{HAN}]+)*")


def is_han(text: str) -> bool:
    """Tell whether *text* is mostly Han: it has more Han characters than other words and numbers.

    A date or a product name inside a Chinese sentence does not make it English. Text without letters is not Han.
    """
    if text.isascii():
        return False
    return sum(map(len, _HAN_RUN.findall(text))) > len(_OTHER_WORD.findall(text))
