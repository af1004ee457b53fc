# Which records of a chunk each of several threads reads. The thread that has read a chunk from the file walks it once for all of
# them, so no thread looks at a packet that another one decodes.


cdef struct PlannedRecord:
    uint32_t at, size           # octets of the chunk
    uint32_t place              # records of the plan before it


cdef struct PlannedPackets:     # that parse_plain reads
    int64_t packets, octets     # octets: on the wire


cdef enum:
    AHEAD = 4096                # octets of the file that are prefetched before they are read
    START_ROOM = MAX_RECORD + 4096      # octets of a file's header and its first record
    EVERY_THREAD = 0xFFFF       # the owner of a record that parse_plain does not read


cdef class ChunkPlan:
    """The records that lie in a chunk as a whole, for each thread its own. Every thread reads those with packets that are not
    plain."""
    cdef PlannedRecord* records         # of the first thread, of the second ...
    cdef size_t* first                  # by thread, and the end
    cdef PlannedPackets* plain          # by thread, and of all threads
    cdef size_t begin, end              # of the records, in the chunk
    cdef int64_t frames, offset         # of the file before the first record
    cdef int64_t count                  # of records

    def __dealloc__(self):
        free(self.records)
        free(self.first)
        free(self.plain)


cdef class Planner:
    """Makes the plans of a file's chunks, given in their order, for `threads` threads.

    It reads pcap files in their usual form. Of other files, and after a record that cannot be one, it makes no plans.
    """
    cdef PcapFile file
    cdef PacketParser packets
    cdef size_t threads
    cdef bint begun, over
    cdef uint8_t* start                 # of the file, until its first record is complete
    cdef size_t start_size
    cdef size_t rest                    # octets still to come of a record that crosses chunks
    cdef uint8_t[32] head               # of its header
    cdef size_t head_size
    cdef PlannedRecord* found           # in the present chunk
    cdef uint16_t* owners
    cdef size_t count, room

    def __init__(self, unsigned short threads, /):
        self.threads = threads
        self.file = PcapFile.__new__(PcapFile)
        self.file.begin(0, 1)
        self.packets = PacketParser()

    def __dealloc__(self):
        free(self.start)
        free(self.found)
        free(self.owners)

    def plan(self, chunk, /):
        """The ChunkPlan of the next chunk; None: its records are to be read without one."""
        cdef Input octets = take_input(chunk)
        cdef ChunkPlan made = ChunkPlan.__new__(ChunkPlan)
        cdef bint done = False
        if self.over or octets.size == 0:
            return None
        made.first = <size_t*>calloc(self.threads + 1, sizeof(size_t))
        made.plain = <PlannedPackets*>calloc(self.threads + 1, sizeof(PlannedPackets))
        if made.first == NULL or made.plain == NULL:
            raise MemoryError
        with nogil:
            done = self.find(made, octets.at, <size_t>octets.size) and self.deal(made)
        return made if done else None

    cdef bint find(self, ChunkPlan made, const uint8_t* p, size_t n) noexcept nogil:
        """Find the records of a chunk and their owners. False: it gets no plan."""
        cdef PacketRecord r
        cdef Segment s
        cdef size_t at = 0, step
        cdef uint64_t owner
        self.count = 0
        if not self.begin(p, n, &at) or not self.cross(p, n, &at):
            return False
        made.begin = at
        made.frames = self.file.frames
        made.offset = self.file.offset
        while True:
            step = self.file.plain_record(p + at, n - at, &r)
            if step == 0:
                break
            if n - at > AHEAD:
                prefetch_read(p + at + AHEAD, min(step, n - at - AHEAD))
            owner = EVERY_THREAD
            if self.packets.parse_plain(&r, &s):
                owner = segment_share(&s, self.threads)
                made.plain[owner].packets += 1
                made.plain[owner].octets += r.original_size
            if not self.add(at, step, owner):
                self.over = True
                return False
            at += step
        made.end = at
        made.count = <int64_t>self.count
        self.keep_rest(p + at, n - at)
        return True

    cdef bint begin(self, const uint8_t* p, size_t n, size_t* at) noexcept nogil:
        """Read the header of the file and its first record, which no plan has. False: it is not complete, or of another form."""
        cdef PacketRecord r
        cdef size_t before = self.start_size
        cdef size_t more = min(n, <size_t>START_ROOM - before)
        cdef size_t used = 0
        cdef int answer
        if self.begun:
            return True
        if self.start == NULL:
            self.start = <uint8_t*>malloc(START_ROOM)
        if self.start == NULL or more == 0:
            self.over = True
            return False
        memcpy(self.start + before, p, more)
        self.start_size += more
        answer = self.file.next_record(self.start, self.start_size, False, &used, &r)
        if answer == READ_NEED:
            self.start_size -= used
            memmove(self.start, self.start + used, self.start_size)
            return False
        self.begun = True
        self.over = answer != READ_RECORD or not self.file.is_plain() or used < before
        at[0] = used - before
        return not self.over

    cdef bint cross(self, const uint8_t* p, size_t n, size_t* at) noexcept nogil:
        """Pass the rest of a record that began in the chunk before. False: it does not end in this one, or cannot be one."""
        cdef size_t more
        if self.head_size:
            more = min(n, self.file.rule.header_size - self.head_size)
            memcpy(self.head + self.head_size, p, more)
            self.head_size += more
            at[0] += more
            if self.head_size < self.file.rule.header_size:
                return False
            self.head_size = 0
            self.rest = self.packet_size(self.head)
            if self.rest == 0:
                self.over = True
                return False
            self.file.offset += <int64_t>(self.file.rule.header_size + self.rest)
            self.file.frames += 1
        more = min(n - at[0], self.rest)
        self.rest -= more
        at[0] += more
        return self.rest == 0

    cdef size_t packet_size(self, const uint8_t* header) noexcept nogil:
        """The captured size in a record's header; 0: it cannot be one that plain_record would read."""
        cdef uint32_t captured = load_u32_as(header + 8, False)
        return captured if captured <= load_u32_as(header + 12, False) and captured <= MAX_RECORD else 0

    cdef void keep_rest(self, const uint8_t* p, size_t n) noexcept nogil:
        """Remember the record that begins at the end of a chunk."""
        cdef size_t header = self.file.rule.header_size
        cdef size_t size
        if n < header:
            memcpy(self.head, p, n)
            self.head_size = n
            return
        size = self.packet_size(p)
        if size == 0 or header + size <= n:
            self.over = True
            return
        self.rest = header + size - n
        self.file.offset += <int64_t>(header + size)
        self.file.frames += 1

    cdef inline bint add(self, size_t at, size_t size, uint64_t owner) noexcept nogil:
        cdef PlannedRecord* record
        cdef void* grown
        if self.count == self.room:
            self.room = 2 * self.room + 1024
            grown = realloc(self.found, self.room * sizeof(PlannedRecord))
            if grown == NULL:
                return False
            self.found = <PlannedRecord*>grown
            grown = realloc(self.owners, self.room * sizeof(uint16_t))
            if grown == NULL:
                return False
            self.owners = <uint16_t*>grown
        record = &self.found[self.count]
        record.at = <uint32_t>at
        record.size = <uint32_t>size
        record.place = <uint32_t>self.count
        self.owners[self.count] = <uint16_t>owner
        self.count += 1
        return True

    cdef bint deal(self, ChunkPlan made) noexcept nogil:
        """Give each thread its records. False: out of memory, and the threads read the chunk without a plan."""
        cdef PlannedPackets* total = &made.plain[self.threads]
        cdef size_t of_all, i, k = 0
        for i in range(self.threads):
            total.packets += made.plain[i].packets
            total.octets += made.plain[i].octets
        of_all = self.count - <size_t>total.packets
        made.records = <PlannedRecord*>malloc((<size_t>total.packets + of_all * self.threads + 1) * sizeof(PlannedRecord))
        if made.records == NULL:
            return False
        for i in range(self.threads):
            made.first[i] = k
            k += <size_t>made.plain[i].packets + of_all
        for k in range(self.count):
            if self.owners[k] != EVERY_THREAD:
                made.records[made.first[self.owners[k]]] = self.found[k]
                made.first[self.owners[k]] += 1
                continue
            for i in range(self.threads):
                made.records[made.first[i]] = self.found[k]
                made.first[i] += 1
        for i in range(self.threads, 0, -1):            # each `first` is where its records end now
            made.first[i] = made.first[i - 1]
        made.first[0] = 0
        return True
