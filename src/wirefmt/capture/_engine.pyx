# cython: language_level=3, wraparound=False, initializedcheck=False, auto_pickle=False
# cython: cdivision=True, binding=True, embedsignature=False, always_allow_keywords=True
"""Captures, compiled: packets to streams to rows of the message table. It knows protocols by the rows of the registry."""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset, strlen, strstr

from wirefmt._core cimport (
    CARRIER_DEFLATE, CARRIER_SNAPPY, CARRIER_TLS, Col, ColumnSet, HASH_KEY, Input, MORE, MessageContext, MessageTable, NO,
    NO_TEXT, Protocol, ProtocolState, ROW_GAP, ROW_MALFORMED, ROW_OK, ROW_PARTIAL, SERVERS, TEXT_PAD, T_BYTE_OFFSET,
    T_CAPTURE, T_DETAIL, T_FRAME_NO, T_HEADERS, T_KIND, T_OPERATION, T_PROTOCOL, Text, VLANS_COUNT, VLANS_MAX, YES,
    add_vlan, begin_call, close_state, fault_text, finish_module, open_state, protocol_row, pad_text, put_bool, put_i16,
    put_i32, put_i64, put_i8, put_map, put_octets, put_octets2, put_text, set_bit, take_input,
)
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u16, store_u32
from wirefmt._core.cache cimport prefetch, prefetch_read
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS
from wirefmt._core.status cimport Fault, NEED_DATA, OK, fault
from wirefmt._core.text cimport NOT_HEX, hex_digit, printed
from wirefmt._core.words cimport avalanche

# memory for the chunks of a file
include "blocks.pxi"
# capture files that are not read; texts of faults
include "formats.pxi"
# where records begin
include "chains.pxi"
# pcap and pcapng blocks -> packet records
include "pcapfile.pxi"
# ... from chunks of any size
include "records.pxi"
# key logs: where the lines of a client random are; secrets blocks of pcapng
include "keylog.pxi"
# link, VLAN, IP, TCP headers, fragments -> segments
include "packets.pxi"
# segments <-> rows of the packets table
include "segments.pxi"
# GENERATED from wirefmt/spec/packets.py
include "columns.pxi"
# captures -> the packets table; where records begin in the midst of a file
include "scanner.pxi"
# flows by their ends
include "flows.pxi"
# events of the reassembly that wait for a full sink
include "deliveries.pxi"
# segments -> octets of each stream direction, in order
include "reassembly.pxi"
# the reassembly alone, for tests
include "trace.pxi"
# WebSocket frames -> their payload
include "websocket.pxi"
# PROXY headers before the client's first octet
include "proxy.pxi"
# SOCKS5 and HTTP CONNECT before the client's first octet
include "tunnel.pxi"
# compressed streams -> what is in them
include "unpack.pxi"
# the rows of the protocols
include "protocols.pxi"
# where frames begin again after a gap
include "resync.pxi"
# what is kept of the directions of flows; rows about them
include "streams.pxi"
# a flow that has ended -> a row of the transport table
include "transport.pxi"
# octets of a direction -> carriers -> frames -> rows; gaps
include "frames.pxi"
# events of the reassembly -> octets and gaps of directions
include "events.pxi"
# carriers: WebSockets, compressed streams, TLS
include "carrier_compressed.pxi"
include "carrier_websocket.pxi"
include "carrier_tls.pxi"
# carriers alone, for tests
include "carrier_trace.pxi"
# what directions may begin with: PROXY headers, tunnels, TLS
include "openings.pxi"
# handshakes of WebSockets
include "upgrade.pxi"
# which protocol a flow is of
include "recognise.pxi"
# packets -> segments for each of several threads
include "dispatch.pxi"
# files -> streams -> message table
include "decoder.pxi"

# only constructors make objects; classes and functions belong to the package, except these
finish_module(globals(), "wirefmt.capture", (
    Blocks, BoundarySearch, CarrierTrace, Dispatcher, FrameStreams, KeyLogIndex, PacketParser, PacketTrace, PcapFile, PcapReader,
    Reassembler, Recognition, RecordFeed, SecretsScan, Share, StreamTrace, Streams, Unpacker, find_record, sniff,
))
