"""Front matter as people mean it: YAML whose numbers and days remember how they were written.

YAML 1.1, which PyYAML reads, takes `12:30` for 750, `010` for 8 and `no` for false; and a title `1.10` would come back
as `1.1`. As in YAML 1.2 only plain decimal numbers are numbers here, and only true and false are that; what begins with
a zero is an article's or area's number, and stays as it is.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import yaml

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:0|[1-9][0-9]*)\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
"""Nothing is a number that YAML 1.1 takes for text: so all texts that could be mistaken are written with quotes."""
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_NUMBERS = "int", "float", "bool"


class _Written:
    """A value that is shown as it was written."""

    written: str

    def __str__(self) -> str:
        return self.written


class _Int(_Written, int):
    pass


class _Float(_Written, float):
    pass


class _Date(_Written, date):
    pass


class _Moment(_Written, datetime):
    pass


class _Loader(yaml.CSafeLoader):
    """Reads plain scalars as the module says; explicit tags mean what they mean in YAML 1.1."""


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in {_tag(name) for name in _NUMBERS}]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_tag("bool"), _BOOL, list("tTfF"))
_Loader.add_implicit_resolver(_tag("int"), _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_tag("float"), _FLOAT, list("-+.0123456789"))


def _int(loader: Any, node: Any) -> int:
    found = _Int(loader.construct_yaml_int(node))
    found.written = node.value
    return found


def _float(loader: Any, node: Any) -> float:
    found = _Float(loader.construct_yaml_float(node))
    found.written = node.value
    return found


def _timestamp(loader: Any, node: Any) -> date:
    read = loader.construct_yaml_timestamp(node)
    found: _Date | _Moment
    if isinstance(read, datetime):
        found = _Moment.combine(read.date(), read.timetz())
    else:
        found = _Date(read.year, read.month, read.day)
    found.written = node.value
    return found


_Loader.add_constructor(_tag("int"), _int)
_Loader.add_constructor(_tag("float"), _float)
_Loader.add_constructor(_tag("timestamp"), _timestamp)


def load_front(text: str) -> Any:
    """Return what front matter says. Of numbers, days and moments `str` returns what is written.

    Raises:
        yaml.YAMLError: It is no YAML.
        Exception: A value is not of its explicit tag (`!!bool x`), or is a day that no calendar has.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
