# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""From messages to answers, compiled: rows of the message table in, rows of operations and connections out.

It reads finished batches of the message table, so a stored table is as good as a capture, and the message table alone costs
nothing more. Each protocol has a room, which says what its messages open, settle, name, agree and end; all else is shared."""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset, strlen

from wirefmt._core cimport (
    Batch, Col, ColumnSet, Field, Input, Text, T_ATTEMPTS, T_CAPTURE, T_CHANNEL, T_CLIENT_ID, T_CODE, T_CONSUMER_GROUP,
    T_CORRELATION_ID, T_DESTINATION, T_DIRECTION, T_DST_IP, T_DST_PORT, T_ERROR, T_FLOW_ID, T_FRAME_NO, T_HEADERS, T_KIND,
    T_MESSAGE_ID, T_OPERATION, T_PAYLOAD, T_PAYLOAD_SIZE, T_PROTOCOL, T_QOS, T_REDELIVERED, T_REPLY_TO, T_ROUTING_KEY,
    T_SEQUENCE, T_SRC_IP, T_SRC_PORT, T_STATUS, T_TS_NS, T_TTL_MS, T_VERSION, begin_call, close_list, copy_octets, copy_value,
    finish_module, open_list, pad_text, put_bool, put_i32, put_i64, put_i8, put_octets, put_span, put_text, take_input,
)
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS
from wirefmt._core.text cimport NOT_HEX, hex_digit
from wirefmt._core.words cimport avalanche, hash_octets

# cells of finished batches
include "cells.pxi"
# kinds of messages, numbered
include "kinds.pxi"
# memory of what comes and goes with every message
include "pools.pxi"
# chained hash tables of what is known by a key
include "entries.pxi"
# for how long a client took no deliveries
include "windows.pxi"
# what findings need of operations
include "answers.pxi"
# what is kept of connections and open operations
include "state.pxi"
# rows of connections
include "connections.pxi"
# rows of operations
include "operations.pxi"
# MQTT sessions
include "sessions.pxi"
# publishes and deliveries that are matched: what is kept of them
include "paths.pxi"
# texts that they share
include "names.pxi"
# what publishes are found by
include "buckets.pxi"
# rows of paths
include "path_rows.pxi"
# which publish a delivery is a copy of
include "copies.pxi"
# what a publish was republished from
include "hops.pxi"
# publishes and deliveries, as they come
include "sides.pxi"
# what opens waits for what settles it
include "matching.pxi"
# what the tables of states say of messages
include "observers.pxi"
# what the messages of each protocol mean
include "mqtt.pxi"
include "amqp091.pxi"
include "amqp10.pxi"
include "rocketmq.pxi"
include "nsq.pxi"
include "phpmq.pxi"
# whether each message may come then
include "observed.pxi"
# batches in, tables out
include "tables.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.insight", (OpenOperations, batch_of, codes_of, with_values))
