# The table of flows: a flow is two (address, port) ends and a VNI. It finds the flow of a segment and keeps flows in the order
# of their last packets. The rules of TCP are in reassembly.pxi.
from wirefmt._core.octets cimport BLOCK_OCTETS

cdef enum:
    FRONTS = 8                  # ranges before the beginning of a stream
    FLOWS_SPARE = 1024          # freed flows that are kept for reuse

cdef int64_t SECOND = 1000000000

cdef enum Why:                  # why a gap was given up, or a stream ended
    WHY_LOST = 0                # acknowledged by the receiver, never captured
    WHY_TRUNCATED               # truncated by the snapshot length
    WHY_TIMEOUT                 # not filled in time
    WHY_LIMIT                   # max_out_of_order, max_buffered or max_flows
    WHY_FIN                     # this side sent FIN
    WHY_RESET
    WHY_REPLACED                # another connection between the same ends
    WHY_IDLE
    WHY_CAPTURE_END

cdef struct Mark:               # the packet that brought an octet
    int64_t ts_ns
    int64_t frame_no
    uint64_t vlans              # add_vlan
    int32_t capture             # number of the capture file
    bint push                   # PSH: the end of a write


cdef struct Piece:              # octets that arrived early
    int64_t at                  # stream offset of the first
    uint32_t size               # octets of the stream: kept and truncated ones
    uint32_t kept
    uint8_t* octets
    Mark mark


cdef struct Fronts:             # ranges before offset 0 that were passed on
    int count
    int64_t[FRONTS] begin
    int64_t[FRONTS] end


cdef struct Stream:             # what one end of a flow sends; offsets count from the first octet after the SYN
    # members that each segment needs, in a cache line
    uint8_t started             # `next_seq` is known
    uint8_t syn                 # known by a SYN: offset 0 is the first octet of the stream
    uint8_t anchored            # known by a SYN or by the other side's acknowledgement of one
    uint8_t undecided           # its beginning is not known: nothing was passed on, offsets count from its first packet
    uint8_t ended
    uint8_t has_ack
    uint32_t next_seq
    uint32_t ack                # the last one this end sent
    int count                   # of `pieces`
    int64_t next                # offset of the next octet to pass on
    int64_t fin                 # offset of the FIN; -1: none seen
    int64_t acked               # by the other end, highest offset
    Piece* pieces               # disjoint, in order: pieces[first] ... pieces[first + count - 1]
    int first, capacity
    uint32_t isn
    # gaps
    int64_t gap_ns             # time of the first piece after the present gap
    int64_t acked_at            # flow.packets when octets after the gap were acknowledged, 0: not; while undecided: at the start
    int64_t acked_ns, acked_to
    Fronts* fronts              # NULL: none
    int64_t stored              # octets in pieces


cdef struct EndTraffic:         # what one end sent
    int64_t packets, octets     # payload octets, with those sent again
    int64_t retransmitted, missing, zero_windows, mss
    int64_t last_ns             # of its last packet
    int64_t data_ns             # of its last packet with payload; the beginning of the flow: none yet
    int64_t silence_ns          # the longest time without payload


cdef struct Traffic:            # what the connections table says of TCP
    EndTraffic ends[2]
    int64_t first_ns, syn_ns, handshake_ns, closed_ns       # UNKNOWN_TIME: not seen
    int8_t closer               # the end that sent the first FIN or RST; -1: none
    uint8_t closed_by_reset
    int why                     # the Why of the flow's end
    int64_t truncated           # packets whose payload was not captured whole
    int64_t backwards_ns        # the longest step back of time from one packet to the next

cdef int64_t UNKNOWN_TIME = -0x7FFFFFFFFFFFFFFF


cdef struct Flow:
    uint8_t ip_version
    int8_t client               # the client's end; -1: not known
    uint8_t closed              # FIN from both ends, or RST
    uint8_t reset
    uint8_t ignored             # no octets of it are passed on
    uint16_t port[2]
    uint32_t vni
    uint8_t address[2][16]
    int64_t packets
    int64_t last_ns
    Flow* older                 # lists by last packet: open flows, closed flows
    Flow* newer
    void* state                 # the consumer's
    Traffic* traffic            # NULL: nobody asked
    Mark last
    uint64_t hash               # segment_table_hash
    int64_t flow_id             # positive; from the ends and the first packet's time
    Stream streams[2]


cdef struct Slot:
    uint64_t hash
    Flow* flow                  # NULL: empty


cdef struct FlowList:
    Flow* oldest
    Flow* newest


cdef struct Memory:             # of flows, in all layers
    int64_t buffered            # octets
    int64_t max_buffered
    int64_t no_memory           # how often there was none


cdef inline int64_t flow_octets() noexcept nogil:
    """Memory of a flow, with its share of a table that has just grown."""
    return <int64_t>(sizeof(Flow) + BLOCK_OCTETS + 4 * sizeof(Slot))


cdef inline int64_t piece_octets(const Piece* piece) noexcept nogil:
    """Memory of a stored piece, without its place in the array."""
    return <int64_t>piece.kept + BLOCK_OCTETS if piece.kept else 0


