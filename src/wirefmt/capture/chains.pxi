# Where a record of a capture file begins: from the beginning of a chain of plausible records that is longer than a packet can
# imitate.
cdef enum:
    MAX_BLOCK = MAX_RECORD + 65536  # of a pcapng block that is read; options may follow the packet
    CHAIN_SURVIVES = 255            # a chain that continues after the octets examined
    CHAIN_AT_END = 3                # at a file's end: two records, or three of which the last is truncated
    CHAIN_WINDOW = 2 * MAX_BLOCK    # octets examined together in a search for records; next_record never waits for more

# A section's blocks, by type (pcapng section 11.1); all other types are skipped
cdef enum:
    BLOCK_INTERFACE = 1
    BLOCK_PACKET = 2
    BLOCK_SIMPLE_PACKET = 3
    BLOCK_ENHANCED_PACKET = 6
    BLOCK_SECRETS = 10              # section 4.7
    BLOCK_SECTION = 0x0A0D0D0A
    BYTE_ORDER_MAGIC = 0x1A2B3C4D


cdef struct ChainRule:          # what a plausible record looks like
    bint blocks                 # pcapng
    bint big
    bint swapped_lengths        # pcap before version 2.3
    uint8_t header_size         # pcap: of a record
    uint32_t fraction_limit     # pcap: units in a second


cdef inline size_t chain_next(const ChainRule* c, const uint8_t* p, size_t n) noexcept nogil:
    """Size of the plausible record at `p`, of which `n` octets are available (at least a header); 0: it is not plausible.

    Stricter than reading is: a place to resume must look right in every field.
    """
    cdef uint32_t kind, size, captured, original
    if c.blocks:
        kind = load_u32_as(p, c.big)
        size = load_u32_as(p + 4, c.big)
        if kind == BLOCK_SECTION:           # may change the byte order
            if load_u32(p + 8) == BYTE_ORDER_MAGIC:
                size = load_u32(p + 4)
            elif load_u32_as(p + 8, False) == BYTE_ORDER_MAGIC:
                size = load_u32_as(p + 4, False)
            else:
                return 0
        elif kind == 0 or (kind > 0xFF and not kind & 0x80000000U and kind != 0xBAD and kind != 0x40000BAD):
            return 0
        if size < 12 or size & 3 or size > MAX_BLOCK:
            return 0
        if size <= n and memcmp(p + 4, p + size - 4, 4) != 0:
            return 0
        return size
    captured = load_u32_as(p + 8, c.big)
    original = load_u32_as(p + 12, c.big)
    if c.swapped_lengths:
        size = captured
        captured = original
        original = size
    if (captured == 0 or captured > MAX_RECORD or captured > original or original > 0x1000000
            or load_u32_as(p + 4, c.big) >= c.fraction_limit):
        return 0
    return c.header_size + captured


cdef int chain_follows(const ChainRule* c, const uint8_t* p, size_t n, bint last, int count) noexcept nogil:
    """Do `count` plausible records follow the one at `p`? A Verdict. `last`: nothing follows p[:n], and one that ends there is
    enough."""
    cdef size_t at = c.header_size + load_u32_as(p + (12 if c.swapped_lengths else 8), c.big)
    cdef size_t step
    cdef int i
    for i in range(count):
        if at + c.header_size > n:
            return MORE if not last else YES if at == n and i else NO
        step = chain_next(c, p + at, n - at)
        if step == 0:
            return NO
        at += step
    return YES


cdef int64_t chain_start(const ChainRule* c, const uint8_t* p, size_t n, bint last, uint8_t* alive, int64_t base) noexcept nogil:
    """Where the first record of `p[:n]` begins, or -1.

    A record is real if it begins a chain of records over more octets than one packet can have, because a chain of octets inside
    a packet ends with the packet. `last`: the file ends at `p + n`, where the chain may end, too.
    `alive` has space for `n` octets; `base` is the file offset of `p`: pcapng blocks lie on multiples of four.

    It takes linear time: from the end to the start, one octet for each offset has the length of the chain from there.
    """
    cdef size_t least = 12 if c.blocks else c.header_size
    cdef size_t step, at, following, span
    cdef int64_t found = -1
    if n < least:
        return -1
    span = MAX_BLOCK if c.blocks else MAX_RECORD + c.header_size
    at = n
    while at > 0:
        at -= 1
        alive[at] = 0
        if n - at < least or (c.blocks and (base + <int64_t>at) & 3):
            continue
        step = chain_next(c, p + at, n - at)
        if step == 0:
            continue
        following = at + step       # both below 2**32: cannot wrap
        if following < n and n - following >= least:
            alive[at] = alive[following] + (0 < alive[following] < CHAIN_SURVIVES)
        elif not last:
            alive[at] = CHAIN_SURVIVES
        else:                           # a record that ends with the file is better evidence than a truncated one
            alive[at] = 2 if following == n else 1
        if alive[at] >= CHAIN_AT_END if last else alive[at] == CHAIN_SURVIVES and n - at > span:
            found = <int64_t>at
    return found
