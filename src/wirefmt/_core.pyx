# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The kernel: what the codecs, conversions and captures use. It knows no protocol.

The module consists of rooms, and this page lists them. A room uses only rooms above it and the header-only leaves
(be, status, cursor, octets, varint, utf8, words, powers, floats). `_core.pxd` is its interface to other modules.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.pyport cimport PY_SSIZE_T_MAX
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset, strlen

from wirefmt._core.cache cimport prefetch_ahead
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS, Octets, add_u8, extend_octets, free_octets, octets_over
from wirefmt._core.status cimport CommonOptions, Fault, NEED_DATA, Notes, OK, TRUNCATED, UNSUPPORTED, Violation, fault
from wirefmt._core.text cimport DIGITS_CAPACITY, add_json_string, json_letter, printed, write_digits, write_hex
from wirefmt._core.utf8 cimport UTF8_OK, check_utf8, is_utf8
from wirefmt._core.varint cimport VARINT_MAX, store_varint, varint_size
from wirefmt._core.words cimport is_ascii, same_octets, word_at

# Fault -> exception; the only room that raises DecodeError
include "_core/faults.pxi"
# random keys of hash tables
include "_core/seed.pxi"
# objects refuse a call while another call runs
include "_core/calls.pxi"
# growable output
include "_core/writer.pxi"
# which values are secret, and how they are shown
include "_core/secrets.pxi"
# buffers of callers, and views for callers
include "_core/buffers.pxi"
# what message classes share
include "_core/message.pxi"
# one framing loop for any protocol; their Decoders derive from it
include "_core/framer.pxi"
# columns while they are built
include "_core/columns.pxi"
# types of columns, sets of columns, Batch, Arrow PyCapsules
include "_core/arrow.pxi"
# decode_batch: one loop for any protocol
include "_core/batch.pxi"
# columns in: Arrow arrays -> frames
include "_core/source.pxi"
# columns in: rows as JSON lines and CSV
include "_core/lines.pxi"
# the message table: the columns that all protocols share
include "_core/table.pxi"
# a message in one line of text
include "_core/detail.pxi"
# the functions of a protocol that captures call
include "_core/protocol.pxi"
# the parts of connections that run for every message
include "_core/connection.pxi"
# changes the classes of every module so that only constructors make objects
include "_core/constructors.pxi"

name_public({"__name__": __name__, "Batch": Batch, "j": json_lines, "c": csv_lines}, "wirefmt.batch", ())
name_public({"__name__": __name__, "FrameDecoder": FrameDecoder}, "wirefmt.decoder", ())
name_public({"__name__": __name__, "Outbox": Outbox}, "wirefmt.connection.outbox", ())
name_public({"__name__": __name__, "Identifiers": Identifiers}, "wirefmt.connection.outstanding", ())
name_public({"__name__": __name__, "Window": Window}, "wirefmt.connection.windows", ())
name_public({"__name__": __name__, "EndpointFlows": EndpointFlows}, "wirefmt.connection.endpoint", ())
finish_module(globals(), None, (), (FrameDecoder, ColumnSet, FrameBatch, BatchEncoder, EndpointFlows))
