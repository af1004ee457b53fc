# Key logs and secrets blocks: where the lines of a client random are, and the blocks of a file without its packets.
from os import urandom

cdef enum:
    SAME_LINES = 64             # of one client random that are kept: a key log has six


cdef struct KeyLine:
    uint64_t start              # the first octets of the client random
    int64_t place               # of the line, + 1; 0: a free slot


cdef class KeyLogIndex:
    """Where the lines of a key log are, by the first 8 bytes of their client random: 16 bytes a line, in a hash table."""

    cdef KeyLine* lines
    cdef size_t mask, count
    cdef uint64_t seed              # of the hash: who writes a capture must not choose where its lines collide

    def __init__(self):
        self.seed = <uint64_t>int.from_bytes(urandom(8), "big")

    def __dealloc__(self):
        free(self.lines)

    def __len__(self):
        return self.count

    def add(self, octets, int64_t base, bint last):
        """Index the lines of these bytes, which begin at `base`. last: also one without its newline. Returns how many bytes the
        whole lines have."""
        cdef Input text = take_input(octets)
        cdef const uint8_t* p = text.at
        cdef size_t n = <size_t>text.size
        cdef size_t at = 0, end
        cdef uint64_t start
        cdef bint done = True
        with nogil:
            while at < n:
                end = at
                while end < n and p[end] != c"\n":
                    end += 1
                if end == n and not last:
                    break
                if key_line(p + at, end - at, &start):
                    done = self.put(start, base + <int64_t>at)
                    if not done:
                        break
                at = min(end + 1, n)
        if not done:
            raise MemoryError("no memory for the index of a key log")
        return at

    def find(self, bytes start):
        """The places of the lines whose client random begins with these 8 bytes, in order."""
        cdef uint64_t wanted = load_u64(<const uint8_t*>PyBytes_AS_STRING(start)) if len(start) >= 8 else 0
        cdef size_t i
        found = []
        if self.count and len(start) >= 8:
            i = avalanche(wanted ^ self.seed) & self.mask
            while self.lines[i].place:
                if self.lines[i].start == wanted:
                    found.append(self.lines[i].place - 1)
                i = (i + 1) & self.mask
        found.sort()
        return found

    cdef bint put(self, uint64_t start, int64_t place) noexcept nogil:
        cdef size_t i
        cdef int same = 0
        if 4 * (self.count + 1) > 3 * self.mask and not self.grow():
            return False
        i = avalanche(start ^ self.seed) & self.mask
        while self.lines[i].place:
            same += self.lines[i].start == start
            if same == SAME_LINES:
                return True
            i = (i + 1) & self.mask
        self.lines[i].start = start
        self.lines[i].place = place + 1
        self.count += 1
        return True

    cdef bint grow(self) noexcept nogil:
        cdef KeyLine* old = self.lines
        cdef size_t size = self.mask + 1 if old != NULL else 0
        cdef size_t i, k
        cdef KeyLine* lines = <KeyLine*>calloc(max(2 * size, <size_t>64), sizeof(KeyLine))
        if lines == NULL:
            return False
        self.mask = max(2 * size, <size_t>64) - 1
        self.lines = lines
        for i in range(size):
            if old[i].place:
                k = avalanche(old[i].start ^ self.seed) & self.mask
                while lines[k].place:
                    k = (k + 1) & self.mask
                lines[k] = old[i]
        free(old)
        return True


cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c" " or c == c"\t"


cdef bint key_line(const uint8_t* p, size_t n, uint64_t* start) noexcept nogil:
    """Is this a label, then at least 16 hexadecimal digits? `start`: what these say."""
    cdef size_t at = 0
    cdef int i
    cdef uint32_t digit
    while at < n and is_blank(p[at]):
        at += 1
    if at == n or not c"A" <= p[at] <= c"Z":
        return False
    while at < n and not is_blank(p[at]):
        at += 1
    while at < n and is_blank(p[at]):
        at += 1
    if n - at < 16:
        return False
    start[0] = 0
    for i in range(16):
        digit = hex_digit(p[at + i])
        if digit == NOT_HEX:
            return False
        start[0] = start[0] << 4 | digit
    return True


cdef class SecretsScan:
    """Takes the bytes of a capture, and gives its secrets blocks to `secrets.add`; its packets are skipped."""

    cdef RecordFeed records

    def __init__(self, secrets):
        self.records = RecordFeed.__new__(RecordFeed)
        self.records.begin(0, 1)
        self.records.file.secrets = secrets

    def feed(self, chunk):
        """Take the next bytes. Returns False if no block can follow: it is not pcapng."""
        cdef Input octets = take_input(chunk)
        cdef PacketRecord r
        cdef int answer = READ_RECORD
        with nogil:
            self.records.give(octets.at, <size_t>octets.size, False)
            while answer == READ_RECORD or answer == READ_FAULT:
                answer = self.records.next(&r)
        return answer == READ_NEED and (self.records.file.rule.blocks or self.records.file.stage == STAGE_MAGIC)
