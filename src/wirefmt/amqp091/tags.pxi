# Delivery-tags of one direction of a channel: those that wait to be settled, and those whose basic.ack is not written.
from cpython.list cimport PyList_GET_SIZE
from libc.stdlib cimport qsort


cdef enum:
    TAGS_CAPACITY = 16              # numbers that there is space for at first
    TAGS_KEPT = 1024            # ... and that there is still space for once all have been settled
    ACK_OCTETS = 21             # a basic.ack frame


cdef object SETTLED = object()              # in the place of a record that has been taken out


cdef inline void store_u64(uint8_t* p, uint64_t v) noexcept:
    store_u32(p, <uint32_t>(v >> 32))
    store_u32(p + 4, <uint32_t>v)


cdef int put_ack(Outbox outbox, uint16_t channel, uint64_t tag, bint multiple) except -1:
    """Queue a basic.ack (1.8.3.13)."""
    cdef uint8_t* p = outbox.grow(ACK_OCTETS)
    p[0] = AMQP091_FRAME_METHOD
    store_u16(p + 1, channel)
    store_u32(p + 3, ACK_OCTETS - AMQP091_OVERHEAD)
    store_u16(p + 7, AMQP091_CLASS_BASIC)
    store_u16(p + 9, 80)
    store_u64(p + 11, tag)
    p[19] = multiple
    p[20] = AMQP091_FRAME_END
    return 0


cdef int compare_tags(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0], y = (<const uint64_t*>b)[0]
    return (x > y) - (x < y)


