# One captured packet to one TCP segment, or to a counted reason why not.
#
# Link types: Ethernet with 802.1Q and QinQ, Linux SLL and SLL2, BSD null and loop, raw IP, IPv4, IPv6.
# IPv4: RFC 791; IPv6 and its extension headers: RFC 8200; TCP: RFC 9293.
# Not yet: datagrams in fragments, tunnels, the packets table.
#
# Uses: be, pcapfile. Included by _core.pyx.

cdef enum:
    TCP_FIN = 1
    TCP_SYN = 2
    TCP_RST = 4
    TCP_PSH = 8
    TCP_ACK = 16
    TCP_URG = 32

cdef enum:
    ETHERTYPE_IPV4 = 0x0800
    ETHERTYPE_IPV6 = 0x86DD
    PROTOCOL_TCP = 6
    PROTOCOL_UDP = 17

cdef enum PacketReason:
    PACKET_TCP = 0
    PACKET_UDP
    PACKET_OTHER_TRANSPORT
    PACKET_FRAGMENT
    PACKET_NOT_IP
    PACKET_LINK_TYPE
    PACKET_TRUNCATED
    PACKET_MALFORMED
    PACKET_REASONS

cdef tuple PACKET_REASON_NAMES = (
    "tcp", "udp", "other_transport", "fragment", "not_ip", "unknown_link_type", "truncated", "malformed",
)


cdef struct Segment:
    uint8_t ip_version          # 4, 6
    uint8_t flags               # TCP_FIN ...
    uint8_t src[16]
    uint8_t dst[16]             # IPv4: the first four octets, the rest zero
    uint16_t src_port, dst_port
    uint32_t seq, ack
    uint32_t realm              # network identifier of the innermost tunnel; 0: none
    uint32_t size               # payload octets by the IP header
    uint32_t captured           # of them, octets at `payload`
    const uint8_t* payload


cdef inline uint64_t spread(uint64_t h) noexcept nogil:
    h ^= h >> 32
    h *= <uint64_t>0xD6E8FEB86659FD93
    h ^= h >> 32
    h *= <uint64_t>0xD6E8FEB86659FD93
    return h ^ (h >> 32)


cdef inline uint64_t end_hash(const uint8_t* address, uint16_t port) noexcept nogil:
    return spread(load_u64(address) ^ spread(load_u64(address + 8) + port))


cdef uint64_t segment_pair_hash(const Segment* s) noexcept nogil:
    """Of the addresses and the realm; the same for both directions."""
    return spread((end_hash(s.src, 0) + end_hash(s.dst, 0)) ^ s.realm)


cdef uint64_t segment_flow_hash(const Segment* s) noexcept nogil:
    """Of the ends and the realm; the same for both directions."""
    return spread((end_hash(s.src, s.src_port) + end_hash(s.dst, s.dst_port)) ^ s.realm)


cdef class PacketParser:
    """C only. `tunnels` and `fragments` are not looked into yet."""

    cdef int64_t counts[PACKET_REASONS]

    def __init__(self, *, tunnels=False, fragments=True):
        pass

    def stats(self):
        cdef int i
        return {PACKET_REASON_NAMES[i]: self.counts[i] for i in range(<int>PACKET_REASONS) if self.counts[i]}

    cdef int parse(self, const PacketRecord* r, Segment* out) noexcept nogil:
        """A PacketReason."""
        cdef Cursor c = cursor_over(r.data, r.captured_size)
        cdef int reason = read_link(&c, r.link_type, <int64_t>r.original_size, out)
        self.counts[reason] += 1
        return reason


cdef int read_link(Cursor* c, int link_type, int64_t size, Segment* out) noexcept nogil:
    cdef uint16_t kind = 0
    cdef int64_t header
    if link_type == 1:                                  # destination, source, type
        header = 14
        if left(c) < 14:
            return PACKET_TRUNCATED
        kind = load_u16(c.at + 12)
    elif link_type == 113:                              # type, ARPHRD, address length, address, protocol
        header = 16
        if left(c) < 16:
            return PACKET_TRUNCATED
        kind = load_u16(c.at + 14)
    elif link_type == 276:                              # protocol, reserved, interface, ARPHRD, type, length, address
        header = 20
        if left(c) < 20:
            return PACKET_TRUNCATED
        kind = load_u16(c.at)
    elif link_type == 0 or link_type == 108:            # address family; its IPv6 numbers differ between systems
        header = 4
        if left(c) < 5:
            return PACKET_TRUNCATED
        kind = ETHERTYPE_IPV4 if c.at[4] >> 4 == 4 else ETHERTYPE_IPV6 if c.at[4] >> 4 == 6 else 0
    elif link_type == 101 or link_type == 12 or link_type == 14 or link_type == 228 or link_type == 229:
        header = 0
        if left(c) < 1:
            return PACKET_TRUNCATED
        kind = ETHERTYPE_IPV4 if c.at[0] >> 4 == 4 else ETHERTYPE_IPV6 if c.at[0] >> 4 == 6 else 0
    else:
        return PACKET_LINK_TYPE
    c.at += header
    while kind == 0x8100 or kind == 0x88A8 or kind == 0x9100:       # 802.1Q: tag, type
        if left(c) < 4:
            return PACKET_TRUNCATED
        kind = load_u16(c.at + 2)
        c.at += 4
    size -= offset_of(c)
    memset(out, 0, sizeof(Segment))
    if kind == ETHERTYPE_IPV4:
        return read_ipv4(c, size, out)
    if kind == ETHERTYPE_IPV6:
        return read_ipv6(c, size, out)
    return PACKET_NOT_IP


