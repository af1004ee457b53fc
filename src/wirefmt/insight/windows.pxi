# A gate is closed while a client takes no deliveries: as many as it allows have no answer, it has given no credit, or RDY is 0.
# That messages waited is known when one comes at once after the gate has opened.

cdef enum:
    AT_ONCE_NS = 100000000


cdef struct Gate:
    int64_t closed_ns           # 0: it is open
    int64_t began_ns            # when it was closed the last time
    int64_t opened_ns           # when it was opened; 0: after the next delivery


cdef inline void close_gate(Gate* g, int64_t now) noexcept nogil:
    if g.closed_ns == 0:
        g.closed_ns = now
        g.opened_ns = 0


cdef inline void open_gate(Gate* g, int64_t now) noexcept nogil:
    if g.closed_ns:
        g.began_ns = g.closed_ns
        g.opened_ns = now
        g.closed_ns = 0