@cython.final
@cython.no_gc_clear
cdef class Tags:
    """Numbers that wait to be settled, each with a record, and numbers settled positively whose basic.ack is not written.

    Numbers are added in ascending order, which need not be without gaps. Memory is that of the numbers that wait, up to a
    factor.
    """
    cdef uint64_t* tags         # of `records`
    cdef list records           # SETTLED: taken out
    cdef Py_ssize_t first       # the first one that waits, or the end
    cdef Py_ssize_t count       # of those that wait
    cdef Py_ssize_t capacity
    cdef uint64_t* noted        # settled, and the ack is not written
    cdef Py_ssize_t noted_count, noted_capacity

    def __init__(self):
        self.records = []

    def __dealloc__(self):
        free(self.tags)
        free(self.noted)

    def __len__(self):
        """How many wait."""
        return self.count

    def __contains__(self, tag):
        cdef uint64_t number = 0
        return is_tag(tag, &number) and self.find(number) >= 0

    def add(self, tag, record):
        """Add a number. Raises ValueError if it is not above all that wait or have waited just before."""
        cdef uint64_t number = tag
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records)
        if end and number <= self.tags[end - 1]:
            raise ValueError(f"{number} is not above {self.tags[end - 1]}")
        self.put(number, record)

    def get(self, tag):
        """The record of a number; None: it does not wait."""
        cdef uint64_t number = 0
        cdef Py_ssize_t i = self.find(number) if is_tag(tag, &number) else -1
        return None if i < 0 else self.records[i]

    def pop(self, tag):
        """Settle a number and return its record. Raises KeyError if it does not wait."""
        cdef uint64_t number = 0
        cdef Py_ssize_t i = self.find(number) if is_tag(tag, &number) else -1
        if i < 0:
            raise KeyError(tag)
        return self.take(i)

    def settle_up_to(self, tag):
        """Settle all numbers up to and including this one; return their records in order."""
        cdef uint64_t number = tag
        return self.settle(number)

    def values(self):
        """The records of the numbers that wait, in order."""
        return [record for record in self.records if record is not SETTLED]

    def clear(self):
        """Forget all numbers."""
        self.noted_count = 0
        self.release()

    def note(self, tag):
        """A basic.ack of this number is to be written."""
        cdef uint64_t number = tag
        self.note_ack(number)

    # ---- for the connection

    cdef int put(self, uint64_t tag, object record) except -1:
        """Add a number that is above all others."""
        if PyList_GET_SIZE(self.records) == self.capacity:
            self.grow_tags()
        self.records.append(record)
        self.tags[PyList_GET_SIZE(self.records) - 1] = tag
        self.count += 1
        return 0

    cdef Py_ssize_t find(self, uint64_t tag) noexcept:
        """Where a number is that waits; negative: it does not wait."""
        cdef Py_ssize_t low = self.first, high = PyList_GET_SIZE(self.records), middle
        if low >= high or tag < self.tags[low] or tag > self.tags[high - 1]:
            return -1
        if tag - self.tags[low] < <uint64_t>(high - low) and self.tags[low + <Py_ssize_t>(tag - self.tags[low])] == tag:
            low += <Py_ssize_t>(tag - self.tags[low])       # no gaps, as most of the time
        else:
            while high - low > 1:
                middle = (low + high) >> 1
                if self.tags[middle] <= tag:
                    low = middle
                else:
                    high = middle
            if self.tags[low] != tag:
                return -1
        return low if <PyObject*>self.records[low] != <PyObject*>SETTLED else -1

    cdef object take(self, Py_ssize_t i):
        """Settle the number at this place; its record."""
        record = self.records[i]
        self.records[i] = SETTLED
        self.count -= 1
        if i == self.first:
            self.skip()
        return record

    cdef list settle(self, uint64_t tag):
        """Settle all numbers up to this one; their records."""
        cdef list settled = []
        cdef Py_ssize_t i = self.first, end = PyList_GET_SIZE(self.records)
        while i < end and self.tags[i] <= tag:
            record = self.records[i]
            if record is not SETTLED:
                settled.append(record)
                self.records[i] = SETTLED
                self.count -= 1
            i += 1
        self.first = i
        self.skip()
        return settled

    cdef int skip(self) except -1:
        """Move `first` on to a number that waits."""
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records)
        while self.first < end and <PyObject*>self.records[self.first] == <PyObject*>SETTLED:
            self.first += 1
        if self.count == 0 and self.capacity > TAGS_KEPT:
            self.release()
        return 0

    cdef int release(self) except -1:
        """Drop all numbers, and the memory."""
        cdef list records = self.records
        self.records = []
        self.first = self.count = self.capacity = 0
        free(self.tags)
        self.tags = NULL
        records.clear()         # the last, since it may end objects
        return 0

    cdef int grow_tags(self) except -1:
        """Close the gaps if half of the numbers are settled, else make space for twice as many."""
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records), at = 0, i, capacity
        cdef uint64_t* bigger
        if end > 0 and self.count <= end >> 1:
            for i in range(self.first, end):
                record = self.records[i]
                if record is not SETTLED:
                    self.records[i] = SETTLED
                    self.records[at] = record
                    self.tags[at] = self.tags[i]
                    at += 1
            self.first = 0
            del self.records[at:]
            return 0
        capacity = max(2 * self.capacity, <Py_ssize_t>TAGS_CAPACITY)
        bigger = <uint64_t*>realloc(self.tags, <size_t>capacity * sizeof(uint64_t))
        if bigger == NULL:
            raise MemoryError
        self.tags = bigger
        self.capacity = capacity
        return 0

    cdef int note_ack(self, uint64_t tag) except -1:
        cdef Py_ssize_t capacity
        cdef uint64_t* bigger
        if self.noted_count == self.noted_capacity:
            capacity = max(2 * self.noted_capacity, <Py_ssize_t>TAGS_CAPACITY)
            bigger = <uint64_t*>realloc(self.noted, <size_t>capacity * sizeof(uint64_t))
            if bigger == NULL:
                raise MemoryError
            self.noted = bigger
            self.noted_capacity = capacity
        self.noted[self.noted_count] = tag
        self.noted_count += 1
        return 0

    cdef int write(self, Outbox outbox, uint16_t channel) except -1:
        """Queue acks for the numbers noted: one with `multiple` for all below the smallest number that waits, and one for each
        other number."""
        cdef Py_ssize_t i, together = self.noted_count
        cdef bint sorted_ = True
        if together == 0:
            return 0
        for i in range(1, together):
            if self.noted[i] < self.noted[i - 1]:
                sorted_ = False
                break
        if not sorted_:
            qsort(self.noted, <size_t>together, sizeof(uint64_t), compare_tags)
        if together > 1 and self.count:
            while together and self.noted[together - 1] > self.tags[self.first]:
                together -= 1
        if together:
            put_ack(outbox, channel, self.noted[together - 1], together > 1)
        for i in range(together, self.noted_count):
            put_ack(outbox, channel, self.noted[i], False)
        self.noted_count = 0
        if self.noted_capacity > TAGS_KEPT:
            free(self.noted)
            self.noted = NULL
            self.noted_capacity = 0
        return 0


cdef bint is_tag(object value, uint64_t* number) except -1:
    """Is this a number of 64 bits?"""
    try:
        number[0] = value
    except (OverflowError, TypeError):
        return False
    return True
