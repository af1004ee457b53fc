# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of AMQP 0.9.1. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from wirefmt._core cimport (
    BatchEncoder, CText, Col, DEFAULT_FRAME_SIZE, DETAIL_FIELD, DetailField, DetailForm, DetailLine, EndpointFlows,
    Factory, FrameBatch, FrameDecoder, HEX_OCTETS, HEX_SIZE, HIDDEN_OCTETS, INPUT_HEAD, Input, KEEP_FROM, LINE_VALUE,
    MORE, MapWriter, MessageContext, MessageOps, MessageTable, NO, NO_MESSAGE, NO_TEXT, Outbox, Problem, Protocol,
    ProtocolTables, PyDescr_NewGetSet, PyGetSetDef, PyObject_GC_UnTrack, REFUSED_FAULT, REFUSED_MEMORY, REFUSED_NULL,
    ROW_MALFORMED, ROW_OK, ROW_PARTIAL, SECRET_SHOWN, SECRET_SHOWN_OCTETS, SECRET_SHOWN_TEXT, SHARED_OCTETS,
    SHARED_TEXT, STRICT_MODE, SharedSlot, SourceCol, T_ATTEMPTS, T_CHANNEL, T_CLIENT_ID, T_CODE, T_CONTENT_TYPE,
    T_CORRELATION_ID, T_DESTINATION, T_HEADERS, T_KIND, T_MESSAGE_ID, T_OPERATION, T_PAYLOAD_SIZE, T_PROTOCOL, T_RAW,
    T_REDELIVERED, T_REPLY_TO, T_ROUTING_KEY, T_SEQUENCE, T_TTL_MS, T_VERSION, Text, WIREFMT_SHARES_VALUES, YES,
    add_entry_of, any_utf8_view, ascii_octets, ascii_text, bare_object, begin_map, close_list, copy_octets,
    decimal_of, detail_form, encode_error, end_map, factory_of, fault_text, fill_view, finish_module, hidden,
    input_head, is_held, is_secret_name, is_strict, keep_text, line_ascii, line_begin, line_digits, line_field,
    line_flag, line_name, line_number, line_octets, line_piece, line_prose, line_space, line_string, line_text,
    message_notes, message_octets, new_octets, note_text, octets_of, octets_shown, open_list, pad_text,
    protocol_capsule, put_bool, put_i16, put_i32, put_i64, put_line, put_octets, put_secret, put_span, put_struct,
    put_text, raise_fault, read_message, refuse, refuse_size, refuse_text, share, shared_slot, shown_octets,
    size_found, source_flag, source_has, source_name, source_needed_number, source_needed_span, source_number,
    source_octets, source_range, source_span, span_of, take_block, take_common_options, take_input, text_or_hex,
    violation, whole_number, wirefmt_set_attribute,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cursor cimport Cursor, Span, cursor_over, left
from wirefmt._core.octets cimport BLOCK_OCTETS, extend_octets
from wirefmt._core.status cimport CommonOptions, Fault, NEED_DATA, Notes, OK, fault
from wirefmt._core.text cimport DIGITS_CAPACITY, add_hex, add_json_string, printed, write_digits, write_signed
from wirefmt._core.utf8 cimport UTF8_OK, check_utf8, is_plain_text, is_utf8
from wirefmt._core.words cimport is_ascii

from wirefmt._core import secret_name
from wirefmt.errors import EncodeError

# AMQP 0.9.1: octets -> Amqp091FrameView, field tables, contents of channels, nogil
include "parse.pxi"
# assembles the frames of a content, nogil
include "pending.pxi"
# ... a content in three frames in one pass, which need not be assembled: the fast path
include "fast.pxi"
# field values, tables and arrays as Python objects, both ways
include "values.pxi"
# frames as Python objects
include "objects.pxi"
# GENERATED from wirefmt/amqp091/spec.py: a class for each method
include "methods.pxi"
# a method with its content
include "content.pxi"
# decode, encode, Decoder, Assembler
include "stream.pxi"
# field values as text of columns, nogil
include "text.pxi"
# one row per method, with its content: decode_batch
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> rows of the message table
include "rows.pxi"
# ... -> one line
include "detail.pxi"
# what captures call
include "probe.pxi"
# delivery-tags that wait
include "tags.pxi"
# what a connection does for every message
include "connection.pxi"
# ... a channel of a client, and of a server
include "channels.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.amqp091", (
    BaseDecoder, BatchColumns, ChannelFlows, ClientChannelFlows, Flows, RowEncoder, ServerChannelFlows, ServerFlows,
    SessionFlows, Tags, tag_of_delivery,
))
