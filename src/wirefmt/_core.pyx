# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The kernel: what the codecs, conversions and captures stand on. It knows no protocol.

A module made of rooms; this page is its table of contents, and a room uses only rooms above it and the header-only leaves
(be, status, cursor, octets, varint, utf8, words, floats). `_core.pxd` is what other modules see.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cursor cimport (
    Cursor, Span, cursor_over, left, read_span, read_u8, read_u16,
)
from wirefmt._core.status cimport (
    Fault, LIMIT, MALFORMED, NEED_DATA, OK, TRUNCATED, UNSUPPORTED, fault,
)
from wirefmt._core.utf8 cimport UTF8_ILL_FORMED, UTF8_NUL, UTF8_OK, check_utf8, is_utf8
from wirefmt._core.varint cimport (
    VARINT_MAX, VARINT_SHORT, VARINT_TOO_LONG, read_varint, store_varint, varint_size,
)
from wirefmt._core.words cimport hash_octets, is_ascii, mix, same_octets

# Fault -> exception; the only room that raises DecodeError
include "_core/faults.pxi"
# random keys of hash tables
include "_core/seed.pxi"
# objects refuse a second call while the first works
include "_core/calls.pxi"
# growable output
include "_core/writer.pxi"
# which values are secret, and what is shown of them
include "_core/secrets.pxi"
# octets in, views out
include "_core/buffers.pxi"
# what message classes share
include "_core/message.pxi"
# one framing loop for any protocol; their Decoders derive from it
include "_core/framer.pxi"
# column builders, Batch, Arrow PyCapsules
include "_core/arrow.pxi"
# the message table: the columns all protocols share
include "_core/table.pxi"
# a message in one line: how fields get into it
include "_core/detail.pxi"
# what a capture asks of a protocol
include "_core/protocol.pxi"
# of every module: objects are made by constructors only
include "_core/seal.pxi"

seal(globals(), (FrameDecoder, ColumnSet))
