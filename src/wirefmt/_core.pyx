# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""The compiled core of wirefmt: one extension made of rooms. This page is its table of contents.

Order is the direction of dependency: a room uses only rooms above it and the header-only leaves
(be, status, cursor, octets, varint, utf8, words, floats, topics).
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
from wirefmt._core.topics cimport (
    TOPIC_OK, TOPIC_SHARE_NAME, check_topic_filter, check_topic_name, is_shared, match_topic, split_share,
)
from wirefmt._core.utf8 cimport UTF8_ILL_FORMED, UTF8_NUL, UTF8_OK, check_utf8, is_utf8
from wirefmt._core.varint cimport (
    VARINT_MAX, VARINT_SHORT, VARINT_TOO_LONG, read_varint, store_varint, varint_size,
)
from wirefmt._core.words cimport hash_octets, is_ascii, mix, same_octets

# ---- what every protocol room stands on
# Fault -> exception; the only room that raises DecodeError
include "_core/faults.pxi"
# random keys of hash tables
include "_core/seed.pxi"
# objects refuse a second call while the first works
include "_core/calls.pxi"
# growable output
include "_core/writer.pxi"
# GENERATED from wirefmt/spec/secrets.py
include "_core/secrets_table.pxi"
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
# GENERATED from wirefmt/spec/table.py
include "_core/table_columns.pxi"
# the message table: the columns all protocols share
include "_core/table.pxi"
# a message in one line: how fields get into it
include "_core/detail.pxi"

# ---- protocols, each knowing no other
# GENERATED from wirefmt/spec/mqtt.py
include "_core/mqtt_table.pxi"
# octets -> MqttPacket, nogil
include "_core/mqtt.pxi"
# the fifteen packets as Python objects, encoders
include "_core/mqtt_messages.pxi"
# topic names, filters, matching, the index
include "_core/mqtt_topics.pxi"
# MqttPacket -> columns
include "_core/mqtt_columns.pxi"
# ... -> one line
include "_core/mqtt_detail.pxi"
# GENERATED from wirefmt/spec/amqp091.py
include "_core/amqp091_table.pxi"
# AMQP 0.9.1: octets -> Amqp091Frame, field tables, contents of channels, nogil
include "_core/amqp091.pxi"
# field values, tables and arrays as Python objects, both ways
include "_core/amqp091_values.pxi"
# frames as Python objects
include "_core/amqp091_messages.pxi"
# GENERATED from wirefmt/spec/amqp091.py: a class a method
include "_core/amqp091_methods.pxi"
# decode, Decoder, Assembler; a method with its content
include "_core/amqp091_stream.pxi"
# field values as text of columns, nogil
include "_core/amqp091_text.pxi"
# a row a method, its content folded in: decode_batch
include "_core/amqp091_columns.pxi"
# ... -> rows of the message table
include "_core/amqp091_rows.pxi"
# ... -> one line
include "_core/amqp091_detail.pxi"
# GENERATED from wirefmt/spec/amqp10.py
include "_core/amqp10_table.pxi"
# the type system over octets, nogil
include "_core/amqp10_types.pxi"
# values -> octets, nogil
include "_core/amqp10_write.pxi"
# octets -> Amqp10Frame, Amqp10Message, nogil
include "_core/amqp10.pxi"
# transfers joined to deliveries, nogil
include "_core/amqp10_deliveries.pxi"
# scalars as Python objects
include "_core/amqp10_scalars.pxi"
# lists, maps, arrays, described values and composites as Python objects
include "_core/amqp10_values.pxi"
# performatives, SASL frames, messages as Python objects, encoders
include "_core/amqp10_messages.pxi"
# AMQP 1.0 values as text
include "_core/amqp10_text.pxi"
# Amqp10Frame, Amqp10Message -> columns
include "_core/amqp10_columns.pxi"
# ... -> rows of the message table
include "_core/amqp10_rows.pxi"
# ... -> one line
include "_core/amqp10_detail.pxi"
# GENERATED from wirefmt/spec/rocketmq.py
include "_core/rocketmq_table.pxi"
# octets -> RocketmqFrame, stored messages, nogil
include "_core/rocketmq.pxi"
# texts and JSON as Python values, and as the Java code writes them
include "_core/rocketmq_values.pxi"
# typed headers
include "_core/rocketmq_headers.pxi"
# stored messages, batches, ids
include "_core/rocketmq_bodies.pxi"
# JSON bodies
include "_core/rocketmq_json.pxi"
# RemotingCommand, encoders
include "_core/rocketmq_messages.pxi"
# RocketmqFrame -> columns
include "_core/rocketmq_columns.pxi"
# ... -> one line
include "_core/rocketmq_detail.pxi"
# GENERATED from wirefmt/spec/nsq.py
include "_core/nsq_table.pxi"
# JSON objects, member by member, nogil
include "_core/nsq_json.pxi"
# NSQ: octets -> NsqUnit, nogil
include "_core/nsq.pxi"
# commands and frames as Python objects, encoders
include "_core/nsq_messages.pxi"
# NsqUnit -> columns
include "_core/nsq_columns.pxi"
# ... -> one line
include "_core/nsq_detail.pxi"
# GENERATED from wirefmt/spec/phpmq.py
include "_core/phpmq_table.pxi"
# PHPMQ: octets -> PhpmqMessage, nogil
include "_core/phpmq.pxi"
# the messages as Python objects, encoders
include "_core/phpmq_messages.pxi"
# PhpmqMessage -> columns
include "_core/phpmq_columns.pxi"
# ... -> one line
include "_core/phpmq_detail.pxi"

# ---- conversions: the only rooms where two protocols meet
# GENERATED from wirefmt/convert/vocabulary.py
include "_core/convert_table.pxi"
# rows of rules, compiled
include "_core/convert_rules.pxi"
# a conversion under way, conditions
include "_core/convert_state.pxi"
# values within headers and maps
include "_core/convert_values.pxi"
# the interpreter of rules
include "_core/convert.pxi"
# messages -> rules
include "_core/convert_read.pxi"
# rules -> messages
include "_core/convert_write.pxi"
# octets in, octets out; deliveries
include "_core/convert_messages.pxi"
# columns in, columns out
include "_core/convert_rows.pxi"

# ---- captures
# pcap and pcapng blocks -> packet records
include "_core/pcapfile.pxi"
# link, VLAN, IP, TCP headers, fragments -> segments
include "_core/packets.pxi"
# captures -> the packets table; where records begin in the midst of a file
include "_core/scanner.pxi"
# segments -> octets of each stream direction, in order
include "_core/reassembly.pxi"
# WebSocket frames -> their payload
include "_core/websocket.pxi"
# what a capture asks of a protocol
include "_core/protocol.pxi"
# compressed streams -> what is in them
include "_core/unpack.pxi"
# ... and what each answers
include "_core/mqtt_capture.pxi"
include "_core/amqp091_capture.pxi"
include "_core/amqp10_capture.pxi"
include "_core/nsq_capture.pxi"
include "_core/phpmq_capture.pxi"
include "_core/rocketmq_capture.pxi"
# a row for each protocol a capture may hold
include "_core/protocols.pxi"
# what waits until a full batch has been taken
include "_core/deferred.pxi"
# streams -> protocol -> message table
include "_core/capture.pxi"

# ---- every class of the core: objects are made by constructors only
include "_core/seal.pxi"
