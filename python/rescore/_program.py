"""The program itself: where it is, and how its options are written. It is not started here."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any


def find() -> str:
    """The path of the program: the one that was installed with this module, or else the one on PATH."""
    directories = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", vars={"base": sys.base_prefix}),
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
        os.path.dirname(sys.executable),
        # `pip install --target` puts it beside the module.
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"),
    ]
    programs = [os.path.join(directory, "rescore") for directory in directories]
    found = next(filter(os.path.isfile, programs), None) or shutil.which("rescore")
    if found is None:
        raise FileNotFoundError(f"no program `rescore` in {', '.join(dict.fromkeys(directories))}, nor on PATH")
    return found


def arguments(options: Mapping[str, Any]) -> Iterator[str]:
    """Options of Python as options of the program, which knows which of them exist."""
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif isinstance(value, Mapping):
            yield from (f"{flag}={key}={plain(one)}" for key, one in value.items())
        elif isinstance(value, (list, tuple)):
            yield from (f"{flag}={plain(one)}" for one in value)
        elif value is not None and value is not False:
            yield f"{flag}={plain(value)}"


def plain(value: Any) -> str:
    """A value as text, a number without an exponent: neither a price nor a phone number has one."""
    return value if isinstance(value, str) else without_exponent(str(value))


def without_exponent(number: str) -> str:
    return format(Decimal(number), "f") if re.fullmatch(r"-?[0-9.]+[eE][-+]?[0-9]+", number) else number
