"""Batches as Arrow record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._batch import Columns


def record_batch(columns: Columns) -> Any:
    """Return the columns as a record batch; payloads are views of the memory of the columns."""
    try:
        import pyarrow as pa
    except ImportError:
        message = "Arrow tables need pyarrow 16 or later: pip install pyarrow"
        raise ImportError(message) from None

    def wrap(array: Any, kind: Any) -> Any:
        """Wrap an array without a copy."""
        return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])

    def numbers(array: Any) -> Any:
        return wrap(array, pa.from_numpy_dtype(array.dtype))

    def lists(first: Any, values: Any) -> Any:
        return pa.LargeListArray.from_arrays(wrap(first, pa.int64()), values)

    payload = pa.LargeListViewArray.from_arrays(
        wrap(columns.offset, pa.int64()),
        numbers(columns.length.astype("<i8")),
        numbers(columns.data),
    )
    fragments = pa.StructArray.from_arrays(
        [numbers(columns.source), numbers(columns.timestamp), numbers(columns.alignment), payload],
        names=["source", "timestamp", "alignment", "payload"],
    )
    def without(first: Any, source: Any, cause: Any) -> Any:
        names = ["source", "cause"]
        return lists(first, pa.StructArray.from_arrays([numbers(source), numbers(cause)], names=names))

    return pa.RecordBatch.from_arrays(
        [
            numbers(columns.event),
            numbers(columns.builder),
            numbers(columns.epoch),
            numbers(columns.utc.view("<u8")),
            without(columns.first_missing, columns.missing, columns.missing_cause),
            without(columns.first_absent, columns.absent, columns.absent_cause),
            lists(columns.first_fragment, fragments),
        ],
        names=["event", "builder", "epoch", "utc_ns", "missing", "absent", "fragments"],
    )
