# A TCP segment <-> the octets of one row of the packets table, which one task writes and another reads.

cdef enum SegmentPart:          # what lies between a row's SegmentHead and its octets, in this order
    SEGMENT_V4 = 1              # addresses, 4 octets each
    SEGMENT_V6 = 2              # 16 octets each
    SEGMENT_CUT = 4             # uint32: the octets, where they are not `size`
    SEGMENT_VNI = 8             # uint32
    SEGMENT_VLANS = 16          # uint64: add_vlan
    SEGMENT_PARTS = 31


cdef struct SegmentHead:        # begins a row's `segment`; little-endian, as all supported machines are. 40 octets, no padding
    uint8_t kind                # a PacketReason: PACKET_TCP, PACKET_FRAGMENT, PACKET_FILE_FAULT
    uint8_t parts               # SegmentPart
    uint8_t flags
    uint8_t zero_window
    uint32_t size               # PACKET_FILE_FAULT: the reason
    int64_t ts_ns, frame_no     # PACKET_FILE_FAULT: ts_ns is the offset in the file
    int32_t file_index
    uint32_t seq, ack
    uint16_t src_port, dst_port


cdef enum:
    SEGMENT_HEAD_CAPACITY = 88      # a SegmentHead and all parts


cdef inline size_t segment_parts_size(int parts) noexcept nogil:
    return ((8 if parts & SEGMENT_V4 else 0) + (32 if parts & SEGMENT_V6 else 0) + (4 if parts & SEGMENT_CUT else 0)
            + (4 if parts & SEGMENT_VNI else 0) + (8 if parts & SEGMENT_VLANS else 0))


cdef inline uint8_t* add_octets(uint8_t* out, const void* p, size_t n) noexcept nogil:
    memcpy(out, p, n)
    return out + n


cdef inline const uint8_t* take_octets(const uint8_t* p, void* to, size_t n) noexcept nogil:
    memcpy(to, p, n)
    return p + n


cdef int64_t segment_head(int kind, const PacketRecord* r, const Segment* s, uint64_t vlans, int32_t file_index,
                          uint8_t* out) noexcept nogil:
    """Write what comes before the octets of a row, in SEGMENT_HEAD_ROOM octets. Returns how many."""
    cdef SegmentHead h
    cdef uint8_t* end = out + sizeof(h)
    cdef size_t address
    memset(&h, 0, sizeof(h))
    h.kind = <uint8_t>kind
    h.file_index = file_index
    h.ts_ns = r.ts_ns
    h.frame_no = r.frame_no
    h.size = s.size
    if kind == PACKET_TCP:
        h.flags = s.flags
        h.zero_window = s.zero_window
        h.seq = s.seq
        h.ack = s.ack
        h.src_port = s.src_port
        h.dst_port = s.dst_port
        address = 4 if s.ip_version == 4 else 16
        h.parts = SEGMENT_V4 if s.ip_version == 4 else SEGMENT_V6
        end = add_octets(add_octets(end, s.src, address), s.dst, address)
    if kind != PACKET_FILE_FAULT:
        if s.captured != s.size:
            h.parts |= SEGMENT_CUT
            end = add_octets(end, &s.captured, 4)
        if s.vni and kind == PACKET_TCP:
            h.parts |= SEGMENT_VNI
            end = add_octets(end, &s.vni, 4)
        if vlans:
            h.parts |= SEGMENT_VLANS
            end = add_octets(end, &vlans, 8)
    memcpy(out, &h, sizeof(h))
    return end - out


cdef int segment_unpack(PacketParser parser, const uint8_t* p, size_t n, size_t* used,
                        PacketRecord* r, Segment* s, int32_t* file_index) noexcept nogil:
    """Read the octets of one row. Returns a PacketReason; -1: not such a row.

    PACKET_TCP: `s`, `r.ts_ns`, `r.frame_no`, `parser.vlans` are filled. PACKET_FILE_FAULT: `s.size` is the reason, `r.ts_ns` the
    offset in the file, `r.frame_no` the frames before it. A raw fragment goes through the parser and is what it makes of it.
    """
    cdef SegmentHead h
    cdef const uint8_t* end = p + n
    cdef uint64_t vlans = 0
    cdef size_t address
    cdef int reason, addresses
    if n < sizeof(h):
        return -1
    p = take_octets(p, &h, sizeof(h))
    addresses = h.parts & (SEGMENT_V4 | SEGMENT_V6)
    if h.parts > SEGMENT_PARTS or segment_parts_size(h.parts) > <size_t>(end - p):
        return -1
    file_index[0] = h.file_index
    r.ts_ns = h.ts_ns
    r.frame_no = h.frame_no
    s.size = h.size
    if h.kind == PACKET_FILE_FAULT and not h.parts:
        used[0] = sizeof(h)
        return PACKET_FILE_FAULT
    memset(s.src, 0, 16)
    memset(s.dst, 0, 16)
    if addresses:
        address = 4 if addresses == SEGMENT_V4 else 16
        p = take_octets(take_octets(p, s.src, address), s.dst, address)
    s.captured = h.size
    if h.parts & SEGMENT_CUT:
        p = take_octets(p, &s.captured, 4)
    s.vni = 0
    if h.parts & SEGMENT_VNI:
        p = take_octets(p, &s.vni, 4)
    if h.parts & SEGMENT_VLANS:
        p = take_octets(p, &vlans, 8)
    if s.captured > <size_t>(end - p) or s.captured > h.size or vlans >> VLANS_COUNT > VLANS_MAX:
        return -1
    used[0] = n - <size_t>(end - p) + s.captured
    if h.kind == PACKET_FRAGMENT and not addresses:
        r.data = p
        r.captured_size = r.original_size = s.captured
        r.link_type = 101
        reason = parser.parse(r, s)
        parser.vlans = vlans
        return reason
    if h.kind != PACKET_TCP or (addresses != SEGMENT_V4 and addresses != SEGMENT_V6):
        return -1
    s.ip_version = 4 if addresses == SEGMENT_V4 else 6
    s.flags = h.flags
    s.zero_window = h.zero_window != 0
    s.src_port = h.src_port
    s.dst_port = h.dst_port
    s.seq = h.seq
    s.ack = h.ack
    s.payload = p
    parser.vlans = vlans
    return PACKET_TCP