cdef inline int sender_of(const Flow* f, const Segment* s) noexcept nogil:
    """The end of `f` that sent `s`; -1: another flow."""
    if f.vni != s.vni or f.ip_version != s.ip_version:
        return -1
    if (f.port[0] == s.src_port and f.port[1] == s.dst_port
            and memcmp(f.address[0], s.src, 16) == 0 and memcmp(f.address[1], s.dst, 16) == 0):
        return 0
    if (f.port[1] == s.src_port and f.port[0] == s.dst_port
            and memcmp(f.address[1], s.src, 16) == 0 and memcmp(f.address[0], s.dst, 16) == 0):
        return 1
    return -1


cdef Traffic* open_traffic(const Segment* s, int64_t now) noexcept nogil:
    """What is known of a flow that this segment begins; NULL: out of memory."""
    cdef Traffic* t = <Traffic*>calloc(1, sizeof(Traffic))
    cdef int end
    if t == NULL:
        return NULL
    t.first_ns = now
    t.syn_ns = now if s.flags & (TCP_SYN | TCP_ACK) == TCP_SYN else UNKNOWN_TIME
    t.handshake_ns = t.closed_ns = UNKNOWN_TIME
    t.closer = -1
    for end in range(2):
        t.ends[end].last_ns = t.ends[end].data_ns = now
    return t


cdef inline int64_t traffic_octets() noexcept nogil:
    return <int64_t>sizeof(Traffic) + BLOCK_OCTETS


cdef void add_traffic(Traffic* t, int end, const Segment* s, int64_t now) noexcept nogil:
    """Count a segment of a flow."""
    cdef EndTraffic* e = &t.ends[end]
    e.packets += 1
    e.octets += s.size
    e.mss = max(e.mss, <int64_t>s.mss)
    t.truncated += s.captured < s.size
    t.backwards_ns = max(t.backwards_ns, max(t.ends[0].last_ns, t.ends[1].last_ns) - now)
    if s.zero_window and not s.flags & (TCP_RST | TCP_SYN):
        e.zero_windows += 1
    e.last_ns = max(e.last_ns, now)
    if s.size and t.closer < 0:
        e.silence_ns = max(e.silence_ns, elapsed_ns(e.data_ns, now))
        e.data_ns = max(e.data_ns, now)
    if s.flags & (TCP_SYN | TCP_ACK | TCP_RST) == TCP_ACK and end == 0 and t.handshake_ns == UNKNOWN_TIME and t.ends[1].packets:
        if t.syn_ns != UNKNOWN_TIME:                    # the end that sent the SYN is 0
            t.handshake_ns = elapsed_ns(t.syn_ns, now)
    if t.closer < 0 and s.flags & (TCP_FIN | TCP_RST):
        t.closer = <int8_t>end
        t.closed_ns = now
        t.closed_by_reset = s.flags & TCP_RST != 0
        for end in range(2):
            t.ends[end].silence_ns = max(t.ends[end].silence_ns, elapsed_ns(t.ends[end].data_ns, now))


cdef struct FlowTable:          # a new one is all zero, then open_table
    Slot* slots
    size_t slot_mask, count
    FlowList lists[2]           # open, closed
    Flow* spare                 # freed flows, linked by `newer`
    int spare_count
    uint64_t opened_hash        # segment_flow_hash of the flow that began last, and its ends
    uint8_t opened_ends[36]
    int64_t flows               # that have begun
    int64_t equal_hashes        # flows with the flow hash of the flow before, but other ends
    int64_t probes              # slots of other flows that were skipped


cdef bint open_table(FlowTable* t) noexcept nogil:
    """False: out of memory."""
    t.slot_mask = 1023
    t.slots = <Slot*>calloc(t.slot_mask + 1, sizeof(Slot))
    return t.slots != NULL


cdef void free_table(FlowTable* t) noexcept nogil:
    """Free the memory of a table without flows."""
    cdef Flow* f = t.spare
    cdef Flow* following
    free(t.slots)
    while f != NULL:
        following = f.newer
        free(f)
        f = following


cdef inline Flow* find_flow(FlowTable* t, const Segment* s, uint64_t hash, int* end) noexcept nogil:
    """The flow of a segment, and its end that sent it; NULL: none. `hash`: segment_table_hash of `s`."""
    cdef size_t i = hash & t.slot_mask
    while t.slots[i].flow != NULL:
        if t.slots[i].hash == hash:
            end[0] = sender_of(t.slots[i].flow, s)
            if end[0] >= 0:
                return t.slots[i].flow
        t.probes += 1
        i = (i + 1) & t.slot_mask
    return NULL


