# decode_batch: the frames of a buffer -> rows of columns, one loop for all protocols.


cdef class FrameBatch(ColumnSet):
    """The columns of a decode_batch while they are filled: first `byte_offset` and `wire_size`, last `error`."""

    # ---- what a protocol adds

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        """The size of the frame that begins at `p`. Returns a Status."""
        return UNSUPPORTED

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        """Put the rows of one whole frame (none, one or several) and count them in `row`. Returns OK, or the status of a fault,
        for which the caller puts a row."""
        return UNSUPPORTED

    cdef int64_t put_fast(self, const uint8_t* data, int64_t at, int64_t size) noexcept nogil:
        """The fast path: put the rows of frames from `at` on (before `size`), as frame_size and put_frame would. Returns where
        the first frame begins that the fast path does not read; `at` if that is the first."""
        return at

    cdef void put_unfinished(self, int64_t at) noexcept nogil:
        """The input ends at `at`: put rows for incomplete messages."""

    # ---- the same for all

    cdef int64_t run(self, const uint8_t* data, int64_t size) noexcept nogil:
        """Decode all whole frames. Returns the octets they have."""
        cdef int64_t at = 0
        cdef size_t n = 0
        cdef Fault f
        cdef int status
        while at < size:
            at = self.put_fast(data, at, size)
            if at == size:
                break
            self.shared.read = at
            status = self.frame_size(data + at, <size_t>(size - at), &n, &f)
            if status == NEED_DATA or (status == OK and <int64_t>n > size - at):
                break
            if status != OK:                            # the position of the next frame is unknown
                self.put_error(at, size - at, &f)
                at = size
                break
            if self.put_frame(at, data + at, n, &f) != OK:
                self.put_error(at, <int64_t>n, &f)
            at += <int64_t>n
        self.put_unfinished(at)
        return at

    cdef void put_fault(self, int64_t at, const Fault* f) noexcept nogil:
        """The row's `error`."""
        cdef char[256] text
        cdef int n = fault_text(self.tables, f, at, text, sizeof(text))
        put_octets(self.cols + self.n - 1, self.row, <const uint8_t*>text, n)

    cdef void put_error(self, int64_t at, int64_t size, const Fault* f) noexcept nogil:
        """A row of a fault."""
        self.put_place(at, size)
        self.put_fault(at, f)
        self.row += 1

    cdef Batch decode(self, const ProtocolTables* tables, Input octets, int payload):
        """payload: the column of the payloads, which gets space for all octets at once; -1: no such column."""
        cdef Batch batch
        cdef int64_t used
        self.tables = tables
        self.shared.whole = octets.size
        if payload >= 0:
            reserve(self.cols + payload, 0, min(<int64_t>octets.size, <int64_t>OFFSET_MAX))
        with nogil:
            used = self.run(octets.at, octets.size)
        batch = self.finish(self.row)
        batch.rest = octets.size - used
        return batch
