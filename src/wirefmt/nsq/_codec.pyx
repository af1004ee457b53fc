# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of NSQ. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from wirefmt._core cimport (
    BatchEncoder, CARRIER_DEFLATE, CARRIER_PLAIN, CARRIER_SNAPPY, CARRIER_TLS, CText, Col, DETAIL_FIELD, DetailField,
    DetailForm, DetailLine, EndpointFlows, Factory, FrameBatch, FrameDecoder, HEX_SIZE, Input, KEEP_FROM, MORE,
    MessageContext, MessageOps, MessageTable, NO, NO_TEXT, Outbox, Problem, Protocol, ProtocolTables, PyMemberDef,
    REFUSED_FAULT, REFUSED_MEMORY, REFUSED_NULL, ROW_OK, ROW_PARTIAL, SECRET_SHOWN_OCTETS,
    SECRET_SHOWN_TEXT, STRICT_MODE, SourceCol, T_ATTEMPTS, T_CLIENT_ID, T_CONSUMER_GROUP, T_DESTINATION, T_KIND,
    T_MESSAGE_ID, T_OPERATION, T_PAYLOAD_SIZE, T_PROTOCOL, T_REDELIVERED, T_VERSION, Text, Writer, YES, add_member,
    ascii_octets, bare_object, close_list, copy_octets, detail_form, encode_error, factory_of, fill_view,
    finish_module, hidden, holds_secret_member, is_secret_text, keep_text, line_begin, line_binary, line_flag,
    line_number, line_prose, line_signed, line_text, message_notes, message_octets, new_octets, new_writer, octets_of,
    open_list, pad_text, place_in, protocol_capsule, put_bool, put_i32, put_i64, put_line, put_octets, put_secret,
    put_span, put_struct, put_text, raise_fault, read_message, refuse, refuse_size, refuse_text, set_factories,
    shared_text, shown_encoded, shown_octets, size_found, source_bit, source_has, source_name, source_needed_number,
    source_needed_span, source_number, source_octets, source_range, source_span, span_of, take_block,
    take_common_options, take_input, text_octets, text_or_hex, violation, whole_number,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport Octets, add_octets, add_u32, add_u8
from wirefmt._core.status cimport CommonOptions, Fault, NEED_DATA, Notes, OK, fault
from wirefmt._core.text cimport NOT_HEX, add_json_string, hex4, hex_digit, store_utf8
from wirefmt._core.utf8 cimport UTF8_ILL_FORMED, check_utf8, is_plain_text, is_utf8

from wirefmt.errors import EncodeError

# JSON objects, member by member, nogil
include "json.pxi"
# NSQ: octets -> NsqUnitView, nogil
include "parse.pxi"
# ... of the frequent ones, in one pass: the fast path
include "fast.pxi"
# Python values -> octets, and JSON
include "values.pxi"
# the base of commands and frames
include "message.pxi"
# of a client
include "commands.pxi"
# of a server
include "frames.pxi"
# decode, encode, Decoder
include "objects.pxi"
# NsqUnitView -> rows of the message table
include "rows.pxi"
# ... decode_batch
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> one line
include "detail.pxi"
# what captures call
include "probe.pxi"
# what a connection does for every message
include "connection.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.nsq", (
    Answer, Arrival, BatchColumns, ClientFlows, Flows, Inbox, Members, Message, Publication, RowEncoder, Run, ServerFlows, Taken,
    size_of,
))