cdef int read_ipv4(Cursor* c, int64_t size, Segment* out) noexcept nogil:
    """0 version and header length, 2 total length, 6 flags and fragment offset, 9 protocol, 12 source, 16 destination."""
    cdef int64_t header, total
    cdef int protocol
    if left(c) < 20:
        return PACKET_TRUNCATED
    header = (c.at[0] & 15) * 4
    total = load_u16(c.at + 2)
    if total == 0:                                      # left to the network card: segmentation offload
        total = size
    if c.at[0] >> 4 != 4 or header < 20 or total < header:
        return PACKET_MALFORMED
    if load_u16(c.at + 6) & 0x3FFF:                     # more fragments, or not the first
        return PACKET_FRAGMENT
    protocol = c.at[9]
    out.ip_version = 4
    memcpy(out.src, c.at + 12, 4)
    memcpy(out.dst, c.at + 16, 4)
    if left(c) < <size_t>header:
        return PACKET_TRUNCATED
    c.at += header
    return read_transport(c, protocol, total - header, out)


cdef int read_ipv6(Cursor* c, int64_t size, Segment* out) noexcept nogil:
    """0 version, 4 payload length, 6 next header, 8 source, 24 destination; then extension headers."""
    cdef int64_t total, header
    cdef int next_header
    if left(c) < 40:
        return PACKET_TRUNCATED
    if c.at[0] >> 4 != 6:
        return PACKET_MALFORMED
    total = load_u16(c.at + 4)
    if total == 0:
        total = size - 40
    next_header = c.at[6]
    out.ip_version = 6
    memcpy(out.src, c.at + 8, 16)
    memcpy(out.dst, c.at + 24, 16)
    c.at += 40
    while next_header in (0, 43, 60, 51, 135):          # hop by hop, routing, destination, authentication, mobility
        if left(c) < 8:
            return PACKET_TRUNCATED
        header = (c.at[1] + 2) * 4 if next_header == 51 else (c.at[1] + 1) * 8
        next_header = c.at[0]
        if header > total:
            return PACKET_MALFORMED
        if <size_t>header > left(c):
            return PACKET_TRUNCATED
        c.at += header
        total -= header
    if next_header == 44:
        return PACKET_FRAGMENT
    return read_transport(c, next_header, total, out)


cdef int read_transport(Cursor* c, int protocol, int64_t size, Segment* out) noexcept nogil:
    """0 source port, 2 destination port, 4 sequence, 8 acknowledgement, 12 header length, 13 flags."""
    cdef int64_t header
    if protocol != PROTOCOL_TCP:
        return PACKET_UDP if protocol == PROTOCOL_UDP else PACKET_OTHER_TRANSPORT
    if left(c) < 20:
        return PACKET_TRUNCATED
    header = (c.at[12] >> 4) * 4
    if header < 20 or header > size:
        return PACKET_MALFORMED
    out.src_port = load_u16(c.at)
    out.dst_port = load_u16(c.at + 2)
    out.seq = load_u32(c.at + 4)
    out.ack = load_u32(c.at + 8)
    out.flags = c.at[13]
    size -= header
    if left(c) < <size_t>header:                        # its options are cut, and all its payload
        out.payload = c.at
        out.size = <uint32_t>size
        return PACKET_TCP
    c.at += header
    out.payload = c.at
    out.size = <uint32_t>size
    out.captured = <uint32_t>min(<int64_t>left(c), size)
    return PACKET_TCP


cdef int segment_unpack(PacketParser parser, const uint8_t* p, size_t n, size_t* used, PacketRecord* r, Segment* s,
                        int32_t* file_index) noexcept nogil:
    """A row of the packets table, which is not written yet."""
    return -1
