# Columns while they are built, row by row and without the GIL: their memory, space for rows and octets, nulls, texts.
#
# A column without values costs nothing per row: each put names its row, and the later of two puts fills in the nulls
# between them. The puts themselves are in columns_head.pxi. arrow.pxi has the types, and the finished batches.
from libc.stdio cimport snprintf

cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #include <stdatomic.h>
    /* Buffers of columns. Fresh memory costs page faults, and consecutive batches have similar sizes, so freed blocks of at most
       2^POOL_MOST are kept for the next batch, up to POOL_OCTETS. Blocks larger than 2^POOL_HUGE use huge pages: a batch of 20,000
       rows takes more pages than the processor knows the places of. Blocks come from malloc: `size` is the requested size,
       wirefmt_capacity(size) the allocated size. The pool is never waited for: if it is locked (by another thread, or permanently
       in a process that was forked while it was locked), malloc serves. */
    enum { POOL_LEAST = 14, POOL_HUGE = 21, POOL_MOST = 23, POOL_BLOCKS = 128, POOL_OCTETS = 64 << 20 };  /* classes of 2^n octets */
    static struct { int count; void *blocks[POOL_BLOCKS]; } wirefmt_pool[POOL_MOST + 1];
    static size_t wirefmt_pooled;
    static atomic_flag wirefmt_pool_lock = ATOMIC_FLAG_INIT;

    static int wirefmt_class(size_t size) {                 /* 0: not kept */
        int n = POOL_LEAST;
    #if !defined(__SANITIZE_ADDRESS__)
        if (size > ((size_t)1 << (POOL_LEAST - 1)) && size <= ((size_t)1 << POOL_MOST)) {
            while (((size_t)1 << n) < size) n++;
            return n;
        }
    #endif
        return 0;
    }
    static size_t wirefmt_capacity(size_t size) {
        int n = wirefmt_class(size);
        return n ? (size_t)1 << n : size;
    }
    static void *wirefmt_pool_take(int n) {
        void *p = NULL;
        if (atomic_flag_test_and_set_explicit(&wirefmt_pool_lock, memory_order_acquire)) return NULL;
        if (wirefmt_pool[n].count) {
            p = wirefmt_pool[n].blocks[--wirefmt_pool[n].count];
            wirefmt_pooled -= (size_t)1 << n;
        }
        atomic_flag_clear_explicit(&wirefmt_pool_lock, memory_order_release);
        return p;
    }
    static void wirefmt_release(void *p, size_t size) {
        int n = wirefmt_class(size);
        if (n && p != NULL && !atomic_flag_test_and_set_explicit(&wirefmt_pool_lock, memory_order_acquire)) {
            if (wirefmt_pool[n].count < POOL_BLOCKS && wirefmt_pooled + ((size_t)1 << n) <= POOL_OCTETS) {
                wirefmt_pool[n].blocks[wirefmt_pool[n].count++] = p;
                wirefmt_pooled += (size_t)1 << n;
                p = NULL;
            }
            atomic_flag_clear_explicit(&wirefmt_pool_lock, memory_order_release);
        }
        free(p);
    }
    static void *wirefmt_resize(void *p, size_t old, size_t size) {
        size_t capacity = wirefmt_capacity(size);
        int n = wirefmt_class(size);
        void *kept = NULL;
        if (p != NULL && capacity == wirefmt_capacity(old)) return p;
        if (n && (kept = wirefmt_pool_take(n)) != NULL) {
            if (p != NULL) {
                memcpy(kept, p, old < size ? old : size);
                wirefmt_release(p, old);
            }
            return kept;
        }
        p = realloc(p, capacity);
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (p != NULL && capacity > ((size_t)1 << POOL_HUGE)) {
            size_t edge = (4096 - ((size_t)p & 4095)) & 4095;
            (void)madvise((char *)p + edge, capacity - edge, MADV_HUGEPAGE);    /* advice: may fail, changes nothing */
        }
    #endif
        return p;
    }
    """
    void* resize_octets "wirefmt_resize"(void* p, size_t old, size_t size) noexcept nogil
    void release_octets "wirefmt_release"(void* p, size_t size) noexcept nogil
    size_t octets_capacity "wirefmt_capacity"(size_t size) noexcept nogil


cdef inline size_t data_size(const Col* c, int64_t rows) noexcept nogil:
    """Size of `data` for `rows` rows of every kind but KIND_OCTETS."""
    return <size_t>(rows * c.width if c.kind == KIND_FIXED else (rows + 7) >> 3)


cdef inline size_t validity_size(int64_t rows) noexcept nogil:
    return <size_t>((rows + 7) >> 3)


cdef inline size_t offsets_size(int64_t rows) noexcept nogil:
    """One more than rows, and what at_row writes too much."""
    return <size_t>(rows + SHORT_GAP) * sizeof(int32_t)


cdef enum:
    GROWTH_EARLY = 1 << 18      # a column with less space than this grows four times: memory that is not written costs nothing
    GROWTH_MOST = 8             # a column grows to at most so many times its space, so that a dense beginning costs little
    CLEARED = 1024              # rows whose values are set to zero at a time


cdef inline int64_t grown(const ColumnsShared* t, int64_t capacity) noexcept nogil:
    """The capacity after `capacity` is filled: a multiple, or what the rest of the input will need if it is like the part before."""
    if t.read == 0:
        return capacity * (4 if capacity < GROWTH_EARLY else 2)
    if t.whole // t.read < 2:
        return 2 * capacity
    return capacity * min(t.whole // t.read + 1, <int64_t>GROWTH_MOST)


cdef inline bint resize(Col* c, void** block, size_t old, size_t size) noexcept nogil:
    """Allocate or resize one of the column's buffers. False: out of memory."""
    cdef void* p = resize_octets(block[0], old, size)
    if p == NULL:
        c.shared.no_memory = True
        return False
    block[0] = p
    return True


