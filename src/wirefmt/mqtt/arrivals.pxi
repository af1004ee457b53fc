# Messages of QoS 1 and 2 that have arrived and wait for their answers, in the order in which these must leave.
from cpython.ref cimport Py_DECREF, Py_XDECREF


cdef enum:
    ARRIVALS_CAPACITY = 16      # initial space for arrivals
    ARRIVALS_KEPT = 64          # space that is kept after all have been answered


cdef struct Arrival:
    PyObject* message           # both owned; neither can be part of a cycle
    PyObject* answer            # bytes; NULL: not decided, or the short PUBACK or PUBREC
    uint16_t identifier
    uint8_t qos, code, decided
    int32_t next                # of the same QoS, in the order of arrival, or the next free one; -1: none
    int32_t chain               # with the same bucket


cdef class Arrivals:
    """QoS 1 and 2 messages of the peer whose PUBACK or PUBREC is not queued yet, by packet identifier, and per QoS in the order
    of arrival. `undecided` counts those that the host has not answered."""
    cdef Arrival* arrivals
    cdef int32_t* buckets       # by the low bits of the identifier
    cdef int32_t capacity           # a power of two: of both
    cdef int32_t count, free
    cdef int32_t first[3]       # by QoS
    cdef int32_t last[3]
    cdef readonly int32_t undecided

    def __init__(self):
        self.first[1] = self.first[2] = -1

    def __dealloc__(self):
        self.drop()

    def __len__(self):
        return self.count

    def __contains__(self, identifier):
        return self.find(identifier) >= 0

    def __getitem__(self, identifier):
        found = self.get(identifier)
        if found is None:
            raise KeyError(identifier)
        return found

    cpdef ArrivalView get(self, identifier):
        """None: no message has the identifier."""
        cdef int32_t i = self.find(identifier)
        cdef ArrivalView view
        if i < 0:
            return None
        view = ArrivalView.__new__(ArrivalView)
        view.message = <Publish>self.arrivals[i].message
        view.qos = self.arrivals[i].qos
        view.decided = self.arrivals[i].decided
        return view

    def waits(self, int qos):
        """Is there a message of this QoS whose answer is not queued?"""
        return 1 <= qos <= 2 and self.first[qos] >= 0

    def add(self, Publish message not None, answer=None):
        """Add a message with a new identifier. answer: the bytes of its answer, which are sent in its turn; None: the host
        decides."""
        cdef int32_t i
        if message.first_octet & 6 in (0, 6) or message.packet_identifier_ in self:
            raise ValueError("not a message of QoS 1 or 2 with a new identifier")
        i = self.put(message)
        if answer is not None:
            self.decide(i, <bytes?>answer, 0)

    def clear(self):
        self.drop()
        self.first[1] = self.first[2] = -1

    cdef inline int32_t find(self, uint16_t identifier) noexcept:
        cdef int32_t i
        if self.count == 0:
            return -1
        i = self.buckets[identifier & (self.capacity - 1)]
        while i >= 0 and self.arrivals[i].identifier != identifier:
            i = self.arrivals[i].chain
        return i

    cdef int32_t put(self, Publish message) except -1:
        cdef Arrival* a
        cdef int32_t* bucket
        cdef int32_t i
        cdef int qos = message.first_octet >> 1 & 3
        if self.count == self.capacity:
            self.enlarge()
        i = self.free
        a = &self.arrivals[i]
        self.free = a.next
        Py_INCREF(message)
        a.message = <PyObject*>message
        a.answer = NULL
        a.identifier = message.packet_identifier_
        a.qos = <uint8_t>qos
        a.code = a.decided = 0
        a.next = -1
        bucket = &self.buckets[a.identifier & (self.capacity - 1)]
        a.chain = bucket[0]
        bucket[0] = i
        if self.first[qos] < 0:
            self.first[qos] = i
        else:
            self.arrivals[self.last[qos]].next = i
        self.last[qos] = i
        self.count += 1
        self.undecided += 1
        return i

    cdef void decide(self, int32_t i, bytes answer, uint8_t code) noexcept:
        """answer: None: the short one."""
        cdef Arrival* a = &self.arrivals[i]
        a.decided = 1
        a.code = code
        if answer is not None:
            Py_INCREF(answer)
            a.answer = <PyObject*>answer
        self.undecided -= 1

    cdef void take(self, int32_t i) noexcept:
        """Remove the first message of its QoS. The caller takes over the objects that it owns."""
        cdef Arrival* a = &self.arrivals[i]
        cdef int32_t* at = &self.buckets[a.identifier & (self.capacity - 1)]
        while at[0] != i:
            at = &self.arrivals[at[0]].chain
        at[0] = a.chain
        self.first[a.qos] = a.next
        a.next = self.free
        self.free = i
        self.count -= 1

    cdef int enlarge(self) except -1:
        cdef int32_t i, j, capacity = self.capacity * 2 if self.capacity else ARRIVALS_CAPACITY
        cdef Arrival* arrivals
        cdef int32_t* buckets = <int32_t*>malloc(<size_t>capacity * sizeof(int32_t))
        if buckets == NULL:
            raise MemoryError
        arrivals = <Arrival*>realloc(self.arrivals, <size_t>capacity * sizeof(Arrival))
        if arrivals == NULL:
            free(buckets)
            raise MemoryError
        for i in range(capacity):
            buckets[i] = -1
        for i in range(self.capacity):              # all are in use
            j = arrivals[i].identifier & (capacity - 1)
            arrivals[i].chain = buckets[j]
            buckets[j] = i
        for i in range(self.capacity, capacity):
            arrivals[i].next = i + 1 if i + 1 < capacity else -1
        free(self.buckets)
        self.arrivals = arrivals
        self.buckets = buckets
        self.free = self.capacity
        self.capacity = capacity
        return 0

    cdef void shrink(self) noexcept:
        """Free memory that a burst needed."""
        if self.count == 0 and self.capacity > ARRIVALS_KEPT:
            self.drop()

    cdef void drop(self) noexcept:
        cdef int32_t i, qos
        for qos in range(1, 3):
            i = self.first[qos] if self.count else -1
            while i >= 0:
                Py_DECREF(<object>self.arrivals[i].message)
                Py_XDECREF(self.arrivals[i].answer)
                i = self.arrivals[i].next
        free(self.arrivals)
        free(self.buckets)
        self.arrivals = NULL
        self.buckets = NULL
        self.capacity = self.count = self.undecided = 0


@cython.final
cdef class ArrivalView:
    """A copy of one of the Arrivals."""
    cdef readonly Publish message
    cdef readonly int qos
    cdef readonly bint decided
