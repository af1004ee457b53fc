"""The packets table: one row per TCP segment of a capture, exchanged between Spark tasks."""

from wirefmt.spec.columns import Column

COLUMNS: tuple[Column, ...] = (
    Column("file_index", "int32", "number of the capture file among all"),
    Column("frame_no", "int64", "number of the packet in its capture, from 1"),
    Column("ts_ns", "int64", "nanoseconds since 1970"),
    Column("flow_hash", "int64", "of both ends; the same for both directions. 0: a fault of the capture file"),
    Column("pair_hash", "int64", "of both addresses; the same for both directions, and for IP fragments"),
    Column("src_ip", "string", "sender's address"),
    Column("src_port", "int32", "sender's port"),
    Column("dst_ip", "string", "receiver's address"),
    Column("dst_port", "int32", "receiver's port"),
    Column("tcp_flags", "int16", "FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32"),
    Column("seq", "int64", "sequence number"),
    Column("payload_size", "int32", "bytes according to the IP header"),
    Column("fragment", "boolean", "an unparsed IP fragment: no ports, flow_hash is pair_hash"),
    Column("segment", "binary", "the input of the second stage: a packed header and the payload"),
)