cdef bint keep_rows(Col* c, int64_t rows) noexcept nogil:
    """Memory for at least `rows` rows. False: out of memory."""
    cdef int64_t kept = max(grown(c.shared, c.kept), rows, max(c.first_capacity, <int64_t>FIRST_CAPACITY))
    if rows > OFFSET_MAX - 8:
        c.shared.full = True
        return False
    kept = min(kept, <int64_t>OFFSET_MAX - 8)
    if c.kind == KIND_FIXED or c.kind == KIND_BOOL:
        if not resize(c, <void**>&c.data, data_size(c, c.kept), data_size(c, kept)):
            return False
        if c.kind == KIND_BOOL:
            memset(c.data + data_size(c, c.kept), 0, data_size(c, kept) - data_size(c, c.kept))
    elif c.kind != KIND_STRUCT:
        if not resize(c, <void**>&c.offsets, offsets_size(c.kept), offsets_size(kept)):
            return False
        if c.kept == 0:
            c.offsets[0] = 0
    if c.validity != NULL:
        if not resize(c, <void**>&c.validity, validity_size(c.kept), validity_size(kept)):
            return False
        memset(c.validity + validity_size(c.kept), 0, validity_size(kept) - validity_size(c.kept))
    c.kept = kept
    return True


cdef bint grow_rows(Col* c, int64_t rows) noexcept nogil:
    """Space for at least `rows` rows. False: out of memory."""
    cdef int64_t capacity
    if rows > c.kept and not keep_rows(c, rows):
        return False
    capacity = c.kept
    if c.kind == KIND_FIXED and c.validity != NULL:
        # what lies under nulls is zero, at no cost per row; a step's zeros are still in the cache when values replace them
        capacity = min(max(rows, c.capacity + CLEARED), capacity)
        memset(c.data + data_size(c, c.capacity), 0, data_size(c, capacity) - data_size(c, c.capacity))
    c.capacity = capacity
    return True


cdef bint fill_nulls(Col* c, int64_t rows) noexcept nogil:
    """Nulls up to `rows` rows."""
    cdef int32_t* offsets
    cdef int32_t last
    cdef int64_t i
    if rows > c.kept and not keep_rows(c, rows):
        return False
    if c.validity == NULL:
        if not resize(c, <void**>&c.validity, 0, validity_size(c.kept)):
            return False
        memset(c.validity, 0, validity_size(c.kept))
        memset(c.validity, 0xFF, <size_t>(c.rows >> 3))
        if c.rows & 7:
            c.validity[c.rows >> 3] = <uint8_t>((1 << (c.rows & 7)) - 1)
        c.capacity = c.rows
    if rows > c.capacity and not grow_rows(c, rows):
        return False
    if c.kind == KIND_OCTETS or c.kind == KIND_LIST:
        offsets = c.offsets
        last = offsets[c.rows]
        i = c.rows + 1
        while i <= rows:                    # later puts overwrite the surplus, for which there is memory
            offsets[i] = offsets[i + 1] = offsets[i + 2] = offsets[i + 3] = last
            i += 4
    c.rows = rows
    return True


cdef bint reach_row(Col* c, int64_t row) noexcept nogil:
    """Make `row` the next row to fill, of any column, which may have to grow. False: it is off, or out of memory."""
    if not c.on or row < c.rows or (row > c.rows and not fill_nulls(c, row)):
        return False
    if row == c.capacity and not grow_rows(c, row + 1):
        return False
    if c.validity != NULL:
        set_bit(c.validity, row)
    c.rows = row + 1
    return True


cdef int64_t begin_run(Col* c, int64_t row) noexcept nogil:
    """Make `row` the next row to fill. Returns the number of rows from it on for which there is space; 0: none, out of memory."""
    if not c.on:
        return OFFSET_MAX
    if row < c.rows or (row > c.rows and not fill_nulls(c, row)) or (row >= c.capacity and not grow_rows(c, row + 1)):
        return 0
    return c.capacity - row


cdef void end_run(Col* c, int64_t row) noexcept nogil:
    """The caller has written the values of all rows before `row`."""
    cdef int64_t i = c.rows
    if not c.on:
        return
    c.rows = row
    if c.validity == NULL:
        return
    while i < row and i & 7:
        set_bit(c.validity, i)
        i += 1
    memset(c.validity + (i >> 3), 0xFF, <size_t>((row - i) >> 3))
    i += (row - i) & ~<int64_t>7
    while i < row:
        set_bit(c.validity, i)
        i += 1


