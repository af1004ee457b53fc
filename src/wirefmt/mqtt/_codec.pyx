# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of MQTT 3.1, 3.1.1 and 5.0. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from wirefmt._core cimport (
    BatchEncoder, Col, DEFAULT_FRAME_SIZE, DETAIL_FIELD, DetailField, DetailForm, DetailLine, EndpointFlows, Factory,
    FrameBatch, FrameDecoder, HEX_OCTETS, HEX_SIZE, HIDDEN_OCTETS, INPUT_HEAD, Identifiers, Input, KEEP_FROM,
    KeywordOrder, LINE_VALUE, MORE, MapWriter, MessageContext, MessageOps, MessageTable, NO, OFFSET_MAX, Outbox,
    Problem, Protocol, ProtocolTables, PyMemberDef, RECENT_PLACES, REFUSED_FAULT, REFUSED_MEMORY, REFUSED_NULL,
    ROW_OK, ROW_PARTIAL, Recent, SECRET_SHOWN_OCTETS, STRICT_MODE, SourceCol, T_CLIENT_ID, T_CODE,
    T_CONSUMER_GROUP, T_CONTENT_TYPE, T_CORRELATION_ID, T_DESTINATION, T_HEADERS, T_KIND, T_OPERATION, T_PROTOCOL,
    T_QOS, T_REDELIVERED, T_REPLY_TO, T_SEQUENCE, T_TTL_MS, T_VERSION, Text, WRITER_START, Window, Writer, YES,
    add_entry, add_entry_of, add_member, ascii_octets, bare_object, begin_map, begin_run, borrowed_item, check_size16,
    close_list, construct_slowly, copy_octets, decimal_of, detail_form, encode_error, end_map, end_run,
    fill_view, finish_module, grow_octets, hidden, input_head, is_recent, is_secret_name, keep_recent, keep_text,
    keyed_place, length_of, line_ascii, line_begin, line_binary, line_digits, line_field, line_flag, line_name,
    line_number, line_prose, line_string, line_text, line_words, message_notes, message_octets, new_octets,
    new_writer, next_pair, octets_of, octets_shown, open_list, pad_text, place_in, protocol_capsule, put_bool,
    put_i16, put_i32, put_i64, put_i8, put_line, put_map, put_octets, put_secret, put_span, put_struct, put_text,
    raise_fault, read_message, refuse, refuse_range, refuse_size, refuse_text, set_bit, set_factories, set_vectorcall,
    shared_text, shown_octets, size_found, source_flag, source_has, source_needed_number, source_needed_span,
    source_number, source_octets, source_range, source_span, span_of, take_block, take_common_options, take_input,
    take_keywords, text_octets, text_of, text_or_hex, utf8_view, violation, whole_number, will_keep_recent,
)
from wirefmt._core.be cimport load_u16, load_u32, store_u16, store_u32
from wirefmt._core.cursor cimport Cursor, Span, cursor_over, left, read_span, read_u16, read_u8
from wirefmt._core.octets cimport (
    Octets, add_octets, add_u16, add_u32, add_u8, extend_octets, free_octets, octets_over,
)
from wirefmt._core.status cimport CommonOptions, Fault, LIMIT, NEED_DATA, Notes, OK, fault
from wirefmt._core.utf8 cimport UTF8_ILL_FORMED, UTF8_NUL, UTF8_OK, check_utf8, is_plain_text
from wirefmt._core.varint cimport VARINT_MAX, VARINT_SHORT, VARINT_TOO_LONG, read_varint, store_varint, varint_size
from wirefmt._core.words cimport mix, unmarked, unmarked_before
from wirefmt.mqtt.topics cimport match_topic, split_share

from wirefmt._core import secret_name
from wirefmt.errors import EncodeError

# octets -> MqttPacketView, nogil
include "parse.pxi"
# ... of a PUBLISH in one pass: the fast path
include "fast.pxi"
# properties, filters and codes: octets <-> values
include "properties.pxi"
# the fifteen packets as Python objects, encoders
include "objects.pxi"
# decode, encode, Decoder
include "stream.pxi"
# topic names, filters, matching, the index
include "topics.pxi"
# MqttPacketView -> rows of the message table
include "rows.pxi"
# ... decode_batch
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> one line
include "detail.pxi"
# what captures call
include "probe.pxi"
# messages of QoS 1 and 2: sent, and arrived
include "deliveries.pxi"
include "arrivals.pxi"
# what a connection does for every message
include "connection.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.mqtt", (
    Acknowledgement, ArrivalView, Arrivals, BatchColumns, Codes, Flows, PropertiesIterator, Reason, RowEncoder,
    SessionFlows, split_packet,
))
