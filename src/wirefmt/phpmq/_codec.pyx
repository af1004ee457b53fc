# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled codec of PHPMQ. Its rooms, in the order in which Cython needs their declarations."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset

from wirefmt._core cimport (
    BatchEncoder, Col, DETAIL_FIELD, DetailField, DetailForm, DetailLine, Factory, FrameBatch, FrameDecoder, HEX_SIZE,
    Input, MORE, MessageContext, MessageOps, MessageTable, NO, Problem, Protocol, ProtocolTables, REFUSED_FAULT,
    REFUSED_NULL, ROW_PARTIAL, SERVERS, STRICT_MODE, SourceCol, T_DESTINATION, T_KIND, T_MESSAGE_ID,
    T_OPERATION, T_PROTOCOL, T_TTL_MS, T_VERSION, Text, Writer, YES, bare_object, copy_octets, detail_form,
    encode_error, fill_view, finish_module, line_begin, line_number, line_signed, line_text,
    message_notes, message_octets, new_writer, octets_of, pad_text, protocol_capsule, put_bool, put_i32, put_i64,
    put_line, put_span, put_struct, put_text, raise_fault, read_message, refuse, refuse_text, set_factories,
    shown_octets, size_found, source_flag, source_has, source_integer, source_name, source_number, source_span,
    take_block, take_common_options, take_input, text_or_hex, violation, whole_number,
)
from wirefmt._core.cursor cimport Span
from wirefmt._core.status cimport CommonOptions, Fault, NEED_DATA, Notes, OK, fault

from wirefmt.errors import EncodeError

# PHPMQ: octets -> PhpmqMessageView, nogil
include "parse.pxi"
# the messages as Python objects, encoders
include "objects.pxi"
# PhpmqMessageView -> rows of the message table
include "rows.pxi"
# ... decode_batch
include "batch.pxi"
# columns -> octets: encode_batch
include "encode_batch.pxi"
# ... -> one line
include "detail.pxi"
# what captures call
include "probe.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.phpmq", (Answer, BatchColumns, Carrier, Queued, RowEncoder))
