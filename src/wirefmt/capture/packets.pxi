# One captured packet -> one TCP segment, or a counted reason why it has none.
#
# Link types: https://www.tcpdump.org/linktypes.html. IPv4 RFC 791, IPv6 RFC 8200, TCP RFC 9293, VLAN IEEE 802.1Q,
# MPLS RFC 3032, PPPoE RFC 2516, GRE RFC 2784 and 2890, VXLAN RFC 7348, GENEVE RFC 8926,
# ERSPAN draft-foschiano-erspan.
#
# A header is read only if its octets were captured. Every length field of a layer bounds its content (`bound`), because
# link layers pad: 802.3, PPPoE, the control word of a pseudowire, IPv4, IPv6, jumbograms, PPTP's GRE, UDP
# and NFLOG. An inner length never exceeds an outer one. Without an outer one the length of the IP header counts,
# even if it exceeds the frame: the frame was then truncated by the snapshot length.
# Checksums are ignored: outgoing packets are captured before the network card computes them.
# Not read: IEEE 802.11, Token Ring, USB, encrypted (ESP) and compressed headers.

cdef extern from "<arpa/inet.h>" nogil:
    const char* inet_ntop(int family, const void* address, char* out, unsigned int capacity)
    enum: AF_INET
    enum: AF_INET6

cdef enum:
    ADDRESS_SIZE = 46           # octets of an address as text, with its NUL

cdef enum:
    TCP_FIN = 1
    TCP_SYN = 2
    TCP_RST = 4
    TCP_PSH = 8
    TCP_ACK = 16
    TCP_URG = 32

cdef enum:
    NO_LENGTH = 1 << 30         # octets: more than a packet has
    MAX_LAYERS = 24             # VLAN tags, MPLS stacks, extension headers and tunnels of one packet together
    DATAGRAMS = 64              # incomplete datagrams at a time; a further one replaces the oldest
    DATAGRAM_OCTETS = 65536     # of one, without its header (RFC 791: 65,535 with its header)
    DATAGRAM_NS = 30000000000   # an incomplete datagram is dropped then: RFC 8200 4.5 says at most 60 s, hosts use 30 s

cdef enum PacketReason:
    PACKET_TCP = 0
    PACKET_FRAGMENT_HELD        # kept until its datagram is whole
    PACKET_FRAGMENT             # returned as it is (PacketParser(fragments=False))
    PACKET_UDP
    PACKET_ICMP
    PACKET_OTHER_TRANSPORT
    PACKET_ARP
    PACKET_OTHER_NETWORK        # no IP
    PACKET_LINK_TYPE            # an unsupported link type
    PACKET_TUNNEL               # of a supported kind, but tunnels are off
    PACKET_LAYERS               # more than MAX_LAYERS
    PACKET_TRUNCATED            # the snapshot length ends inside a header, or inside a fragment
    PACKET_MALFORMED            # a header contradicts itself
    PACKET_FILE_FAULT           # no packet: a fault of the capture file, in a row of the packets table
    PACKET_REASONS

cdef tuple PACKET_REASON_NAMES = (
    "tcp", "fragments_held", "fragments", "udp", "icmp", "other_transport", "arp", "other_network", "link_type_unknown",
    "tunnels_not_opened", "too_many_layers", "truncated", "malformed", "file_faults",
)


cdef struct Segment:
    uint8_t ip_version          # 4, 6
    uint8_t flags               # TCP_FIN ...
    uint8_t zero_window
    uint8_t src[16]
    uint8_t dst[16]             # IPv4: the first four octets, the rest zero
    uint16_t src_port, dst_port
    uint16_t mss                # the option of a SYN; 0: none
    uint32_t seq, ack
    uint32_t vni                # network identifier of the innermost VXLAN or GENEVE tunnel, 0: none
    uint32_t size               # payload octets by the IP header
    uint32_t captured           # of them, octets at `payload`
    const uint8_t* payload      # in the record, or in the parser (reassembled fragments): valid until the next parse


cdef inline bint payload_lies_in(const Segment* s, const uint8_t* p, size_t n) noexcept nogil:
    """Is the payload within p[:n]? The difference of an address before p is large, because it is unsigned."""
    return <size_t>s.payload - <size_t>p <= n


