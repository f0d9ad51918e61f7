"""Memory that belongs to Rust, as memoryviews and NumPy arrays without a copy."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from . import _evb


@lru_cache(maxsize=4096)
def _array_type(size: int) -> Any:
    """Return the ctypes type of an array of bytes. To make the type takes longer than to use it."""
    return ctypes.c_ubyte * size


def view(memory: _evb.Memory) -> memoryview:
    """Return a read-only memoryview, which keeps the memory alive."""
    array = _array_type(memory.size).from_address(memory.address)
    array.memory = memory
    return memoryview(array).cast("B").toreadonly()


def numpy() -> Any:
    """Return the module numpy."""
    try:
        import numpy
    except ImportError:
        message = "arrays need NumPy: pip install numpy; events and their payloads can be read without it"
        raise ImportError(message) from None
    return numpy


def utc(unix_ns: int) -> np.datetime64:
    """Return a time in nanoseconds since 1970 as datetime64; NaT for 0."""
    return numpy().datetime64(unix_ns or "NaT", "ns")  # type: ignore[no-any-return]


def array(data: memoryview, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the bytes of a memoryview as a read-only array of numbers, without a copy."""
    np_ = numpy()
    kind: np.dtype[Any] = np_.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"bytes of a detector hold no Python objects ({kind}); give a dtype of numbers")
    if kind.itemsize == 0 or data.nbytes % kind.itemsize:
        raise ValueError(f"{data.nbytes} bytes are not a whole number of {kind.itemsize}-byte values ({kind}): give the dtype of the data")
    result: npt.NDArray[Any] = np_.ndarray((data.nbytes // kind.itemsize,), kind, data)
    return result
