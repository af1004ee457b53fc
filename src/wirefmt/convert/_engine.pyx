# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""Conversions between MQTT 5.0, AMQP 0.9.1 and AMQP 1.0, compiled: the only module in which protocols meet."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy, memmove, memset

from wirefmt._core cimport (
    Col, ColumnSet, Input, ascii_octets, close_list, finish_module, hidden, holds_secret_word, is_secret_name,
    make_fault, octets_of, open_list, put_octets, take_input,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cursor cimport Cursor, Span, cursor_over
from wirefmt._core.octets cimport (
    Octets, add_octets, add_u16, add_u32, add_u64, add_u8, extend_octets, free_octets, octets_over,
)
from wirefmt._core.status cimport Fault, NEED_DATA, OK, UNSUPPORTED, fault
from wirefmt._core.text cimport DIGITS_CAPACITY, hex2, write_digits, write_uuid
from wirefmt._core.utf8 cimport UTF8_OK, check_utf8, is_utf8
from wirefmt._core.varint cimport VARINT_MAX, read_varint, store_varint, varint_size
from wirefmt._core.words cimport is_ascii
from wirefmt.amqp091._codec cimport (
    AMQP091_AWAITS_BODY, AMQP091_AWAITS_HEADER, AMQP091_CHECK_FRAME_TRUNCATED, AMQP091_CHECK_METHOD_UNEXPECTED,
    AMQP091_CLASS_BASIC, AMQP091_FIELD_FRAME, AMQP091_FIELD_TYPE, AMQP091_FRAME_BODY, AMQP091_FRAME_HEADER,
    AMQP091_FRAME_MAX_DEFAULT, AMQP091_FRAME_METHOD, AMQP091_NESTING_MAX, AMQP091_PROPERTY_COUNT,
    AMQP091_PROPERTY_DELIVERY_MODE, AMQP091_PROPERTY_EXPIRATION, AMQP091_PROPERTY_HEADERS, AMQP091_PROPERTY_PRIORITY,
    AMQP091_PROPERTY_TIMESTAMP, AMQP091_PROPERTY_TYPE, AMQP091_TABLES, AMQP091_UNEXPECTED, AMQP091_VARIABLE,
    Amqp091Channel, Amqp091Entry, Amqp091FrameView, Amqp091Options, Amqp091PropertiesView, amqp091_add_content,
    amqp091_add_i64, amqp091_add_name, amqp091_add_value, amqp091_assemble, amqp091_close, amqp091_entries,
    amqp091_fault, amqp091_find_entry, amqp091_frame_size, amqp091_letter_size, amqp091_methods, amqp091_next_entry,
    amqp091_open, amqp091_parse, amqp091_parse_properties, amqp091_properties, amqp091_property, amqp091_shortstr_at,
    begin_of, taken_octets,
)
from wirefmt.amqp10._codec cimport (
    AMQP10_ARRAY, AMQP10_BINARY, AMQP10_BOOLEAN, AMQP10_BYTE, AMQP10_CHAR, AMQP10_CHECK_BODY_MISSING,
    AMQP10_CODE_ARRAY8, AMQP10_CODE_BOOLEAN, AMQP10_CODE_BYTE, AMQP10_CODE_DOUBLE, AMQP10_CODE_FLOAT,
    AMQP10_CODE_LIST8, AMQP10_CODE_MAP32, AMQP10_CODE_MAP8, AMQP10_CODE_SHORT, AMQP10_CODE_SMALLLONG,
    AMQP10_CODE_SMALLUINT, AMQP10_CODE_SMALLULONG, AMQP10_CODE_STR32, AMQP10_CODE_STR8, AMQP10_CODE_SYM8,
    AMQP10_CODE_TIMESTAMP, AMQP10_CODE_TRUE, AMQP10_CODE_UBYTE, AMQP10_CODE_UINT, AMQP10_CODE_USHORT,
    AMQP10_CODE_UUID, AMQP10_CODE_VBIN8, AMQP10_DECIMAL128, AMQP10_DECIMAL32, AMQP10_DECIMAL64, AMQP10_DESCRIBED,
    AMQP10_DOUBLE, AMQP10_FLOAT, AMQP10_HEADER, AMQP10_HEADER_DURABLE, AMQP10_HEADER_PRIORITY, AMQP10_HEADER_TTL,
    AMQP10_INT, AMQP10_LIST, AMQP10_LONG, AMQP10_MAP, AMQP10_NESTING_MAX, AMQP10_NULL,
    AMQP10_PROPERTIES_CORRELATION_ID, AMQP10_PROPERTIES_CREATION_TIME, AMQP10_SECTION_AMQP_SEQUENCE,
    AMQP10_SECTION_AMQP_VALUE, AMQP10_SECTION_APPLICATION_PROPERTIES, AMQP10_SECTION_DATA,
    AMQP10_SECTION_DELIVERY_ANNOTATIONS, AMQP10_SECTION_FIRST, AMQP10_SECTION_FOOTER, AMQP10_SECTION_HEADER,
    AMQP10_SECTION_MESSAGE_ANNOTATIONS, AMQP10_SECTION_PROPERTIES, AMQP10_SHORT, AMQP10_STRING, AMQP10_SYMBOL,
    AMQP10_TABLES, AMQP10_TIMESTAMP, AMQP10_UBYTE, AMQP10_UINT, AMQP10_ULONG, AMQP10_USHORT, AMQP10_UUID, AMQP10_WIDE,
    Amqp10CompositeView, Amqp10Items, Amqp10MessageView, Amqp10Options, Amqp10Section, Amqp10ValueView, amqp10_add_boolean,
    amqp10_add_element, amqp10_add_fixed, amqp10_add_int, amqp10_add_long, amqp10_add_null, amqp10_add_uint,
    amqp10_add_ulong, amqp10_add_value, amqp10_add_variable, amqp10_add_wide, amqp10_close, amqp10_constructors,
    amqp10_described, amqp10_field, amqp10_field_timestamp, amqp10_fields_of, amqp10_items, amqp10_narrow_code,
    amqp10_next, amqp10_next_section, amqp10_octets, amqp10_open, amqp10_parse_message, amqp10_primitive, amqp10_read,
    amqp10_signed, amqp10_unsigned, amqp10_wide_code,
)
from wirefmt.mqtt._codec cimport (
    MQTT_BINARY, MQTT_BYTE, MQTT_CHECK_STRING_NUL, MQTT_CHECK_STRING_UTF8, MQTT_CHECK_USER_PROPERTY_NUL,
    MQTT_CHECK_USER_PROPERTY_UTF8, MQTT_PAIR, MQTT_PROPERTY_CONTENT_TYPE, MQTT_PROPERTY_CORRELATION_DATA,
    MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL, MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR, MQTT_PROPERTY_RESPONSE_TOPIC,
    MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER, MQTT_PROPERTY_TOP, MQTT_PROPERTY_TOPIC_ALIAS, MQTT_PROPERTY_USER_PROPERTY,
    MQTT_PUBLISH, MQTT_STRING, MQTT_TABLES, MQTT_TWO, MQTT_VARINT, MqttOptions, MqttPacketView, MqttProperty, mqtt_field_path,
    mqtt_find_property, mqtt_next_property, mqtt_parse, mqtt_properties,
)

from wirefmt.convert.conversion import Loss
from wirefmt.convert.messages import Wire, wire_of
from wirefmt.errors import ConversionError, EncodeError

# GENERATED from vocabulary.py
include "table.pxi"
# compiled rows of rules
include "rules.pxi"
# state of a running conversion, conditions
include "state.pxi"
# values within headers and maps
include "values.pxi"
# scalars as text
include "text.pxi"
# the history of dead-lettering
include "deaths.pxi"
# values encoded again
include "rewrite.pxi"
# the interpreter of rules
include "interpret.pxi"
# messages -> rules
include "read.pxi"
# rules -> messages
include "write.pxi"
# the publisher's own protocol
include "same.pxi"
# one message
include "message.pxi"
# topics and routing keys, for Python
include "topics.pxi"
# what a broker learns from a message
include "learn.pxi"
# what a broker keeps
include "container.pxi"
# what a broker adds
include "delivery.pxi"
# octets in, octets out
include "objects.pxi"
# columns in, columns out
include "batch.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.convert", (
    ConvertColumn, ConvertRules, ConvertRun, convert_rows, join_content, protocol_number, split_content,
))