cdef Flow* add_flow(FlowTable* t, const Segment* s, uint64_t hash, const Mark* mark) noexcept nogil:
    """A new flow, which this segment begins; NULL: out of memory."""
    cdef Flow* f
    if 2 * t.count > t.slot_mask and not grow_table(t):
        return NULL
    f = t.spare
    if f != NULL:
        t.spare = f.newer
        t.spare_count -= 1
    else:
        f = <Flow*>malloc(sizeof(Flow))
        if f == NULL:
            return NULL
    memset(f, 0, sizeof(Flow))
    f.hash = hash
    f.flow_id = <int64_t>(avalanche(flow_hash(t, s) ^ avalanche(<uint64_t>mark.ts_ns)) >> 1)
    f.ip_version = s.ip_version
    f.vni = s.vni
    memcpy(f.address[0], s.src, 16)
    memcpy(f.address[1], s.dst, 16)
    f.port[0] = s.src_port
    f.port[1] = s.dst_port
    f.last_ns = mark.ts_ns
    f.streams[0].fin = f.streams[1].fin = -1
    f.client = -1
    put_slot(t, hash, f)
    t.count += 1
    t.flows += 1
    link_flow(t, f)
    return f


cdef uint64_t flow_hash(FlowTable* t, const Segment* s) noexcept nogil:
    """The flow hash of a new flow. Flows with different ends do not have the same one by chance: somebody has chosen
    their addresses. All of them are in one slice and one partition of a shuffle, so they are counted."""
    cdef uint64_t hash = segment_flow_hash(s)
    cdef uint8_t ends[36]
    cdef int first = 0 if memcmp(s.src, s.dst, 16) < 0 or (s.src_port < s.dst_port and memcmp(s.src, s.dst, 16) == 0) else 1
    memcpy(ends + 18 * first, s.src, 16)
    store_u16(ends + 18 * first + 16, s.src_port)
    memcpy(ends + 18 * (1 - first), s.dst, 16)
    store_u16(ends + 18 * (1 - first) + 16, s.dst_port)
    if hash == t.opened_hash and memcmp(ends, t.opened_ends, 36) != 0:
        t.equal_hashes += 1
    t.opened_hash = hash
    memcpy(t.opened_ends, ends, 36)
    return hash


cdef inline void put_slot(FlowTable* t, uint64_t hash, Flow* f) noexcept nogil:
    cdef size_t i = hash & t.slot_mask
    while t.slots[i].flow != NULL:
        i = (i + 1) & t.slot_mask
    t.slots[i].hash = hash
    t.slots[i].flow = f


cdef bint grow_table(FlowTable* t) noexcept nogil:
    cdef Slot* old = t.slots
    cdef size_t size = t.slot_mask + 1
    cdef size_t i
    cdef Slot* slots = <Slot*>calloc(2 * size, sizeof(Slot))
    if slots == NULL:
        return False
    t.slots = slots
    t.slot_mask = 2 * size - 1
    for i in range(size):
        if old[i].flow != NULL:
            put_slot(t, old[i].hash, old[i].flow)
    free(old)
    return True


cdef void remove_flow(FlowTable* t, Flow* f) noexcept nogil:
    """Take a flow out of the table. It still exists: see recycle_flow."""
    cdef size_t i = f.hash & t.slot_mask
    cdef size_t hole, home
    while t.slots[i].flow != f:
        i = (i + 1) & t.slot_mask
    hole = i
    while True:                                         # linear probing: move later entries back
        i = (i + 1) & t.slot_mask
        if t.slots[i].flow == NULL:
            break
        home = t.slots[i].hash & t.slot_mask
        if ((i - home) & t.slot_mask) >= ((i - hole) & t.slot_mask):
            t.slots[hole] = t.slots[i]
            hole = i
    t.slots[hole].flow = NULL
    t.count -= 1
    unlink_flow(t, f)


cdef inline void recycle_flow(FlowTable* t, Flow* f) noexcept nogil:
    """Keep an unused flow for reuse, or free it."""
    if t.spare_count < FLOWS_SPARE:
        f.newer = t.spare
        t.spare = f
        t.spare_count += 1
    else:
        free(f)


cdef inline void link_flow(FlowTable* t, Flow* f) noexcept nogil:
    cdef FlowList* to = &t.lists[1 if f.closed else 0]
    f.newer = NULL
    f.older = to.newest
    if to.newest != NULL:
        to.newest.newer = f
    else:
        to.oldest = f
    to.newest = f


cdef inline void unlink_flow(FlowTable* t, Flow* f) noexcept nogil:
    cdef FlowList* of = &t.lists[1 if f.closed else 0]
    if f.older != NULL:
        f.older.newer = f.newer
    else:
        of.oldest = f.newer
    if f.newer != NULL:
        f.newer.older = f.older
    else:
        of.newest = f.older


cdef inline void touch_flow(FlowTable* t, Flow* f) noexcept nogil:
    """It has the last packet."""
    if f.newer != NULL:
        unlink_flow(t, f)
        link_flow(t, f)


cdef void close_flow(FlowTable* t, Flow* f) noexcept nogil:
    """Move it to the closed flows."""
    if not f.closed:
        unlink_flow(t, f)
        f.closed = True
        link_flow(t, f)


cdef inline Flow* oldest_flow(const FlowTable* t) noexcept nogil:
    """The flow that ends first if one has to: a closed one if there is any, the one that was idle longest. NULL: none is left."""
    return t.lists[1].oldest if t.lists[1].oldest != NULL else t.lists[0].oldest
