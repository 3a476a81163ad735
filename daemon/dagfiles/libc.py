"""Calls of the C library that Python lacks."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """What a function returns. Raises OSError for a negative result."""
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, *arguments: object) -> int:
    """Change the calling process. Numbers among the arguments are `unsigned long`. Raises OSError."""
    four = (*arguments, 0, 0, 0)[:4]
    return call("prctl", option, *(ctypes.c_ulong(each) if isinstance(each, int) else each for each in four))
