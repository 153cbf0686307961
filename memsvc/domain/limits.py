"""The limits of the API, in one place. Lengths are in characters (Unicode code points). The .proto states them."""

from __future__ import annotations

USER_ID = 128
SCOPE_ID = 128
KEY = 256
CONTENT = 1_000_000
TITLE = 512
SUMMARY = 16_384
CATEGORY = 64
SPEAKER = 128
SOURCE = 256
TAGS = 32
TAG = 64
KEYWORDS = 32
KEYWORD = 64
RELATED_IDS = 64
FILE_REFS = 64
FILE_REF_ID = 256
METADATA_BYTES = 16_384
METADATA_DEPTH = 8
IMPORTANCE_MIN = 1
IMPORTANCE_MAX = 5
REQUEST_ID = 128
BATCH = 1_000
QUERY = 8_192
SEARCH_LIMIT = 100
SEARCH_LIMIT_DEFAULT = 10
SEARCH_DEPTH = 1_000
"""How far down the list of hits paging goes."""
SEARCHES = 32
PAGE_SIZE = 1_000
PAGE_SIZE_DEFAULT = 50
HISTORY_PAGE = 100
HISTORY_PAGE_DEFAULT = 20
CHECKPOINT = 128
CHECKPOINT_NOTE = 512
SNIPPET_MIN = 40
SNIPPET_MAX = 2_000
SNIPPET_DEFAULT = 240
FILTER_DEPTH = 8
FILTER_VALUES = 256
VIOLATIONS = 50
"""How many violations a reply names: more would not fit the 8 KiB of gRPC trailers."""
SHORT_TERM_DAYS = 14
"""The time to live of a SHORT_TERM memory that names none."""