cdef inline int write_address(int ip_version, const uint8_t* address, char* out) noexcept nogil:
    """An address as text, in ADDRESS_ROOM octets; octets written, without the NUL."""
    cdef int n = 0, i, octet
    if ip_version == 4:                                     # inet_ntop calls printf, which costs more than all the rest
        for i in range(4):
            octet = address[i]
            if octet >= 100:
                out[n] = <char>(48 + octet // 100)
                n += 1
            if octet >= 10:
                out[n] = <char>(48 + octet // 10 % 10)
                n += 1
            out[n] = <char>(48 + octet % 10)
            out[n + 1] = 46
            n += 2
        out[n - 1] = 0
        return n - 1
    inet_ntop(AF_INET6, address, out, ADDRESS_SIZE)
    return <int>strlen(out)


cdef inline uint64_t hash_end(const uint8_t* address, uint64_t salt) noexcept nogil:
    cdef uint64_t a, b
    memcpy(&a, address, 8)
    memcpy(&b, address + 8, 8)
    return avalanche(a ^ avalanche(b ^ salt))


cdef inline uint64_t segment_flow_hash(const Segment* s) noexcept nogil:
    """Hash of the two ends and the VNI; the same for both directions, in every process. A sender that chooses addresses
    can choose this hash: it assigns flows to slices and partitions; no table uses it."""
    return avalanche(hash_end(s.src, s.src_port) + hash_end(s.dst, s.dst_port) + (<uint64_t>s.vni << 20) + s.ip_version)


cdef inline uint64_t segment_share(const Segment* s, uint64_t count) noexcept nogil:
    """Which of `count` threads decodes the flow of a segment. Each thread asks this for every packet: `segment_flow_hash` would
    take too long. Addresses and ports that follow one another are spread evenly."""
    cdef uint64_t[2] a
    cdef uint64_t[2] b
    memcpy(a, s.src, 16)
    memcpy(b, s.dst, 16)
    a[0] += b[0] + (a[1] + b[1] + s.src_port + s.dst_port) * <uint64_t>0xD6E8FEB86659FD93
    return ((a[0] * <uint64_t>0x9E3779B97F4A7C15) >> 32) * count >> 32


cdef inline uint64_t keyed_end(uint64_t a, uint64_t b, uint16_t port) noexcept nogil:
    """32 bits. Two different pairs of ends have the same value with a probability of 2^-32, whatever they are: pair-multiply-
    shift (M. Thorup, High speed hashing for integers and strings, 3.3). `a`, `b`: the halves of the address."""
    return ((<uint32_t>a + HASH_KEY[2]) * ((a >> 32) + HASH_KEY[3]) + (<uint32_t>b + HASH_KEY[4]) * ((b >> 32) + HASH_KEY[5])
            + port * HASH_KEY[6]) >> 32


cdef inline uint64_t segment_table_hash(const Segment* s) noexcept nogil:
    """Hash of the two ends and the VNI, for tables of this process; the same for both directions."""
    cdef uint64_t[4] a
    cdef uint32_t[2] b
    cdef uint64_t one, other, low, high
    if s.ip_version == 4:                                   # as keyed_end, but of both ends at once, the smaller one first
        memcpy(b, s.src, 4)
        memcpy(b + 1, s.dst, 4)
        one = <uint64_t>b[0] << 16 | s.src_port
        other = <uint64_t>b[1] << 16 | s.dst_port
        low = min(one, other)
        high = max(one, other)
        return avalanche(((low >> 16) + HASH_KEY[2]) * ((high >> 16) + HASH_KEY[3])
                         + (<uint32_t>(low << 16 | (high & 0xFFFF)) + HASH_KEY[4]) * (s.vni + HASH_KEY[5]))
    memcpy(a, s.src, 16)
    memcpy(a + 2, s.dst, 16)
    return avalanche(avalanche(keyed_end(a[0], a[1], s.src_port)) + avalanche(keyed_end(a[2], a[3], s.dst_port))
                     + s.vni * HASH_KEY[7])


cdef inline uint64_t segment_pair_hash(const Segment* s) noexcept nogil:
    """Hash of the two addresses and the VNI; the same for both directions."""
    return avalanche(hash_end(s.src, 0) + hash_end(s.dst, 0) + (<uint64_t>s.vni << 20) + s.ip_version)


# ------------------------------------------------------------------------------------------------ fragments

cdef struct Datagram:           # fragments of one IP datagram, by offset
    bint used
    uint8_t ip_version, protocol        # protocol: IPv6, from the fragment at offset 0
    uint8_t addresses[32]
    uint32_t id
    int64_t ts_ns               # of its first fragment
    uint32_t size               # octets in all; 0: the last fragment has not arrived
    uint32_t units              # of eight octets that have arrived
    int64_t fragments, wire     # held, and their octets on the wire
    uint8_t* octets             # DATAGRAM_OCTETS, then a bit for each unit


cdef struct Layer:              # the position of the parser
    const uint8_t* p
    size_t n                    # octets captured from there
    size_t wire                 # octets on the wire from there
    size_t limit                # octets that the length fields of outer layers allow; NO_LENGTH: there was no length field
    bint ethernet               # an EtherType of at most 1,500 is a length (IEEE 802.3, 3.2.6)
    int layers
    bint joined                 # inside a reassembled datagram
    uint32_t vni
    const uint8_t* ip           # start of the innermost IP header
    size_t ip_captured


cdef enum:
    VLAN_TAG = 4                # octets; only tags of VLANs have so many


cdef inline size_t tag_size(int kind) noexcept nogil:
    """Octets between the EtherType of a tag and the end of the one behind it; 0: not a tag."""
    if kind in (0x8100, 0x88A8, 0x9100, 0x9200):            # 802.1Q, 802.1ad and its predecessors
        return VLAN_TAG
    if kind == 0x893F:                                      # 802.1BR: E-TAG
        return 8
    if kind == 0x8926:                                      # VN-TAG
        return 6
    return 18 if kind == 0x88E7 else 0                      # 802.1ah: I-TAG and the addresses of the customer


cdef inline int64_t elapsed_ns(int64_t since, int64_t now) noexcept nogil:
    """now - since, within 146 years: a capture may contain any times, so both are halved to avoid an overflow."""
    cdef int64_t half = (now >> 1) - (since >> 1)
    if half > <int64_t>1 << 61:
        return <int64_t>1 << 62
    if half < -(<int64_t>1 << 61):
        return -(<int64_t>1 << 62)
    return now - since


cdef inline void ipv4_ends(const uint8_t* p, Segment* out) noexcept nogil:
    """The addresses of an IPv4 header."""
    out.ip_version = 4
    memset(out.src, 0, 32)
    memcpy(out.src, p + 12, 4)
    memcpy(out.dst, p + 16, 4)


cdef inline void tcp_fields(const uint8_t* p, Segment* out) noexcept nogil:
    """The members of a TCP header that a segment has."""
    out.src_port = load_u16(p)
    out.dst_port = load_u16(p + 2)
    out.seq = load_u32(p + 4)
    out.ack = load_u32(p + 8)
    out.zero_window = load_u16(p + 14) == 0
    out.flags = p[13]
    out.mss = 0


cdef uint16_t maximum_segment(const uint8_t* p, size_t n) noexcept nogil:
    """The option Maximum Segment Size of a TCP header of n octets (RFC 9293 3.2); 0: it has none."""
    cdef size_t at = 20
    while at < n and p[at]:                             # 0: the end of the options
        if p[at] == 1:                                  # no operation
            at += 1
            continue
        if at + 2 > n or p[at + 1] < 2:
            return 0
        if p[at] == 2 and p[at + 1] == 4 and at + 4 <= n:
            return load_u16(p + at + 2)
        at += p[at + 1]
    return 0


cdef inline dict undecoded_of(int64_t packets, int64_t octets, int64_t connections=0):
    return {"connections": connections, "packets": packets, "bytes": octets}


cdef class PacketParser:
    """Link, network and transport headers. `tunnels`: look inside IP in IP, GRE, ERSPAN, VXLAN and GENEVE.
    `fragments`: reassemble IP fragments; otherwise return them as they are."""

    cdef int64_t counts[PACKET_REASONS]
    cdef int64_t octets[PACKET_REASONS]         # on the wire
    cdef int64_t joined, joined_octets          # fragments kept, of datagrams that were completed
    cdef uint32_t wire                          # octets of the current packet
    cdef uint64_t vlans                         # of the current packet: add_vlan
    cdef bint tunnels, fragments
    cdef Datagram* datagrams
    cdef int64_t datagram_octets        # of memory: at most about 4 MiB
    cdef int64_t now_ns

    def __init__(self, *, bint tunnels=False, bint fragments=True):
        self.tunnels = tunnels
        self.fragments = fragments

    def __dealloc__(self):
        self.forget()

    def stats(self):
        """Number of packets by outcome."""
        return {name: self.counts[i] for i, name in enumerate(PACKET_REASON_NAMES)}

    cdef dict undecoded(self):
        """Packets, and their octets on the wire, that are not TCP segments, by reason; fragments: of incomplete datagrams."""
        cdef int i
        cdef dict found = {"fragments": undecoded_of(self.counts[<int>PACKET_FRAGMENT_HELD] - self.joined,
                                                     self.octets[<int>PACKET_FRAGMENT_HELD] - self.joined_octets)}
        for i in range(<int>PACKET_UDP, <int>PACKET_FILE_FAULT):
            found[PACKET_REASON_NAMES[i]] = undecoded_of(self.counts[i], self.octets[i])
        return found

    cdef void forget(self) noexcept nogil:
        """Begin another capture: its fragments do not belong to earlier ones."""
        cdef int i
        if self.datagrams != NULL:
            for i in range(DATAGRAMS):
                free(self.datagrams[i].octets)
            free(self.datagrams)
            self.datagrams = NULL
            self.datagram_octets = 0

    cdef inline int parse(self, const PacketRecord* r, Segment* out) noexcept nogil:
        """Parse a packet. Returns a PacketReason; PACKET_TCP: `out` is set."""
        cdef Layer x
        cdef int reason
        x.p = r.data
        x.n = r.captured_size
        x.wire = self.wire = max(r.original_size, r.captured_size)
        x.limit = NO_LENGTH
        x.ethernet = False
        x.layers = 0
        x.joined = False
        x.vni = 0
        self.vlans = 0
        self.now_ns = r.ts_ns
        reason = self.link(&x, r.link_type, out)
        self.counts[reason] += 1
        self.octets[reason] += self.wire
        return reason

    cdef inline bint parse_plain(self, const PacketRecord* r, Segment* out) noexcept nogil:
        """Parse a packet of Ethernet, IPv4 without options and fragments, and TCP, of which everything was captured. Its payload
        is in the record. False: `parse` decides."""
        cdef const uint8_t* p = r.data
        cdef size_t header, total
        if r.link_type != 1 or r.captured_size < 54 or r.captured_size > r.original_size:
            return False
        if load_u32(p + 11) & 0xFFFFFF != 0x080045 or load_u32(p + 20) & 0x3FFF00FF != 6:
            return False
        total = load_u16(p + 16)
        header = <size_t>(p[46] >> 4) * 4
        if header < 20 or total < 20 + header or total > r.captured_size - 14:
            return False
        ipv4_ends(p + 14, out)
        tcp_fields(p + 34, out)
        if out.flags & TCP_SYN:
            out.mss = maximum_segment(p + 34, header)
        out.vni = 0
        out.size = out.captured = <uint32_t>(total - 20 - header)
        out.payload = p + 34 + header
        self.vlans = 0
        self.counts[<int>PACKET_TCP] += 1
        self.octets[<int>PACKET_TCP] += r.original_size
        return True

    # ---- link layers

    cdef inline int link(self, Layer* x, int link_type, Segment* out) noexcept nogil:
        if link_type == 1:                                  # Ethernet
            return self.ethernet(x, out)
        if link_type == 113:                                # Linux SLL
            return self.after(x, 16, 14, out)
        if link_type == 276:                                # Linux SLL2
            return self.after(x, 20, 0, out)
        if link_type == 0 or link_type == 108:              # BSD null, loop
            return self.null(x, out)
        if link_type in (101, 12, 14, 228, 229):            # raw IP; 12 and 14: numbers that some BSDs use
            return self.ip(x, out)
        if link_type in (9, 50):                            # PPP
            return self.ppp(x, out)
        if link_type == 51:                                 # PPPoE
            return self.pppoe(x, out)
        if link_type == 104:                                # Cisco HDLC: address, control, EtherType
            return self.after(x, 4, 2, out)
        if link_type == 239:
            return self.nflog(x, out)
        return self.rare_link(x, link_type, out)

    cdef int rare_link(self, Layer* x, int link_type, Segment* out) noexcept nogil:
        cdef size_t header
        if link_type == 204 or link_type == 205:            # PPP, Cisco HDLC: a direction comes first
            if not self.skip(x, 1):
                return PACKET_TRUNCATED
            return self.ppp(x, out) if link_type == 204 else self.after(x, 4, 2, out)
        if link_type == 166:                                # pppd's PPP: a direction replaces the address
            return self.ppp(x, out) if self.skip(x, 2) else PACKET_TRUNCATED
        if link_type == 219:
            return self.mpls(x, out)
        if link_type == 109:                                # BSD enc: family, SPI, flags
            return self.ip(x, out) if self.skip(x, 12) else PACKET_TRUNCATED
        if link_type == 117:                                # BSD pflog: the header's length, rounded up to words
            header = (<size_t>x.p[0] + 3) & ~<size_t>3 if x.n else 0
            return self.ip(x, out) if header and self.skip(x, header) else PACKET_TRUNCATED
        if link_type == 240:                                # netANALYZER
            return self.ethernet(x, out) if self.skip(x, 4) else PACKET_TRUNCATED
        if link_type == 258 or link_type == 149:            # Apple PKTAP; 149: as older systems wrote it
            return self.pktap(x, out)
        return PACKET_LINK_TYPE

    cdef int pktap(self, Layer* x, Segment* out) noexcept nogil:
        """Length of this header (4), type of the record (4; 1: a packet follows), its link type (4), then the interface and the
        process; little-endian."""
        cdef uint32_t size, link_type
        if x.n < 12:
            return PACKET_TRUNCATED
        size = load_u32_as(x.p, False)
        link_type = load_u32_as(x.p + 8, False)
        if load_u32_as(x.p + 4, False) != 1 or size < 12 or size > 4096 or link_type in (149, 258) or link_type > 0xFFFF:
            return PACKET_LINK_TYPE
        return self.link(x, <int>link_type, out) if self.skip(x, size) else PACKET_TRUNCATED

    cdef inline bint skip(self, Layer* x, size_t n) noexcept nogil:
        """Skip a header of `n` octets. False: it was not captured."""
        if x.n < n:
            return False
        x.p += n
        x.n -= n
        x.wire -= n                                         # n <= x.n <= x.wire, x.limit
        x.limit -= n
        return True

    cdef inline void bound(self, Layer* x, size_t size) noexcept nogil:
        """A length field says that `size` octets follow; the rest is padding."""
        x.limit = min(x.limit, size)
        x.wire = min(x.wire, x.limit)
        x.n = min(x.n, x.limit)

    cdef inline int after(self, Layer* x, size_t header, size_t at, Segment* out) noexcept nogil:
        """The EtherType at `at` of a header of `header` octets says what follows it."""
        cdef int kind
        if x.n < header:
            return PACKET_TRUNCATED
        kind = load_u16(x.p + at)
        self.skip(x, header)
        return self.network(x, kind, out)

    cdef inline int ethernet(self, Layer* x, Segment* out) noexcept nogil:
        x.ethernet = True
        return self.after(x, 14, 12, out)

    cdef int null(self, Layer* x, Segment* out) noexcept nogil:
        """Four octets of address family, in the byte order of the capturing machine: one octet is not zero."""
        cdef int family
        if x.n < 4:
            return PACKET_TRUNCATED
        family = x.p[0] | x.p[3]
        self.skip(x, 4)
        if family in (2, 10, 23, 24, 28, 30):               # AF_INET; AF_INET6 of Linux, Windows, the BSDs, macOS
            return self.ip(x, out)
        return PACKET_OTHER_NETWORK

    cdef int ppp(self, Layer* x, Segment* out) noexcept nogil:
        """RFC 1662: address and control may be omitted; RFC 1661: so may the first octet of the protocol."""
        cdef int protocol
        if x.n >= 2 and x.p[0] == 0xFF and x.p[1] == 0x03:
            self.skip(x, 2)
        if x.n < 2:
            return PACKET_TRUNCATED
        if x.p[0] & 1:
            protocol = x.p[0]
            self.skip(x, 1)
        else:
            protocol = load_u16(x.p)
            self.skip(x, 2)
        if protocol == 0x0021 or protocol == 0x0057:
            return self.ip(x, out)
        if protocol == 0x0281 or protocol == 0x0283:
            return self.network(x, 0x8847, out)
        return PACKET_OTHER_NETWORK

    cdef int pppoe(self, Layer* x, Segment* out) noexcept nogil:
        """Version and type, code, session (2), length of what follows (2)."""
        cdef size_t size
        if x.n < 6:
            return PACKET_TRUNCATED
        size = load_u16(x.p + 4)
        self.skip(x, 6)
        self.bound(x, size)
        return self.ppp(x, out)

    cdef int nflog(self, Layer* x, Segment* out) noexcept nogil:
        """Family, version, resource; then attributes: length and type in the byte order of the machine, value, padding."""
        cdef size_t size
        cdef int kind
        if not self.skip(x, 4):
            return PACKET_TRUNCATED
        while x.n >= 4:
            size = load_u16_as(x.p, False)
            kind = load_u16_as(x.p + 2, False) & 0x7FFF
            if size < 4 or size > x.n + 0xFFFF:             # big-endian machine
                size = load_u16(x.p)
                kind = load_u16(x.p + 2) & 0x7FFF
            if size < 4:
                return PACKET_MALFORMED
            if kind == 9:                                   # NFULA_PAYLOAD
                self.skip(x, 4)
                self.bound(x, size - 4)
                return self.ip(x, out)
            if not self.skip(x, min((size + 3) & ~<size_t>3, x.n)):
                break
        return PACKET_TRUNCATED

    cdef int network(self, Layer* x, int kind, Segment* out) noexcept nogil:
        """The packet after an EtherType."""
        cdef size_t tag
        while True:
            x.layers += 1
            if x.layers > MAX_LAYERS:
                return PACKET_LAYERS
            if kind == 0x0800 or kind == 0x86DD:
                return self.ip(x, out)
            tag = tag_size(kind)
            if tag:
                if x.n < tag:
                    return PACKET_TRUNCATED
                if tag == VLAN_TAG:
                    self.vlans = add_vlan(self.vlans, load_u16(x.p))
                kind = load_u16(x.p + tag - 2)
                self.skip(x, tag)
                x.ethernet = True
                continue
            if kind == 0x8847 or kind == 0x8848:
                return self.mpls(x, out)
            if kind == 0x8864:
                return self.pppoe(x, out)
            if kind <= 1500 and x.ethernet:
                self.bound(x, <size_t>kind)
            if kind <= 1500 and x.n >= 8 and x.p[0] == 0xAA and x.p[1] == 0xAA and x.p[2] == 3 \
                    and x.p[3] == 0 and x.p[4] == 0 and x.p[5] == 0:
                kind = load_u16(x.p + 6)                    # 802.2 LLC and SNAP, RFC 1042
                self.skip(x, 8)
                continue
            return PACKET_ARP if kind == 0x0806 else PACKET_OTHER_NETWORK

    cdef int mpls(self, Layer* x, Segment* out) noexcept nogil:
        """Labels to the bottom of the stack; the four bits after them distinguish IP from a pseudowire (RFC 4928)."""
        cdef bint bottom = False
        cdef size_t size
        while not bottom:
            x.layers += 1
            if x.layers > MAX_LAYERS:
                return PACKET_LAYERS
            if x.n < 4:
                return PACKET_TRUNCATED
            bottom = x.p[2] & 1
            self.skip(x, 4)
        if x.n and (x.p[0] >> 4 == 4 or x.p[0] >> 4 == 6):
            return self.ip(x, out)
        if x.n >= 18 and x.p[0] >> 4 == 0:                  # control word, then Ethernet (RFC 4385, RFC 4448)
            size = x.p[1] & 0x3F                            # with the control word; 0: long enough not to be padded
            if size:
                self.bound(x, size)
            if not self.skip(x, 4):
                return PACKET_MALFORMED
            return self.ethernet(x, out)
        return PACKET_OTHER_NETWORK

    # ---- IP

    cdef inline int ip(self, Layer* x, Segment* out) noexcept nogil:
        x.ip = x.p
        x.ip_captured = x.n
        if x.n == 0:
            return PACKET_TRUNCATED
        if x.p[0] >> 4 == 4:
            return self.ipv4(x, out)
        if x.p[0] >> 4 == 6:
            return self.ipv6(x, out)
        return PACKET_OTHER_NETWORK

    cdef inline void ip_length(self, Layer* x, size_t size) noexcept nogil:
        """As bound; without an outer length it also sets the number of octets on the wire, of which fewer may be captured."""
        x.wire = x.limit = min(x.limit, size)
        x.n = min(x.n, x.limit)

    cdef inline int ipv4(self, Layer* x, Segment* out) noexcept nogil:
        """
        0   version, header length in words      8   time to live
        2   total length                         9   protocol
        4   identification                       12  source
        6   flags, fragment offset               16  destination
        """
        cdef size_t header, total
        cdef uint32_t fragment
        cdef const uint8_t* p = x.p
        if x.n < 20:
            return PACKET_TRUNCATED
        header = <size_t>(p[0] & 15) * 4
        total = load_u16(p + 2)
        if total == 0:
            total = x.wire                                  # segmentation offload: the network card sets it later
        if header < 20 or total < header:
            return PACKET_MALFORMED
        self.ip_length(x, total)
        if x.wire < header:
            return PACKET_MALFORMED
        ipv4_ends(p, out)
        if not self.skip(x, header):
            return PACKET_TRUNCATED
        fragment = load_u16(p + 6)
        if fragment & 0x3FFF:
            return self.fragment(x, load_u16(p + 4), (fragment & 0x1FFF) * 8, (fragment & 0x2000) != 0, p[9], out)
        return self.transport(x, p[9], out)

    cdef int ipv6(self, Layer* x, Segment* out) noexcept nogil:
        """
        0   version, traffic class, flow label   6   next header, hop limit
        4   payload length                       8   source, 24 destination
        """
        cdef size_t size
        cdef const uint8_t* p = x.p
        if x.n < 40:
            return PACKET_TRUNCATED
        size = load_u16(p + 4)
        out.ip_version = 6
        memcpy(out.src, p + 8, 16)
        memcpy(out.dst, p + 24, 16)
        self.skip(x, 40)
        if size:                                            # otherwise a jumbogram, or segmentation offload
            self.ip_length(x, size)
        elif p[6] == 0:
            self.jumbogram(x)
        return self.extension(x, p[6], out)

    cdef void jumbogram(self, Layer* x) noexcept nogil:
        """The payload's length in an option of the hop-by-hop header, RFC 2675 section 2."""
        cdef size_t at = 2
        cdef size_t end = min(x.n, (<size_t>x.p[1] + 1) * 8 if x.n >= 2 else 0)
        while at < end:
            if x.p[at] == 0:                                # Pad1
                at += 1
                continue
            if end - at < 2:
                return
            if x.p[at] == 0xC2:
                if end - at >= 6 and x.p[at + 1] == 4:
                    self.ip_length(x, load_u32(x.p + at + 2))
                return
            at += 2 + <size_t>x.p[at + 1]

    cdef int extension(self, Layer* x, int kind, Segment* out) noexcept nogil:
        """IPv6 extension headers, RFC 8200 section 4."""
        cdef size_t size
        cdef uint32_t fragment
        cdef const uint8_t* p
        while kind in (0, 43, 44, 51, 60, 135, 139, 140):
            x.layers += 1
            if x.layers > MAX_LAYERS:
                return PACKET_LAYERS
            if x.n < 8:
                return PACKET_TRUNCATED
            p = x.p
            size = 8 if kind == 44 else (<size_t>p[1] + 2) * 4 if kind == 51 else (<size_t>p[1] + 1) * 8
            if size > x.wire:
                return PACKET_MALFORMED
            if not self.skip(x, size):
                return PACKET_TRUNCATED
            if kind == 44:
                fragment = load_u16(p + 2)
                if fragment & 0xFFF9:                       # otherwise atomic (RFC 6946): not a fragment
                    return self.fragment(x, load_u32(p + 4), fragment & 0xFFF8, fragment & 1, p[0], out)
            kind = p[0]
        return self.transport(x, kind, out)

    cdef int fragment(self, Layer* x, uint32_t id, uint32_t offset, bint more, int protocol, Segment* out) noexcept nogil:
        """A fragment whose octets are at `x`. Of copies of an octet the first counts."""
        cdef Datagram* d
        cdef size_t size = x.wire
        cdef uint32_t unit, i
        if not self.fragments:
            out.payload = x.ip
            out.captured = <uint32_t>x.ip_captured
            out.size = out.captured
            out.vni = x.vni
            return PACKET_FRAGMENT
        if x.joined:
            return PACKET_LAYERS                            # a fragment inside a reassembled datagram is not reassembled
        if (more and size & 7) or size == 0 or size > DATAGRAM_OCTETS - offset:
            return PACKET_MALFORMED
        if x.n < size:
            return PACKET_TRUNCATED
        d = self.find_datagram(out, id, protocol)
        if d == NULL:
            return PACKET_FRAGMENT_HELD
        for i in range(<uint32_t>((size + 7) >> 3)):
            unit = (offset >> 3) + i
            if not d.octets[DATAGRAM_OCTETS + (unit >> 3)] >> (unit & 7) & 1:
                d.octets[DATAGRAM_OCTETS + (unit >> 3)] |= <uint8_t>(1 << (unit & 7))
                memcpy(d.octets + 8 * unit, x.p + 8 * i, min(<size_t>8, size - 8 * i))
                d.units += 1
        if not more and d.size == 0:
            d.size = offset + <uint32_t>size
        if offset == 0:
            d.protocol = <uint8_t>protocol
        # units after the end come from fragments that contradict the last one: the datagram is then never complete
        if d.size == 0 or d.units != (d.size + 7) >> 3:
            d.fragments += 1
            d.wire += self.wire
            return PACKET_FRAGMENT_HELD
        self.joined += d.fragments
        self.joined_octets += d.wire
        d.used = False                                      # its octets remain until the next fragment
        x.joined = True
        x.p = d.octets
        x.n = x.wire = x.limit = d.size
        if out.ip_version == 6:
            return self.extension(x, d.protocol, out)
        return self.transport(x, protocol, out)

    cdef Datagram* find_datagram(self, const Segment* s, uint32_t id, int protocol) noexcept nogil:
        """The datagram of the fragment; a new one may replace the oldest."""
        cdef Datagram* d
        cdef Datagram* free_one = NULL
        cdef int i
        if self.datagrams == NULL:
            self.datagrams = <Datagram*>calloc(DATAGRAMS, sizeof(Datagram))
            if self.datagrams == NULL:
                return NULL
            self.datagram_octets += DATAGRAMS * sizeof(Datagram)
        for i in range(DATAGRAMS):
            d = self.datagrams + i
            if d.used and elapsed_ns(d.ts_ns, self.now_ns) > <int64_t>DATAGRAM_NS:
                d.used = False
            if not d.used:
                if free_one == NULL or free_one.used:
                    free_one = d
            elif (d.id == id and d.ip_version == s.ip_version and (s.ip_version == 6 or d.protocol == protocol)
                    and memcmp(d.addresses, s.src, 16) == 0 and memcmp(d.addresses + 16, s.dst, 16) == 0):
                return d
            elif free_one == NULL or (free_one.used and d.ts_ns < free_one.ts_ns):
                free_one = d
        d = free_one
        if d.octets == NULL:
            d.octets = <uint8_t*>malloc(DATAGRAM_OCTETS + DATAGRAM_OCTETS // 64)
            if d.octets == NULL:
                return NULL
            self.datagram_octets += DATAGRAM_OCTETS + DATAGRAM_OCTETS // 64
        memset(d.octets + DATAGRAM_OCTETS, 0, DATAGRAM_OCTETS // 64)
        d.used = True
        d.ip_version = s.ip_version
        d.protocol = <uint8_t>protocol
        memcpy(d.addresses, s.src, 16)
        memcpy(d.addresses + 16, s.dst, 16)
        d.id = id
        d.ts_ns = self.now_ns
        d.size = d.units = 0
        d.fragments = d.wire = 0
        return d

    # ---- transport and tunnels

    cdef inline int transport(self, Layer* x, int protocol, Segment* out) noexcept nogil:
        if protocol == 6:
            return self.tcp(x, out)
        if protocol == 17:
            return self.udp(x, out)
        if protocol == 1 or protocol == 58:
            return PACKET_ICMP
        if protocol == 4 or protocol == 41 or protocol == 47:
            if not self.tunnels:
                return PACKET_TUNNEL
            x.layers += 1
            if x.layers > MAX_LAYERS:
                return PACKET_LAYERS
            return self.gre(x, out) if protocol == 47 else self.ip(x, out)
        return PACKET_OTHER_TRANSPORT

    cdef inline int tcp(self, Layer* x, Segment* out) noexcept nogil:
        """
        0   source port      4   sequence number         12  data offset in words
        2   destination      8   acknowledgement number  13  flags
        """
        cdef const uint8_t* p = x.p
        cdef size_t header
        if x.n < 20:
            return PACKET_MALFORMED if x.wire < 20 else PACKET_TRUNCATED
        header = <size_t>(p[12] >> 4) * 4
        if header < 20 or header > x.wire:
            return PACKET_MALFORMED
        tcp_fields(p, out)
        if out.flags & TCP_SYN:
            out.mss = maximum_segment(p, min(header, x.n))
        out.vni = x.vni
        out.size = <uint32_t>(x.wire - header)
        out.captured = <uint32_t>(x.n - header) if x.n > header else 0     # options may be truncated
        out.payload = p + min(header, x.n)
        return PACKET_TCP

    cdef int udp(self, Layer* x, Segment* out) noexcept nogil:
        """Source port, destination, length with this header (0: segmentation offload), checksum."""
        cdef int port
        cdef size_t size
        if not self.tunnels or x.n < 16:
            return PACKET_UDP
        port = load_u16(x.p + 2)
        if port not in (4789, 4790, 8472, 6081):
            return PACKET_UDP
        x.layers += 1
        if x.layers > MAX_LAYERS:
            return PACKET_LAYERS
        size = load_u16(x.p + 4)
        if size:
            self.bound(x, size)
        self.skip(x, min(x.n, <size_t>8))
        if x.n < 8:
            return PACKET_MALFORMED if x.wire < 8 else PACKET_TRUNCATED
        return self.geneve(x, out) if port == 6081 else self.vxlan(x, port, out)

    cdef int vxlan(self, Layer* x, int port, Segment* out) noexcept nogil:
        """Flags that RFC 7348 reserves are ignored; at port 4790 they are those of the generic protocol extension, which names
        the content."""
        cdef int following = x.p[3] if port == 4790 and x.p[0] & 0x04 else 3
        if not x.p[0] & 0x08:                               # no valid network identifier: no VXLAN
            return PACKET_UDP
        x.vni = load_u32(x.p + 4) >> 8
        self.skip(x, 8)
        if following == 3:
            return self.ethernet(x, out)
        return self.ip(x, out) if following in (1, 2) else PACKET_OTHER_NETWORK

    cdef int geneve(self, Layer* x, Segment* out) noexcept nogil:
        cdef size_t header = 8 + <size_t>(x.p[0] & 0x3F) * 4
        cdef int kind = load_u16(x.p + 2)
        if x.p[0] >> 6:
            return PACKET_UDP
        x.vni = load_u32(x.p + 4) >> 8
        if not self.skip(x, header):
            return PACKET_TRUNCATED
        return self.ethernet(x, out) if kind == 0x6558 else self.network(x, kind, out)

    cdef int gre(self, Layer* x, Segment* out) noexcept nogil:
        """Flags C (checksum), R (routing), K (key), S (sequence), version; then the EtherType of the content."""
        cdef int flags, kind
        cdef size_t header = 4
        cdef size_t size
        if x.n < 4:
            return PACKET_TRUNCATED
        flags = load_u16(x.p)
        kind = load_u16(x.p + 2)
        if flags & 7 == 1:                                  # PPTP's, RFC 2637: K is set, A adds four octets
            header = 8 + (4 if flags & 0x1000 else 0) + (4 if flags & 0x0080 else 0)
            if x.n < header:
                return PACKET_TRUNCATED
            size = load_u16(x.p + 4)                        # the first half of the key: octets after this header
            self.skip(x, header)
            self.bound(x, size)
            return self.ppp(x, out)
        if flags & 0xC000:                                  # either adds checksum and offset
            header += 4
        header += (4 if flags & 0x2000 else 0) + (4 if flags & 0x1000 else 0)
        if flags & 7 or flags & 0x4000:
            return PACKET_OTHER_TRANSPORT
        if not self.skip(x, header):
            return PACKET_TRUNCATED
        if kind == 0x88BE and flags & 0x1000:               # ERSPAN type II; type I has no header of its own
            if not self.skip(x, 8):
                return PACKET_TRUNCATED
        elif kind == 0x22EB:                                # ERSPAN type III: the last bit means eight octets more
            if x.n < 12:
                return PACKET_TRUNCATED
            if not self.skip(x, 20 if x.p[11] & 1 else 12):
                return PACKET_TRUNCATED
        if kind in (0x6558, 0x88BE, 0x22EB):
            return self.ethernet(x, out)
        return self.network(x, kind, out)


cdef class PacketTrace:
    """Parses one packet after another. For single packets, and for tests."""
    cdef PacketParser packets
    cdef bint busy

    def __init__(self, *, bint tunnels=False, bint fragments=True):
        self.packets = PacketParser(tunnels=tunnels, fragments=fragments)

    def parse(self, int link_type, packet, *, original_size=None, int64_t ts_ns=0):
        """("tcp", the segment's fields), or (outcome, None). The outcome is a name of PacketScanner.stats."""
        cdef Input octets = take_input(packet)
        cdef PacketRecord r
        memset(&r, 0, sizeof(r))
        r.data = octets.at
        r.captured_size = <uint32_t>octets.size
        r.original_size = r.captured_size if original_size is None else original_size
        r.link_type = <uint16_t>link_type
        r.ts_ns = ts_ns
        begin_call(&self.busy)
        try:
            return self.described(&r)
        finally:
            self.busy = False

    cdef tuple described(self, const PacketRecord* r):
        cdef Segment s
        cdef char[ADDRESS_SIZE] text
        cdef int reason = self.packets.parse(r, &s)
        if reason != PACKET_TCP:
            return PACKET_REASON_NAMES[reason], None
        source = text[:write_address(s.ip_version, s.src, text)].decode("ascii")
        destination = text[:write_address(s.ip_version, s.dst, text)].decode("ascii")
        return "tcp", {
            "src_ip": source, "src_port": s.src_port, "dst_ip": destination, "dst_port": s.dst_port, "seq": s.seq,
            "ack": s.ack, "flags": s.flags, "vni": s.vni, "size": s.size, "payload": s.payload[:s.captured],
            "flow_hash": segment_flow_hash(&s), "pair_hash": segment_pair_hash(&s),
        }
