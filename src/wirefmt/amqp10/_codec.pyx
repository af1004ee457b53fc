# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of AMQP 1.0. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject, PyObject_RichCompare, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset, strcmp, strlen

from wirefmt._core cimport (
    BatchEncoder, CARRIER_PLAIN, CARRIER_TLS, Col, DEFAULT_FRAME_SIZE, DETAIL_FIELD, DetailField, DetailForm,
    DetailLine, EndpointFlows, Factory, FrameBatch, FrameDecoder, HEX_OCTETS, HEX_SIZE, HIDDEN_OCTETS, INPUT_HEAD,
    Input, KEEP_FROM, KeywordOrder, LINE_MAX, LINE_VALUE, MORE, MapWriter, MessageContext, MessageOps, MessageTable,
    NO, NO_MESSAGE, NO_TEXT, Outbox, Problem, Protocol, ProtocolTables, PyMemberDef, RECENT_PLACES, REFUSED_FAULT,
    REFUSED_MEMORY, REFUSED_NULL, ROW_MALFORMED, ROW_OK, ROW_PARTIAL, Recent, SECRET_SHOWN, SECRET_SHOWN_OCTETS,
    SECRET_SHOWN_TEXT, SHARED_OCTETS, SHARED_TEXT, STRICT_MODE, SharedSlot, SourceCol, T_ATTEMPTS, T_CHANNEL,
    T_CLIENT_ID, T_CODE, T_CONTENT_TYPE, T_CORRELATION_ID, T_DESTINATION, T_HEADERS, T_KIND, T_MESSAGE_ID,
    T_OPERATION, T_PROTOCOL, T_REDELIVERED, T_REPLY_TO, T_SEQUENCE, T_TTL_MS, T_VERSION, Text, WIREFMT_SHARES_VALUES,
    WRITER_START, YES, add_entry, add_entry_of, add_member, ascii_octets, ascii_text, bare_object, begin_map,
    close_list, construct_slowly, copy_octets, decimal_of, detail_form, encode_error, end_map, factory_of, fault_text,
    fill_view, finish_module, hex_text, hidden, input_head, is_held, is_recent, is_secret_name, keep_recent,
    keep_text, keyed_place, line_ascii, line_begin, line_binary, line_digits, line_field, line_flag, line_name,
    line_number, line_piece, line_signed, line_space, line_string, line_text, line_words, message_notes, new_octets,
    next_pair, note_text, octets_of, octets_shown, open_list, pad_text, place_in, protocol_capsule, put_bool, put_i16,
    put_i32, put_i64, put_line, put_map, put_octets, put_secret_entry, put_struct, put_text, raise_fault,
    read_message, refuse, refuse_range, refuse_size, refuse_text, set_factories, set_vectorcall, share, shared_slot,
    shared_text, shown_encoded, shown_entry, shown_octets, size_found, source_bit, source_has, source_name,
    source_needed_number, source_needed_span, source_number, source_octets, source_range, source_span, span_of,
    take_block, take_common_options, take_input, take_keywords, violation, whole_number, will_keep_recent,
    wirefmt_set_attribute,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cursor cimport Span, left
from wirefmt._core.octets cimport (
    BLOCK_OCTETS, Octets, add_octets, add_u32, add_u8, free_octets, octets_over,
)
from wirefmt._core.status cimport CommonOptions, Fault, NEED_DATA, Notes, OK, fault
from wirefmt._core.text cimport UUID_SIZE, add_hex, add_json_string, printed, store_utf8, write_digits, write_signed, write_uuid
from wirefmt._core.utf8 cimport UTF8_NUL, UTF8_OK, check_utf8, is_utf8
from wirefmt._core.words cimport ascii_before, hash_octets, is_ascii, mix

from wirefmt.errors import EncodeError
from wirefmt.framing import Limits
from wirefmt.spec.columns import SHARED as SHARED_COLUMNS

# the type system over octets, nogil
include "types.pxi"
# values -> octets, nogil
include "write.pxi"
# octets -> Amqp10FrameView, Amqp10MessageView, nogil
include "parse.pxi"
# ... of a delivery in one frame, in one pass: the fast path
include "fast.pxi"
# assembles transfers to deliveries, nogil
include "pending.pxi"
# scalars as Python objects
include "scalars.pxi"
# lists, maps, arrays and described values as Python objects
include "values.pxi"
# the base of composite types as Python objects
include "composites.pxi"
# performatives, SASL frames, other composite types as Python objects, encoders
include "objects.pxi"
# sections and messages
include "messages.pxi"
# decode, encode, Decoder, Assembler
include "stream.pxi"
# AMQP 1.0 values as text
include "text.pxi"
# values -> columns
include "cells.pxi"
# Amqp10FrameView, Amqp10MessageView -> columns
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> rows of the message table
include "rows.pxi"
# ... -> one line
include "detail.pxi"
# what captures call
include "probe.pxi"
# what a connection and its sessions do for every message
include "connection.pxi"
# ... and its links
include "links.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.amqp10", (
    Answers, BaseSequence, BatchColumns, ConnectionFlows, Decimal, Integer, Job, LinkFlows, MapItems, MapIterator,
    ReceiverFlows, RowEncoder, SenderFlows, SessionFlows,
))
