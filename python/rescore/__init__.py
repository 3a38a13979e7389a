"""The program `rescore` as a Python package."""

from ._program import find

__all__ = ["find"]