cdef bint grow_octets(Col* c, int64_t n) noexcept nogil:
    cdef int64_t size = max(grown(c.shared, c.size), c.used + n, max(c.first_size, <int64_t>FIRST_OCTETS))
    cdef void* p
    if n > OFFSET_MAX - c.used:
        c.shared.full = True
        return False
    size = min(size, <int64_t>OFFSET_MAX)   # so that no offset exceeds it
    p = resize_octets(c.data, <size_t>c.size, <size_t>size)
    if p == NULL:
        c.shared.no_memory = True
        return False
    c.data = <uint8_t*>p
    c.size = <int64_t>octets_capacity(<size_t>size)
    return True


cdef void put_octets_checked(Col* c, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
    """put_octets of a long string, or into a column that is not ready: it must grow, or has nulls to fill in."""
    if (n > c.size - c.used and not grow_octets(c, n)) or not at_row(c, row):
        return
    copy_octets(c.data + c.used, p, <size_t>n)
    c.used += n
    c.shared.octets += n
    c.offsets[row + 1] = <int32_t>c.used


cdef MapWriter add_entry_checked(MapWriter w, const uint8_t* k, int64_t kn, const uint8_t* v, int64_t vn) noexcept nogil:
    """add_entry without space, or in columns with nulls. The writer is passed and returned as a value: its address would keep the
    compiler from holding its members in registers."""
    end_map(&w)
    put_map(w.map, w.row, k, kn, v, vn)
    begin_map(&w, w.map, w.row, w.ahead + AHEAD_OCTETS if w.ahead != NULL else NULL)
    return w


cdef bint reserve(Col* c, int64_t rows, int64_t octets) noexcept nogil:
    """Make space for `rows` rows and `octets` octets at once. Pages that are not written cost nothing."""
    if not c.on:
        return True
    return ((rows <= c.capacity or grow_rows(c, rows))
            and (octets <= c.size - c.used or c.kind != KIND_OCTETS or grow_octets(c, octets)))


cdef enum:
    ROWS_AHEAD = 64             # rows that are prefetched at a time
    OCTETS_AHEAD = 8192         # octets of a buffer that are: the processor foresees by itself what long values take


cdef inline void prefetch_after(const void* p, size_t used, double part) noexcept nogil:
    prefetch_ahead(p, used, min(<size_t>(<double>used * part), <size_t>OCTETS_AHEAD))


cdef void prefetch_columns(const Col* c, int count, double part) noexcept nogil:
    """Prefetch where the next rows of columns will be written. They are `part` of the rows so far, and taken to be like them."""
    cdef const Col* end = c + count
    while c < end:
        if c.rows == 0:
            pass
        elif c.kind == KIND_STRUCT:
            prefetch_columns(c.children, c.children_count, part)
        elif c.kind == KIND_FIXED:
            if c.validity == NULL:          # grow_rows writes the zeros of other columns in steps
                prefetch_after(c.data, <size_t>(c.rows * c.width), part)
        elif c.kind != KIND_BOOL:
            prefetch_after(c.offsets, <size_t>c.rows * sizeof(int32_t), part)
            if c.kind == KIND_LIST:
                prefetch_columns(c.children, c.children_count, part)
            else:
                prefetch_after(c.data, <size_t>c.used, part)
        c += 1


cdef Text pad_text(bytes octets):
    """A Text that is never freed: for tables of names."""
    cdef Text t
    cdef uint8_t* copy = <uint8_t*>calloc(1, <size_t>len(octets) + TEXT_PAD)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, PyBytes_AS_STRING(octets), <size_t>len(octets))
    t.at = copy
    t.size = len(octets)
    return t


cdef Text NO_TEXT = pad_text(b"")
cdef Text SECRET_SHOWN_TEXT = pad_text(SECRET_SHOWN_OCTETS)       # in place of a secret


cdef void text_or_hex(const Span* octets, uint8_t* scratch, Span* out) noexcept nogil:
    """The text of octets in a column of text: the octets if they are UTF-8, otherwise hex_text of them in `scratch` (HEX_ROOM).
    `out` may be `octets`."""
    cdef size_t bad = 0
    if check_utf8(octets.at, octets.size, &bad) == UTF8_OK:
        out[0] = octets[0]
        return
    out.size = hex_text(octets.at, octets.size, scratch)
    out.at = scratch


cdef uint32_t hex_text(const uint8_t* p, uint32_t size, uint8_t* scratch) noexcept nogil:
    """Write the first HEX_OCTETS octets in hexadecimal to `scratch` (HEX_ROOM), and the number of all if there are more: "00ff...
    (1024 of 5000 bytes)". Returns the size of the text."""
    cdef uint32_t n = min(size, <uint32_t>HEX_OCTETS)
    write_hex(p, n, scratch)
    if n == size:
        return 2 * n
    return 2 * n + <uint32_t>snprintf(<char*>scratch + 2 * n, <size_t>HEX_SIZE - 2 * n, "... (%u of %u bytes)", n, size)
