# Work of a capture that waits until a full batch has been taken.
#
# One packet may complete any number of messages: after a gap that it fills, in a compressed stream, at the end of a
# flow. If the batch is full, the remaining work of the packet is kept here, in order, and done before the next packet, with
# the segments of its group after it.
# Deferred work has copies of octets of that packet, octets that were stored out of order, and GROUP - 1 segments, so its size
# is bounded by theirs.

cdef enum DeferredKind:
    DEFERRED_SEGMENT = 0        # a segment: `octets` are a Segment and its payload
    DEFERRED_OCTETS             # the next octets of a direction
    DEFERRED_GAP                # a gap of the stream: on_gap
    DEFERRED_FRONT              # octets from before the beginning of a direction: on_front; `n`: their offset
    DEFERRED_CROSS              # a gap of the protocol's stream: cross
    DEFERRED_LOSE               # a gap of a WebSocket's frames: lose_socket
    DEFERRED_END                # a direction ends: on_end
    DEFERRED_CLOSE              # the flow has left the table: free its state, recycle it
    DEFERRED_PENDING            # the pending octets are a whole frame, or no frame: settle_frame
    DEFERRED_GIVE_UP            # the pending frame exceeds a limit: give_up_frame
    DEFERRED_LOOK               # the search window: look; `flag`: final
    DEFERRED_DECIDED            # the search window, after the protocol was found: read_decided; `flag`: final
    DEFERRED_FLUSH              # messages that have begun, in both directions, for a limit: flush_for_limit; `n`: its rows
    DEFERRED_REPORT             # a row about the capture file; `octets` are its text, `n` the offset in the file


cdef struct Deferred:
    Deferred* next
    Flow* flow                  # NULL: DEFERRED_SEGMENT, DEFERRED_REPORT
    uint8_t kind                # a DeferredKind
    int8_t end
    int why                     # a Why
    bint flag
    int64_t n                   # octets of a gap, offset, rows
    Mark mark
    size_t size                 # of `octets`
    uint8_t* octets             # after this struct, in the same block


cdef struct DeferredList:
    Deferred* first
    Deferred** place            # where the next one is inserted: after those that the current work deferred


cdef Deferred* new_deferred(int kind, Flow* f, int end, size_t n, const Mark* mark) noexcept nogil:
    """New work with memory for `n` octets; NULL: out of memory."""
    cdef Deferred* d = <Deferred*>malloc(sizeof(Deferred) + n)
    if d == NULL:
        return NULL
    memset(d, 0, sizeof(Deferred))
    d.kind = <uint8_t>kind
    d.flow = f
    d.end = <int8_t>end
    if mark != NULL:
        d.mark = mark[0]
    d.size = n
    d.octets = <uint8_t*>d + sizeof(Deferred)
    return d


cdef inline void insert_deferred(DeferredList* waiting, Deferred* d) noexcept nogil:
    d.next = waiting.place[0]
    waiting.place[0] = d
    waiting.place = &d.next


cdef inline Deferred* next_deferred(DeferredList* waiting) noexcept nogil:
    """Remove the first; what its work defers is inserted in its place. NULL: nothing is deferred."""
    cdef Deferred* d = waiting.first
    if d != NULL:
        waiting.first = d.next
    waiting.place = &waiting.first
    return d


cdef inline void last_place(DeferredList* waiting) noexcept nogil:
    """Append what is deferred from now on to the end."""
    while waiting.place[0] != NULL:
        waiting.place = &waiting.place[0].next
