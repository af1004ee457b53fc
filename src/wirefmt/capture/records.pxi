# Capture files in chunks of any size.


cdef class RecordFeed:
    """Feeds chunks of any size to a PcapFile and keeps the partial record between them.

    Records are read in place; only octets of a record that two chunks share are copied.
    """
    cdef PcapFile file
    cdef const uint8_t* chunk
    cdef size_t size, at            # of the chunk
    cdef uint8_t* kept              # unused octets of earlier chunks, then some of this chunk
    cdef size_t kept_size, kept_capacity, kept_at
    cdef size_t borrowed            # octets of `kept` that are also chunk[:borrowed]
    cdef bint last

    def __cinit__(self):
        self.file = PcapFile.__new__(PcapFile)

    def __dealloc__(self):
        free(self.kept)

    cdef void begin(self, int64_t offset, int64_t first_frame) noexcept nogil:
        self.file.begin(offset, first_frame)
        self.kept_size = self.kept_at = self.borrowed = self.size = self.at = 0
        self.last = False

    cdef void give(self, const uint8_t* p, size_t n, bint last) noexcept nogil:
        """Add the next chunk, which must remain valid until `next` returns READ_NEED or READ_END."""
        self.chunk = p
        self.size = n
        self.at = 0
        self.borrowed = 0
        self.last = last

    cdef int next(self, PacketRecord* out) noexcept nogil:
        """PcapFile.next_record of the fed chunks. Returns a Read; -1: out of memory."""
        cdef size_t used, take
        cdef int answer
        while self.kept_size:
            answer = self.file.next_record(self.kept + self.kept_at, self.kept_size - self.kept_at,
                                           self.last and self.borrowed == self.size, &used, out)
            self.kept_at += used
            if self.kept_at >= self.kept_size - self.borrowed:
                # the octets of earlier chunks are used: continue in the chunk itself
                self.at = self.kept_at - (self.kept_size - self.borrowed)
                self.kept_size = self.kept_at = self.borrowed = 0
                if answer == READ_NEED:
                    break
                return answer
            if answer != READ_NEED:
                return answer
            if self.borrowed == self.size:
                self.at = self.size
                return READ_NEED
            take = self.size - self.borrowed
            if take > 65536:
                take = 65536
            if not self.keep(self.chunk + self.borrowed, take):
                return -1
            self.borrowed += take
        if self.file.is_plain():
            used = self.file.plain_record(self.chunk + self.at, self.size - self.at, out)
            if used:
                self.at += used
                return READ_RECORD
        answer = self.file.next_record(self.chunk + self.at, self.size - self.at, self.last, &used, out)
        self.at += used
        if answer == READ_NEED and self.at < self.size:
            if not self.keep(self.chunk + self.at, self.size - self.at):
                return -1
            self.at = self.size
            self.borrowed = 0
        return answer

    cdef bint keep(self, const uint8_t* p, size_t n) noexcept nogil:
        cdef uint8_t* grown
        cdef size_t capacity
        if self.kept_at:
            memmove(self.kept, self.kept + self.kept_at, self.kept_size - self.kept_at)
            self.kept_size -= self.kept_at
            self.kept_at = 0
        if n > self.kept_capacity - self.kept_size:
            capacity = 2 * (self.kept_size + n)
            grown = <uint8_t*>realloc(self.kept, capacity)
            if grown == NULL:
                return False
            self.kept = grown
            self.kept_capacity = capacity
        memcpy(self.kept + self.kept_size, p, n)
        self.kept_size += n
        return True


cdef class PcapReader:
    """Packets of one capture file, pcap or pcapng, of any content, fed in chunks of any size.

    Each packet is a tuple (frame_no, ts_ns, link_type, original_size, bytes). `faults` lists invalid records as
    (offset in the file, reason). For whole files use wirefmt.capture.read; this class is for single packets.
    """
    cdef RecordFeed records
    cdef readonly list faults
    cdef bint busy

    def __init__(self):
        self.records = RecordFeed.__new__(RecordFeed)
        self.records.begin(0, 1)
        self.faults = []

    def feed(self, chunk):
        """Feed bytes, any contiguous buffer. Returns the packets that they complete."""
        cdef Input octets = take_input(chunk)
        return self.read(octets.at, <size_t>octets.size, False)

    def close(self):
        """End the file. Returns the packets that could not be confirmed before its end."""
        cdef uint8_t nothing = 0
        return self.read(&nothing, 0, True)

    cdef list read(self, const uint8_t* p, size_t n, bint last):
        cdef list found = []
        begin_call(&self.busy)
        try:
            self.read_all(p, n, last, found)
        finally:
            self.busy = False
        return found

    cdef int read_all(self, const uint8_t* p, size_t n, bint last, list found) except -1:
        cdef PacketRecord r
        cdef CaptureFault* f = &self.records.file.fault
        cdef int answer
        self.records.give(p, n, last)
        while True:
            answer = self.records.next(&r)
            if answer == READ_RECORD:
                found.append((r.frame_no, r.ts_ns, r.link_type, r.original_size, r.data[:r.captured_size]))
            elif answer == READ_FAULT:
                self.faults.append((f.offset, (<bytes>capture_fault_text(f.reason)).decode("ascii")))
            elif answer < 0:
                raise MemoryError("no memory for a record between two chunks")
            else:
                return 0
