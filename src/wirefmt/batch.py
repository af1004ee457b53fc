"""`Batch`: columns of decoded messages, as NumPy arrays and for Arrow. `decode_batch` of a protocol and captures return it.
`json_lines` and `csv_lines` write rows of such columns, or of any Arrow columns of these types, as text."""

from wirefmt._core import Batch, csv_lines, json_lines

__all__ = ["Batch", "csv_lines", "json_lines"]
