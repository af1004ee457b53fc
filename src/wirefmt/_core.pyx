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
from wirefmt.mqtt.topics cimport (
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
include "mqtt/table.pxi"
# octets -> MqttPacket, nogil
include "mqtt/parse.pxi"
# the fifteen packets as Python objects, encoders
include "mqtt/objects.pxi"
# topic names, filters, matching, the index
include "mqtt/topics.pxi"
# MqttPacket -> columns
include "mqtt/rows.pxi"
# ... -> one line
include "mqtt/detail.pxi"
# GENERATED from wirefmt/spec/amqp091.py
include "amqp091/table.pxi"
# AMQP 0.9.1: octets -> Amqp091Frame, field tables, contents of channels, nogil
include "amqp091/parse.pxi"
# field values, tables and arrays as Python objects, both ways
include "amqp091/values.pxi"
# frames as Python objects
include "amqp091/objects.pxi"
# GENERATED from wirefmt/spec/amqp091.py: a class a method
include "amqp091/methods.pxi"
# decode, Decoder, Assembler; a method with its content
include "amqp091/pending.pxi"
# field values as text of columns, nogil
include "amqp091/text.pxi"
# a row a method, its content folded in: decode_batch
include "amqp091/batch.pxi"
# ... -> rows of the message table
include "amqp091/rows.pxi"
# ... -> one line
include "amqp091/detail.pxi"
# GENERATED from wirefmt/spec/amqp10.py
include "amqp10/table.pxi"
# the type system over octets, nogil
include "amqp10/types.pxi"
# values -> octets, nogil
include "amqp10/write.pxi"
# octets -> Amqp10Frame, Amqp10Message, nogil
include "amqp10/parse.pxi"
# transfers joined to deliveries, nogil
include "amqp10/pending.pxi"
# scalars as Python objects
include "amqp10/scalars.pxi"
# lists, maps, arrays, described values and composites as Python objects
include "amqp10/values.pxi"
# performatives, SASL frames, messages as Python objects, encoders
include "amqp10/objects.pxi"
# AMQP 1.0 values as text
include "amqp10/text.pxi"
# Amqp10Frame, Amqp10Message -> columns
include "amqp10/batch.pxi"
# ... -> rows of the message table
include "amqp10/rows.pxi"
# ... -> one line
include "amqp10/detail.pxi"
# GENERATED from wirefmt/spec/rocketmq.py
include "rocketmq/table.pxi"
# octets -> RocketmqFrame, stored messages, nogil
include "rocketmq/parse.pxi"
# texts and JSON as Python values, and as the Java code writes them
include "rocketmq/values.pxi"
# typed headers
include "rocketmq/headers.pxi"
# stored messages, batches, ids
include "rocketmq/bodies.pxi"
# JSON bodies
include "rocketmq/json.pxi"
# RemotingCommand, encoders
include "rocketmq/objects.pxi"
# RocketmqFrame -> columns
include "rocketmq/batch.pxi"
# ... -> one line
include "rocketmq/detail.pxi"
# GENERATED from wirefmt/spec/nsq.py
include "nsq/table.pxi"
# JSON objects, member by member, nogil
include "nsq/json.pxi"
# NSQ: octets -> NsqUnit, nogil
include "nsq/parse.pxi"
# commands and frames as Python objects, encoders
include "nsq/objects.pxi"
# NsqUnit -> columns
include "nsq/rows.pxi"
# ... -> one line
include "nsq/detail.pxi"
# GENERATED from wirefmt/spec/phpmq.py
include "phpmq/table.pxi"
# PHPMQ: octets -> PhpmqMessage, nogil
include "phpmq/parse.pxi"
# the messages as Python objects, encoders
include "phpmq/objects.pxi"
# PhpmqMessage -> columns
include "phpmq/rows.pxi"
# ... -> one line
include "phpmq/detail.pxi"

# ---- conversions: the only rooms where two protocols meet
# rows of rules, compiled
include "convert/rules.pxi"
# a conversion under way, conditions
include "convert/state.pxi"
# values within headers and maps
include "convert/values.pxi"
# the interpreter of rules
include "convert/interpret.pxi"
# messages -> rules
include "convert/read.pxi"
# rules -> messages
include "convert/write.pxi"
# octets in, octets out; deliveries
include "convert/objects.pxi"
# columns in, columns out
include "convert/batch.pxi"

# ---- captures
# pcap and pcapng blocks -> packet records
include "capture/pcapfile.pxi"
# link, VLAN, IP, TCP headers, fragments -> segments
include "capture/packets.pxi"
# captures -> the packets table; where records begin in the midst of a file
include "capture/scanner.pxi"
# segments -> octets of each stream direction, in order
include "capture/reassembly.pxi"
# WebSocket frames -> their payload
include "capture/websocket.pxi"
# what a capture asks of a protocol
include "_core/protocol.pxi"
# compressed streams -> what is in them
include "capture/unpack.pxi"
# ... and what each answers
include "mqtt/probe.pxi"
include "amqp091/probe.pxi"
include "amqp10/probe.pxi"
include "nsq/probe.pxi"
include "phpmq/probe.pxi"
include "rocketmq/probe.pxi"
# a row for each protocol a capture may hold
include "_core/protocols.pxi"
# what waits until a full batch has been taken
include "capture/deferred.pxi"
# streams -> protocol -> message table
include "capture/decoder.pxi"

# ---- every class of the core: objects are made by constructors only
include "_core/seal.pxi"
