# Capture files: octets in, packet records out. A push parser: the caller owns the octets, records point into them.
#
# pcap: draft-ietf-opsawg-pcap (file header section 4, packet record section 5), and the older variants of its magic number.
# pcapng: draft-ietf-opsawg-pcapng (blocks section 3, Section Header 4.1, Interface Description 4.2,
# Enhanced Packet 4.3, Simple Packet 4.4, the obsolete Packet Block appendix A).
#
# An invalid record is a fault, not the end: the parser searches for the next record (`chain_start`) and continues there.
from libc.stdint cimport INT64_MAX

cdef enum:
    MAX_SKIPPED_BLOCK = 16777216    # of a pcapng block of another type, which is skipped
    MAX_SECRETS_BLOCK = 1 << 30     # of one with a key log
    MAX_INTERFACES = 65536          # of a pcapng section
    MAX_FAULTS = 1000               # of one file that are reported; the rest are only counted
    LONG_HEADER = 24                # octets of Kuznetzov's record header; others have 16
    SETTLED = 3                     # records after the first that tell which header a file has,
    SETTLE_WINDOW = 1 << 20         # within so many octets

cdef enum Read:
    READ_RECORD = 0
    READ_NEED = 1
    READ_FAULT = 2
    READ_END = 3

cdef struct PacketRecord:
    int64_t ts_ns               # since 1970; 0: unknown
    int64_t frame_no            # from 1
    const uint8_t* data
    uint32_t captured_size
    uint32_t original_size
    uint16_t link_type

cdef struct CaptureFault:
    int reason                  # a CaptureReason
    int64_t offset              # in the file
    int64_t frame_no            # frames read before it

cdef struct Interface:          # pcapng: what the times of its packets need
    int64_t offset_ns           # if_tsoffset
    uint64_t multiply           # time units to nanoseconds; 0: divide instead
    uint64_t divide             # 0: binary resolution, `shift`
    uint32_t snap_length
    uint16_t link_type
    uint8_t shift

cdef enum Stage:
    STAGE_MAGIC                 # nothing read yet
    STAGE_PCAP                  # records of a pcap file
    STAGE_PCAPNG                # blocks of a pcapng file
    STAGE_SEARCH                # after a fault: searching for the next record
    STAGE_END


cdef inline int64_t saturated(uint64_t seconds, uint64_t rest_ns) noexcept nogil:
    """Seconds and nanoseconds as nanoseconds; after the year 2262: the largest value."""
    if seconds > <uint64_t>9223372035LL:
        return INT64_MAX
    return <int64_t>(seconds * 1000000000 + rest_ns)


cdef int64_t interface_time(const Interface* i, uint64_t ticks) noexcept nogil:
    cdef int64_t t
    cdef uint64_t rest
    if i.multiply:
        t = INT64_MAX if ticks > <uint64_t>INT64_MAX / i.multiply else <int64_t>(ticks * i.multiply)
    elif i.divide:
        t = <int64_t>(ticks / i.divide)
    else:                       # binary: 2**-shift seconds
        rest = ticks if i.shift >= 64 else ticks & ((<uint64_t>1 << i.shift) - 1)
        if i.shift > 32:
            rest = 0 if i.shift - 32 >= 64 else rest >> (i.shift - 32)
            rest = (rest * 1000000000) >> 32
        else:
            rest = (rest * 1000000000) >> i.shift
        t = saturated(0 if i.shift >= 64 else ticks >> i.shift, rest)
    if i.offset_ns > 0 and t > INT64_MAX - i.offset_ns:
        return INT64_MAX
    return t + i.offset_ns


cdef void set_resolution(Interface* i, uint8_t tsresol) noexcept nogil:
    """if_tsresol, section 4.2: 10**-n, or 2**-n if the top bit is set."""
    cdef int n
    cdef int k
    i.multiply = i.divide = 0
    i.shift = 0
    if tsresol & 0x80:
        i.shift = tsresol & 0x7F
        return
    n = tsresol
    if n <= 9:
        i.multiply = 1
        for k in range(9 - n):
            i.multiply *= 10
    elif n <= 28:
        i.divide = 1
        for k in range(n - 9):
            i.divide *= 10
    else:
        i.shift = 127               # any count of 64 bits is less than a nanosecond


