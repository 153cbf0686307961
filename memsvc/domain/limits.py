"""The limits of the API, in one place. Lengths are in characters (Unicode code points). The .proto states them."""

from __future__ import annotations

import sys

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
DERIVED_FROM = 64
FILE_REFS = 64
FILE_REF_ID = 256
FILE_NAME = 255
INLINE_IMAGES = 16
"""Images in the content of one memory."""
RESOLVED_REFS = 256
MEDIA_TYPE = 128
FILE_QUERY = 256
METADATA_BYTES = 16_384
METADATA_DEPTH = 8
IMPORTANCE_MIN = 1
IMPORTANCE_MAX = 5
REQUEST_ID = 128
BATCH = 1_000
SELECTION = 100_000
"""Memories that one call deletes or updates by a filter."""
SPOKEN = 100_000
"""The length of what was said in one message."""
STATEMENTS = 1_000
"""Statements of one message that are looked at."""
FLUSHED_STATEMENTS = 5_000
"""Statements of one flush that are looked at."""
TOOL_CALLS = 64
SEPARATOR = 256
DOCUMENT_BYTES = 4_000_000
QUERY = 8_192
SEARCH_LIMIT = 100
SEARCH_LIMIT_DEFAULT = 10
SEARCH_DEPTH = 1_000
"""How far down the list of hits paging goes."""
SEARCHES = 32
BODY = 1_048_576
"""Bytes of a request that brings no content, as those of searches, reads and statistics."""
SEARCHES_BODY = 2_097_152
"""Bytes of a request of BatchSearch."""
RERANK_DEPTH = 50
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
MESSAGE = 100_000
MESSAGES = 100
"""Messages of one append."""
TOOL_NAME = 128
MESSAGE_TOKENS = 10_000_000
TOKEN_LIMIT_MIN = 100
TOKEN_LIMIT_MAX = 10_000_000
KEEP_ROUNDS_MAX = 100
OVERDUE_DAYS = 365
"""Maximum number of days for which an unacknowledged reminder is listed."""
DAYS_AHEAD = 366
"""Maximum number of days after the present one whose reminders are listed."""
VIOLATIONS = 50
"""How many violations a reply names: more would not fit the 8 KiB of gRPC trailers."""
HEARTBEAT_MIN_SECONDS = 1
HEARTBEAT_MAX_SECONDS = 300
HEARTBEAT_DEFAULT_SECONDS = 15
"""How long a watch may be silent."""
GROUPS = 200
GROUPS_DEFAULT = 50
"""Groups of one consolidation."""
TOPIC = 128
SUMMARY_TOKENS_MIN = 20
SUMMARY_TOKENS = 10_000
SHORT_TERM_DAYS = 14
"""The time to live of a SHORT_TERM memory that names none."""
KEY_NAME = 128
KEY_BOUNDS = 100
KEY_RATE = 1_000_000
QUOTA = 1_000_000_000_000_000
"""The largest limit of a quota."""
WEBHOOK_NAME = 64
"""The length of the name of an endpoint of webhooks."""
TTL_DAYS = 36_500
"""The longest time to live."""
PERFORMANCE_DAYS = 7
"""The longest window of GetPerformance."""
LAST_DAYS = 36_500
"""The longest period of a filter's `last_days`."""
FILTER_PATH = 256
"""The length of a dotted path into metadata."""
CONFLICT_STATES = 16
"""States in one list of conflicts."""
RANK_CONSTANT = 10_000
"""The constant of reciprocal rank fusion."""
CONTEXT_TOKENS = 10_000_000
CONTEXT_SECTIONS = 64
FIRST_HANDLE = 10_000
RESOLVED_CITATIONS = 100
"""Citations of one call."""
USE_REPORTS = 100
"""Reports of use of one call."""
USE_POSITION = 1_000
"""The last place of a memory among what was shown."""
LOCALE = 35
TIME_ZONE = 64
"""The length of the name of a time zone."""
MAINTENANCE_STEPS = 16
"""Steps that one run of maintenance names."""
INDEXES = 16
"""Indexes that one reindex names."""
OPERATION = 128
"""The length of the name of an operation."""
DATABASE_URL = 2_048
ORPHAN_GRACE_DAYS = 3_650
"""The longest grace of files without a reference."""


# Numbers that every client can read: JSON has no bounds, but most languages read doubles.


def fits_json_number(number: float) -> bool:
    """Return whether a number, whole or not, is finite and within the range of doubles."""
    return -sys.float_info.max <= number <= sys.float_info.max
