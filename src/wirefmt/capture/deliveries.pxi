# Events of the reassembly that wait because its sink was full.
#
# One packet may complete any number of messages: after a gap that it fills, in a compressed stream, at the end of a flow. A full
# sink takes nothing more: the remaining events of the packet wait here, in order, and are passed on before the next packet. A
# packet may end other flows, and the order of events is that of rows, so there is one list and not one for each flow. It has
# copies of octets of that packet and octets that were stored out of order, so its size is bounded by theirs.

cdef enum DeliveryKind:         # an event of a FlowSink
    DELIVER_OCTETS = 0
    DELIVER_GAP
    DELIVER_FRONT
    DELIVER_END
    DELIVER_CLOSE


cdef struct Delivery:
    Delivery* next
    Flow* flow
    uint8_t kind                # a DeliveryKind
    int8_t end
    int why                     # a Why
    int layer                   # of octets
    int64_t n                   # octets of a gap, offset of a front
    Mark mark
    size_t at, size             # octets[at:size] were not used yet
    uint8_t* octets             # after this struct, in the same block


cdef struct DeliveryList:
    Delivery* first
    Delivery** place            # where the next one is inserted: after those that the current one has made wait
    int64_t octets              # memory; not in `buffered`, because nothing waits when the next packet comes


cdef Delivery* add_delivery(DeliveryList* waiting, int kind, Flow* f, int end, const uint8_t* p, size_t n,
                            const Mark* mark) noexcept nogil:
    """Insert an event with a copy of its octets; NULL: out of memory."""
    cdef Delivery* d = <Delivery*>malloc(sizeof(Delivery) + n)
    if d == NULL:
        return NULL
    memset(d, 0, sizeof(Delivery))
    d.kind = <uint8_t>kind
    d.flow = f
    d.end = <int8_t>end
    if mark != NULL:
        d.mark = mark[0]
    d.size = n
    d.octets = <uint8_t*>d + sizeof(Delivery)
    if n:
        memcpy(d.octets, p, n)
    waiting.octets += <int64_t>(sizeof(Delivery) + n)
    insert_delivery(waiting, d)
    return d


cdef inline void insert_delivery(DeliveryList* waiting, Delivery* d) noexcept nogil:
    d.next = waiting.place[0]
    waiting.place[0] = d
    waiting.place = &d.next


cdef inline Delivery* next_delivery(DeliveryList* waiting) noexcept nogil:
    """Remove the first; what it makes wait is inserted in its place. NULL: nothing waits."""
    cdef Delivery* d = waiting.first
    if d != NULL:
        waiting.first = d.next
    waiting.place = &waiting.first
    return d


cdef inline void last_place(DeliveryList* waiting) noexcept nogil:
    """Append what waits from now on to the end."""
    while waiting.place[0] != NULL:
        waiting.place = &waiting.place[0].next


cdef inline void free_delivery(DeliveryList* waiting, Delivery* d) noexcept nogil:
    waiting.octets -= <int64_t>(sizeof(Delivery) + d.size)
    free(d)