cdef class PcapFile:
    """Parser of one capture file, or of a range of one. C only; `PcapReader` is its Python class."""
    cdef CaptureFault fault
    cdef int64_t frames             # the number of the last record returned
    cdef int64_t offset             # in the file, of the first octet not used
    cdef int64_t faults             # also those beyond MAX_FAULTS
    cdef int64_t last_ns            # time of the last record returned
    cdef Interface* interfaces
    cdef uint32_t interface_count, interface_capacity
    cdef ChainRule rule
    cdef uint64_t skip              # octets of a large block still to skip
    cdef object secrets             # takes secrets blocks: see keylog.Secrets.add; None: they are skipped
    cdef uint32_t secrets_kind
    cdef uint64_t secrets_left      # octets of the secrets in it
    cdef uint32_t to_ns             # pcap: nanoseconds in a unit
    cdef uint16_t link_type         # pcap
    cdef uint8_t stage
    cdef bint unsure                # pcap: the size of record headers is not known
    cdef bint foreign               # pcapng: in a section of an unknown version; its blocks are skipped
    cdef uint8_t* alive             # room of chain_start

    def __cinit__(self):
        self.begin(0, 1)

    def __dealloc__(self):
        free(self.interfaces)
        free(self.alive)

    cdef void begin(self, int64_t offset, int64_t first_frame) noexcept nogil:
        """Begin a file. For a range of a file: first feed the octets that identify its format, then call `jump`."""
        self.stage = STAGE_MAGIC
        self.offset = offset
        self.frames = first_frame - 1
        self.faults = 0
        self.interface_count = 0
        self.skip = self.secrets_left = 0
        self.unsure = self.foreign = False
        memset(&self.fault, 0, sizeof(CaptureFault))

    cdef void jump(self, int64_t offset, int64_t first_frame) noexcept nogil:
        """The next octets are at `offset`; the file's format remains."""
        self.offset = offset
        self.frames = first_frame - 1

    cdef bint is_unread(self):
        """Is this not a capture, or not in a supported format?"""
        cdef int reason = self.fault.reason
        return reason in (CAPTURE_NOT_A_CAPTURE, CAPTURE_EMPTY, CAPTURE_CUT_HEADER) or reason >= CAPTURE_FORMAT

    cdef str last_fault(self):
        """The last fault; None: there was none."""
        return (<bytes>capture_fault_text(self.fault.reason)).decode("ascii") if self.fault.reason else None

    cdef inline bint is_plain(self) noexcept nogil:
        """Is this a pcap file in the form that most have, after its header? Then plain_record may be called."""
        return self.stage == STAGE_PCAP and not (self.unsure or self.rule.big or self.rule.swapped_lengths)

    cdef inline size_t plain_record(self, const uint8_t* p, size_t n, PacketRecord* out) noexcept nogil:
        """Read the next record of `p[:n]` if it is whole and its sizes are possible. Returns its octets; 0: see next_record."""
        cdef size_t header = self.rule.header_size
        cdef uint32_t captured
        if n < header:
            return 0
        captured = load_u32_as(p + 8, False)
        out.original_size = load_u32_as(p + 12, False)
        if captured == 0 or captured > out.original_size or captured > MAX_RECORD or captured > n - header:
            return 0
        self.offset += <int64_t>(header + captured)
        self.found(p, load_u32_as(p, False), load_u32_as(p + 4, False), captured, out)
        return header + captured

    cdef inline void found(self, const uint8_t* p, uint32_t seconds, uint32_t fraction, uint32_t captured,
                           PacketRecord* out) noexcept nogil:
        """A record of a pcap file, without its size on the wire."""
        self.frames += 1
        out.ts_ns = self.last_ns = <int64_t>seconds * 1000000000 + <int64_t>fraction * self.to_ns
        out.frame_no = self.frames
        out.data = p + self.rule.header_size
        out.captured_size = captured
        out.link_type = self.link_type

    cdef int next_record(self, const uint8_t* p, size_t n, bint last, size_t* used, PacketRecord* out) noexcept nogil:
        """Read the next record of `p[:n]`. Returns a Read. `last`: the file ends with `p[:n]`. `used`: octets no longer used."""
        cdef size_t at = 0
        cdef size_t step
        cdef int answer
        while True:
            step = 0
            if self.stage == STAGE_PCAP:
                answer = self.pcap_record(p + at, n - at, last, &step, out)
            elif self.stage == STAGE_PCAPNG:
                answer = self.pcapng_block(p + at, n - at, last, &step, out)
            elif self.stage == STAGE_SEARCH:
                answer = self.search(p + at, n - at, last, &step)
            elif self.stage == STAGE_MAGIC:
                answer = self.file_header(p + at, n - at, last, &step)
            else:
                used[0] = at
                return READ_END
            at += step
            self.offset += <int64_t>step
            if answer < 0:              # nothing to return yet
                continue
            if answer == READ_FAULT:
                self.faults += 1
                if self.faults > MAX_FAULTS:
                    continue
            used[0] = at
            return answer

    cdef int failed(self, int reason, int stage) noexcept nogil:
        self.fault.reason = reason
        self.fault.offset = self.offset
        self.fault.frame_no = self.frames
        self.stage = <uint8_t>stage
        return READ_FAULT

    cdef int file_header(self, const uint8_t* p, size_t n, bint last, size_t* used) noexcept nogil:
        cdef uint32_t magic
        cdef bint big
        if n < 4:
            if not last:
                return READ_NEED
            return self.failed(CAPTURE_EMPTY if n == 0 else CAPTURE_CUT_HEADER, STAGE_END)
        magic = load_u32(p)
        if magic == BLOCK_SECTION:
            self.rule.blocks = True
            self.stage = STAGE_PCAPNG
            return -1
        self.rule.blocks = False
        for big in (True, False):
            magic = load_u32_as(p, big)
            self.rule.big = big
            if magic == 0xA1B2C3D4U:                             # microseconds
                self.unsure = True
                return self.pcap_header(p, n, last, used, 1000, 16, 24)
            if magic == 0xA1B23C4DU:                             # nanoseconds
                return self.pcap_header(p, n, last, used, 1, 16, 24)
            if magic == 0xA1B2CD34U:                             # Kuznetzov's: eight more octets a record
                return self.pcap_header(p, n, last, used, 1000, LONG_HEADER, 24)
            if magic == 0x1C0001AC or magic == 0x1C0001AB:      # IXIA's: nanoseconds, four more octets of header
                return self.pcap_header(p, n, last, used, 1, 16, 28)
        if n < FORMAT_WINDOW and not last:
            return READ_NEED
        return self.failed(unread_format(p, min(n, <size_t>FORMAT_WINDOW), last and n <= FORMAT_WINDOW), STAGE_END)

    cdef int pcap_header(self, const uint8_t* p, size_t n, bint last, size_t* used,
                         uint32_t to_ns, uint8_t record_header, size_t size) noexcept nogil:
        cdef uint16_t major, minor
        if n < size:
            return self.failed(CAPTURE_CUT_HEADER, STAGE_END) if last else READ_NEED
        major = load_u16_as(p + 4, self.rule.big)
        minor = load_u16_as(p + 6, self.rule.big)
        if major > 2 and major != 543:                  # 543: some Digital Unix systems
            return self.failed(CAPTURE_BAD_VERSION, STAGE_END)
        # time zone, accuracy and snapshot length are not used; the last is often wrong
        self.link_type = self.narrow_link_type(load_u32_as(p + 20, self.rule.big) & 0x03FFFFFF)
        self.rule.swapped_lengths = (major == 2 and minor < 3) or major == 543
        self.rule.header_size = record_header
        self.rule.fraction_limit = 1000000 if to_ns == 1000 else 1000000000
        self.to_ns = to_ns
        self.stage = STAGE_PCAP
        used[0] = size
        return -1

    cdef uint16_t narrow_link_type(self, uint32_t link_type) noexcept nogil:
        return <uint16_t>(link_type if link_type < 0xFFFF else 0xFFFF)

    cdef int pcap_record(self, const uint8_t* p, size_t n, bint last, size_t* used, PacketRecord* out) noexcept nogil:
        cdef bint big = self.rule.big
        cdef size_t header = self.rule.header_size
        cdef uint32_t captured, original, seconds, fraction, other
        if n < header:
            if not last:
                return READ_NEED
            if n == 0:
                self.stage = STAGE_END
                return READ_END
            used[0] = n
            return self.failed(CAPTURE_CUT_RECORD, STAGE_END)
        seconds = load_u32_as(p, big)
        fraction = load_u32_as(p + 4, big)
        captured = load_u32_as(p + 8, big)
        original = load_u32_as(p + 12, big)
        if self.rule.swapped_lengths:
            other = captured
            captured = original
            original = other
        if captured > MAX_RECORD:
            return self.failed(CAPTURE_BAD_RECORD, STAGE_SEARCH)
        if (captured | original | seconds | fraction) == 0:
            return self.failed(CAPTURE_ZEROS, STAGE_SEARCH)
        if captured > original and fraction >= self.rule.fraction_limit:
            return self.failed(CAPTURE_BAD_RECORD, STAGE_SEARCH)
        if self.unsure:
            if not last and n < 2 * LONG_HEADER + captured:
                return READ_NEED
            if not self.settle_header(p, n, last):
                return READ_NEED
            self.unsure = False
            header = self.rule.header_size
        if n - header < captured or n < header:
            if not last:
                return READ_NEED
            # a damaged length may point past the end of the file, and valid records may follow it
            return self.failed(CAPTURE_CUT_RECORD, STAGE_SEARCH)
        self.found(p, seconds, fraction, captured, out)
        out.original_size = original
        used[0] = header + captured
        return READ_RECORD

    cdef bint settle_header(self, const uint8_t* p, size_t n, bint last) noexcept nogil:
        """The libpcap of Red Hat 6.1 wrote Kuznetzov's records with the usual magic number: the positions of the next records
        tell them apart. False: more octets are needed."""
        cdef ChainRule loose = self.rule, longer = self.rule
        cdef int short_chain, long_chain
        loose.fraction_limit = 0xFFFFFFFFU              # some programs write fractions of a second and more
        longer.header_size = LONG_HEADER
        if chain_follows(&self.rule, p, n, last, 1) == YES:
            return True
        short_chain = chain_follows(&loose, p, n, last, SETTLED)
        long_chain = chain_follows(&longer, p, n, last, SETTLED)
        if short_chain == NO and long_chain == YES:
            self.rule.header_size = LONG_HEADER
        return short_chain == YES or long_chain == NO or self.rule.header_size == LONG_HEADER or n >= SETTLE_WINDOW

    cdef int search(self, const uint8_t* p, size_t n, bint last, size_t* used) noexcept nogil:
        """Skip octets until a chain of records begins. The octet after the fault is the first candidate."""
        cdef int64_t found
        cdef size_t window = n if n < CHAIN_WINDOW else CHAIN_WINDOW
        cdef size_t passed
        cdef bint at_end = last and n <= CHAIN_WINDOW
        if n <= CHAIN_WINDOW and not last:      # one octet more than the window, so that results do not depend on chunks
            return READ_NEED
        if self.alive == NULL:
            self.alive = <uint8_t*>malloc(CHAIN_WINDOW)
        if self.alive == NULL or n == 0:
            used[0] = n
            self.stage = STAGE_END
            return -1
        found = chain_start(&self.rule, p + 1, window - 1, at_end, self.alive, self.offset + 1)
        if found >= 0:
            used[0] = 1 + <size_t>found
            self.stage = STAGE_PCAPNG if self.rule.blocks else STAGE_PCAP
        elif at_end:
            used[0] = n
            self.stage = STAGE_END
        else:
            passed = window - MAX_BLOCK - 32       # records near the end of the window cannot be decided
            used[0] = passed
        return -1

    cdef int pcapng_block(self, const uint8_t* p, size_t n, bint last, size_t* used, PacketRecord* out) noexcept nogil:
        cdef uint32_t kind, size
        if self.skip:
            used[0] = n if n < self.skip else <size_t>self.skip
            self.skip -= used[0]
            if self.secrets_left:
                self.pass_secrets(p, used[0])
            if self.skip == 0:
                return -1
            return self.failed(CAPTURE_CUT_RECORD, STAGE_END) if last else READ_NEED
        if n < 12:
            if not last:
                return READ_NEED
            if n == 0:
                self.stage = STAGE_END
                return READ_END
            used[0] = n
            return self.failed(CAPTURE_CUT_RECORD, STAGE_END)
        kind = load_u32_as(p, self.rule.big)
        if kind == BLOCK_SECTION:
            if load_u32(p + 8) == BYTE_ORDER_MAGIC:
                self.rule.big = True
            elif load_u32_as(p + 8, False) == BYTE_ORDER_MAGIC:
                self.rule.big = False
            else:
                return self.failed(CAPTURE_BAD_BYTE_ORDER, STAGE_SEARCH)
        size = load_u32_as(p + 4, self.rule.big)
        if size < 12 or size & 3 or size > <uint32_t>(MAX_SECRETS_BLOCK if kind == BLOCK_SECRETS else MAX_SKIPPED_BLOCK):
            return self.failed(CAPTURE_BLOCK_LENGTH, STAGE_SEARCH)
        if size > MAX_BLOCK:
            if kind == BLOCK_SECTION or kind <= BLOCK_ENHANCED_PACKET:
                return self.failed(CAPTURE_BLOCK_LENGTH, STAGE_SEARCH)
            self.skip = size
            if kind == BLOCK_SECRETS and self.secrets is not None and not self.foreign:
                if n < 16:
                    self.skip = 0
                    return self.failed(CAPTURE_CUT_RECORD, STAGE_SEARCH) if last else READ_NEED
                self.begin_secrets(p + 8, size - 12)
                used[0] = 16
                self.skip -= 16
            return -1
        if n < size:
            return self.failed(CAPTURE_CUT_RECORD, STAGE_SEARCH) if last else READ_NEED
        if load_u32_as(p + size - 4, self.rule.big) != size:
            return self.failed(CAPTURE_BLOCK_TRAILER, STAGE_SEARCH)
        return self.whole_block(kind, p + 8, size - 12, used, size, out)

    cdef int whole_block(self, uint32_t kind, const uint8_t* body, size_t n, size_t* used, size_t size,
                         PacketRecord* out) noexcept nogil:
        """A block whose two lengths agree: the position of the next block is known even after a fault within it."""
        cdef int reason = CAPTURE_OK
        cdef uint32_t interface
        used[0] = size
        if self.foreign and kind != BLOCK_SECTION:
            return -1
        if kind == BLOCK_ENHANCED_PACKET or kind == BLOCK_PACKET:
            if n < 20:
                return self.failed(CAPTURE_BAD_PACKET_BLOCK, STAGE_PCAPNG)
            if kind == BLOCK_ENHANCED_PACKET:
                interface = load_u32_as(body, self.rule.big)
            else:
                interface = load_u16_as(body, self.rule.big)        # drops count follows
            reason = self.packet(body + 20, n - 20, interface, load_u32_as(body + 12, self.rule.big),
                                 load_u32_as(body + 16, self.rule.big), out)
            if reason == CAPTURE_OK:
                out.ts_ns = self.last_ns = interface_time(
                    &self.interfaces[interface],
                    (<uint64_t>load_u32_as(body + 4, self.rule.big) << 32) | load_u32_as(body + 8, self.rule.big))
                return READ_RECORD
        elif kind == BLOCK_SIMPLE_PACKET:
            reason = self.simple_packet(body, n, out)
            if reason == CAPTURE_OK:
                return READ_RECORD
        elif kind == BLOCK_INTERFACE:
            reason = self.interface_description(body, n)
        elif kind == BLOCK_SECRETS:
            if self.secrets is not None and n >= 8:
                self.begin_secrets(body, n)
                self.pass_secrets(body + 8, n - 8)
        elif kind == BLOCK_SECTION:
            # section length and options are not used
            self.interface_count = 0
            self.foreign = n < 16 or load_u16_as(body + 4, self.rule.big) != 1
            if self.foreign:
                reason = CAPTURE_BAD_VERSION
        return self.failed(reason, STAGE_PCAPNG) if reason else -1

    cdef void begin_secrets(self, const uint8_t* body, size_t n) noexcept nogil:
        """The beginning of a secrets block with `n` octets: their type (4), their length (4)."""
        self.secrets_kind = load_u32_as(body, self.rule.big)
        self.secrets_left = min(<size_t>load_u32_as(body + 4, self.rule.big), n - 8)

    cdef void pass_secrets(self, const uint8_t* p, size_t n) noexcept with gil:
        """The next octets of a secrets block, and what fills it up."""
        n = min(n, <size_t>self.secrets_left)
        self.secrets_left -= n
        try:
            self.secrets.add(self.secrets_kind, PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n), self.secrets_left == 0)
        except Exception:                               # no memory: as a block that is not there
            self.secrets_left = 0

    cdef int packet(self, const uint8_t* data, size_t capacity, uint32_t interface, uint32_t captured, uint32_t original,
                    PacketRecord* out) noexcept nogil:
        if interface >= self.interface_count:
            return CAPTURE_BAD_INTERFACE
        if captured > capacity or captured > MAX_RECORD:
            return CAPTURE_BAD_PACKET_BLOCK
        self.frames += 1
        out.frame_no = self.frames
        out.data = data
        out.captured_size = captured
        out.original_size = original
        out.link_type = self.interfaces[interface].link_type
        return CAPTURE_OK

    cdef int simple_packet(self, const uint8_t* body, size_t n, PacketRecord* out) noexcept nogil:
        """Section 4.4: interface 0, no time. Captured: the least of the original, the snapshot length and the block's size."""
        cdef uint32_t original, captured
        if n < 4:
            return CAPTURE_BAD_PACKET_BLOCK
        if self.interface_count == 0:
            return CAPTURE_BAD_INTERFACE
        original = captured = load_u32_as(body, self.rule.big)
        if self.interfaces[0].snap_length and captured > self.interfaces[0].snap_length:
            captured = self.interfaces[0].snap_length
        if captured > n - 4:
            captured = <uint32_t>(n - 4)
        out.ts_ns = 0
        return self.packet(body + 4, n - 4, 0, captured, original, out)

    cdef int interface_description(self, const uint8_t* body, size_t n) noexcept nogil:
        cdef Interface* i
        cdef Interface* grown
        cdef uint32_t capacity
        cdef uint16_t code, size
        cdef size_t at = 8
        cdef int64_t seconds
        if n < 8:
            return CAPTURE_BAD_PACKET_BLOCK
        if self.interface_count == MAX_INTERFACES:
            return CAPTURE_TOO_MANY_INTERFACES
        if self.interface_count == self.interface_capacity:
            capacity = self.interface_capacity * 2 if self.interface_capacity else 4
            grown = <Interface*>realloc(self.interfaces, capacity * sizeof(Interface))
            if grown == NULL:
                return CAPTURE_TOO_MANY_INTERFACES
            self.interfaces = grown
            self.interface_capacity = capacity
        i = &self.interfaces[self.interface_count]
        self.interface_count += 1
        memset(i, 0, sizeof(Interface))
        i.link_type = load_u16_as(body, self.rule.big)
        i.snap_length = load_u32_as(body + 4, self.rule.big)
        set_resolution(i, 6)
        while n - at >= 4:                      # options, section 3.5
            code = load_u16_as(body + at, self.rule.big)
            size = load_u16_as(body + at + 2, self.rule.big)
            at += 4
            if code == 0 or size > n - at:
                break
            if code == 9 and size >= 1:         # if_tsresol
                set_resolution(i, body[at])
            elif code == 14 and size >= 8:      # if_tsoffset, seconds
                if self.rule.big:
                    seconds = <int64_t>load_u64(body + at)
                else:
                    seconds = <int64_t>((<uint64_t>load_u32_as(body + at + 4, False) << 32)
                                        | load_u32_as(body + at, False))
                if seconds > 9223372035LL:
                    seconds = 9223372035LL
                elif seconds < -9223372035LL:
                    seconds = -9223372035LL
                i.offset_ns = seconds * 1000000000
            at += (size + 3) & ~3
            if at > n:
                break
        return CAPTURE_OK
