# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of RocketMQ's remoting protocol. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT32_MIN, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from wirefmt._core cimport (
    AHEAD_OCTETS, BatchEncoder, CText, Col, DETAIL_FIELD, DetailField, DetailForm, DetailLine, EndpointFlows,
    FAULT_CLASSES, Factory, FrameBatch, FrameDecoder, INPUT_HEAD, Input, KeywordOrder, MORE, MapWriter,
    MessageContext, MessageTable, NO, Outbox, Problem, Protocol, ProtocolTables, REFUSED_MEMORY, REFUSED_NULL,
    ROW_OK, ROW_PARTIAL, SECRET_SHOWN_OCTETS, SECRET_SHOWN_TEXT, STRICT_MODE, SourceCol, T_ATTEMPTS,
    T_CLIENT_ID, T_CODE, T_CONSUMER_GROUP, T_CORRELATION_ID, T_DESTINATION, T_HEADERS, T_KIND, T_MESSAGE_ID,
    T_OPERATION, T_PAYLOAD_SIZE, T_PROTOCOL, T_REDELIVERED, T_REPLY_TO, T_SEQUENCE, T_TTL_MS, T_VERSION, Text, Writer,
    YES, add_entry, add_entry_of, any_utf8_view, ascii_octets, ascii_text, bare_object, bare_subclass, begin_map,
    borrowed_item, close_list, construct_slowly, copy_ahead, copy_octets, detail_form, encode_error, end_map,
    factory_of, fill_view, finish_module, hidden, holds_secret_member, holds_secret_word, input_head,
    is_secret_name, is_secret_text, is_strict, keep_text, line_begin, line_digits, line_name, line_number, line_piece,
    line_prose, line_signed, line_text, line_words, make_fault, new_octets, new_writer, open_list, pad_text,
    protocol_capsule, put_bool, put_i32, put_i64, put_line, put_octets, put_span, put_struct, put_text, raise_fault,
    refuse, refuse_size, refuse_text, set_vectorcall, shared_text, shown_entry, shown_octets, size_found, source_has,
    source_name, source_needed_number, source_number, source_octets, source_range, source_span, span_of, take_block,
    take_input, take_keywords, utf8_view, whole_number,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u32
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS, Octets, add_octets, add_u16, add_u32, add_u8, extend_octets
from wirefmt._core.status cimport Fault, LIMIT, MALFORMED, NEED_DATA, OK, TRUNCATED, UNSUPPORTED, fault
from wirefmt._core.text cimport DIGITS_CAPACITY, hex2, hex4, store_utf8, write_signed
from wirefmt._core.utf8 cimport is_utf8
from wirefmt._core.words cimport is_ascii, same_octets, word_at

from wirefmt._core import secret_name
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Unsupported
from wirefmt.framing import Limits
from wirefmt.rocketmq.spec import REQUEST_CODES as ROCKETMQ_REQUEST_ROWS, RESPONSE_CODES as ROCKETMQ_RESPONSE_ROWS

# RocketmqFrameView, stored messages: spans
include "types.pxi"
# the JSON of headers, nogil
include "fastjson.pxi"
# entries of extFields
include "fields.pxi"
# JSON header -> RocketmqFrameView
include "json_header.pxi"
# octets -> RocketmqFrameView
include "parse.pxi"
# stored messages, batches
include "stored.pxi"
# what contains secrets
include "secrets.pxi"
# texts and JSON as Python values, and as the Java code writes them
include "values.pxi"
# typed headers
include "headers.pxi"
# fields that have a column
include "slots.pxi"
# headers whose names are known from an earlier one
include "shapes.pxi"
# stored messages, batches, ids
include "bodies.pxi"
# JSON bodies
include "json.pxi"
# RemotingCommand, encoders
include "objects.pxi"
# RocketmqFrameView -> columns
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> one line
include "detail.pxi"
# RocketmqFrameView -> rows of the message table; requests that wait for their response
include "rows.pxi"
# what captures call
include "probe.pxi"
# what a connection does for every message
include "connection.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.rocketmq", (BatchColumns, Flows, HeaderForm, RowEncoder))
