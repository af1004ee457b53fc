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
    static _Atomic size_t wirefmt_in_use;                   /* octets of columns, apart from blocks that are not kept */
    static atomic_flag wirefmt_pool_lock = ATOMIC_FLAG_INIT;

    static int wirefmt_lock(void) {
        return !atomic_flag_test_and_set_explicit(&wirefmt_pool_lock, memory_order_acquire);
    }
    static void wirefmt_unlock(void) {
        atomic_flag_clear_explicit(&wirefmt_pool_lock, memory_order_release);
    }
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
    static void wirefmt_count(size_t size, int more) {
        if (wirefmt_class(size))
            atomic_fetch_add_explicit(&wirefmt_in_use, wirefmt_capacity(size) * (size_t)more, memory_order_relaxed);
    }
    static void *wirefmt_pool_take(int n) {
        void *p = NULL;
        if (!wirefmt_lock()) return NULL;
        if (wirefmt_pool[n].count) {
            p = wirefmt_pool[n].blocks[--wirefmt_pool[n].count];
            wirefmt_pooled -= (size_t)1 << n;
        }
        wirefmt_unlock();
        return p;
    }
    static void wirefmt_release(void *p, size_t size) {
        int n = wirefmt_class(size);
        if (p != NULL) wirefmt_count(size, -1);
        if (n && p != NULL && wirefmt_lock()) {
            if (wirefmt_pool[n].count < POOL_BLOCKS && wirefmt_pooled + ((size_t)1 << n) <= POOL_OCTETS) {
                wirefmt_pool[n].blocks[wirefmt_pool[n].count++] = p;
                wirefmt_pooled += (size_t)1 << n;
                p = NULL;
            }
            wirefmt_unlock();
        }
        free(p);
    }
    static void *wirefmt_resize(void *p, size_t old, size_t size) {
        size_t capacity = wirefmt_capacity(size);
        int n = wirefmt_class(size), had = p != NULL;
        void *kept = NULL;
        if (p != NULL && capacity == wirefmt_capacity(old)) return p;
        if (n && (kept = wirefmt_pool_take(n)) != NULL) {
            wirefmt_count(size, 1);
            if (p != NULL) {
                memcpy(kept, p, old < size ? old : size);
                wirefmt_release(p, old);
            }
            return kept;
        }
        p = realloc(p, capacity);
        if (p == NULL) return NULL;
        wirefmt_count(size, 1);
        if (had) wirefmt_count(old, -1);
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (capacity > ((size_t)1 << POOL_HUGE)) {
            size_t edge = (4096 - ((size_t)p & 4095)) & 4095;
            (void)madvise((char *)p + edge, capacity - edge, MADV_HUGEPAGE);    /* advice: may fail, changes nothing */
        }
    #endif
        return p;
    }

    /* Batches that the program keeps. While columns have more than POOL_OCTETS, a finished batch moves to a part of a slab, of its
       exact size, and the next batch is filled in the same blocks. Slabs have huge pages: a fault for each 4 KiB of fresh memory
       costs several times as much as to decode what fills them, and to copy it to a huge page. A huge page that no batch uses any
       more is given back to the system, whole (what is left of one in part is small pages from then on), and a slab without
       batches is used again. */
    enum { SLAB_OCTETS = 32 << 20, SLAB_PAGES = SLAB_OCTETS >> POOL_HUGE, SLABS_MOST = 1024 };
    #if defined(__linux__) && defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
    static struct { char *at; size_t used; int parts, page_parts[SLAB_PAGES]; } wirefmt_slabs[SLABS_MOST];
    static int wirefmt_slab = -1;                           /* the one that new batches are in; -1: none */

    static int wirefmt_slab_new(void) {                     /* -1: no memory, or too many */
        size_t edge;
        char *p;
        int k = 0;
        while (k < SLABS_MOST && wirefmt_slabs[k].parts) k++;
        if (k == SLABS_MOST) return -1;
        wirefmt_slabs[k].used = 0;
        if (wirefmt_slabs[k].at != NULL) return k;
        p = mmap(NULL, SLAB_OCTETS + ((size_t)1 << POOL_HUGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return -1;
        edge = -(size_t)p & (((size_t)1 << POOL_HUGE) - 1);
        (void)madvise(p + edge, SLAB_OCTETS, MADV_HUGEPAGE);        /* advice: may fail, changes nothing */
        wirefmt_slabs[k].at = p + edge;
        return k;
    }
    static void wirefmt_slab_count(int k, size_t at, size_t size, int more) {
        size_t page;
        wirefmt_slabs[k].parts += more;
        for (page = at >> POOL_HUGE; page <= (at + size - 1) >> POOL_HUGE; page++)
            if ((wirefmt_slabs[k].page_parts[page] += more) == 0)
                (void)madvise(wirefmt_slabs[k].at + (page << POOL_HUGE), (size_t)1 << POOL_HUGE, MADV_DONTNEED);
    }
    static void *wirefmt_slab_take(size_t size, int *slab) {        /* NULL: the batch stays where it is */
        char *p = NULL;
        int k;
        if (atomic_load_explicit(&wirefmt_in_use, memory_order_relaxed) < POOL_OCTETS || size == 0 || size > SLAB_OCTETS / 2
            || !wirefmt_lock()) return NULL;
        k = wirefmt_slab;
        if (k < 0 || size > SLAB_OCTETS - wirefmt_slabs[k].used) k = wirefmt_slab_new();
        if (k >= 0) {
            wirefmt_slab = *slab = k;
            p = wirefmt_slabs[k].at + wirefmt_slabs[k].used;
            wirefmt_slab_count(k, wirefmt_slabs[k].used, size, 1);
            wirefmt_slabs[k].used += size;
            atomic_fetch_add_explicit(&wirefmt_in_use, size, memory_order_relaxed);
        }
        wirefmt_unlock();
        return p;
    }
    static void wirefmt_slab_release(void *p, size_t size, int k) {
        int tries = 0;
        atomic_fetch_sub_explicit(&wirefmt_in_use, size, memory_order_relaxed);
        while (!wirefmt_lock()) if (++tries == 10000) return;      /* locked permanently: the slab is not used again */
        wirefmt_slab_count(k, (size_t)((char *)p - wirefmt_slabs[k].at), size, -1);
        wirefmt_unlock();
    }
    #else
    static void *wirefmt_slab_take(size_t size, int *slab) { (void)size; (void)slab; return NULL; }
    static void wirefmt_slab_release(void *p, size_t size, int k) { (void)p; (void)size; (void)k; }
    #endif
    """
    void* resize_octets "wirefmt_resize"(void* p, size_t old, size_t size) noexcept nogil
    void release_octets "wirefmt_release"(void* p, size_t size) noexcept nogil
    size_t octets_capacity "wirefmt_capacity"(size_t size) noexcept nogil
    void* take_part "wirefmt_slab_take"(size_t size, int* slab) noexcept nogil
    void release_part "wirefmt_slab_release"(void* p, size_t size, int slab) noexcept nogil


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


cdef enum:
    TEXTS_MOST = 8192           # texts with a number: all that the codecs have, several times over


cdef Text[TEXTS_MOST] TEXTS     # by number
cdef int texts_count = 1        # number 0: none


cdef bint keep_numbers(Col* c, int64_t rows) noexcept nogil:
    """Memory for the numbers of at least `rows` texts. False: out of memory."""
    cdef int64_t kept = max(grown(c.shared, c.numbers_kept), rows, max(c.first_capacity, <int64_t>FIRST_CAPACITY))
    cdef size_t had = <size_t>c.numbers_kept * sizeof(uint16_t)
    if not resize(c, <void**>&c.numbers, had, <size_t>kept * sizeof(uint16_t)):
        return False
    memset(c.numbers + c.numbers_kept, 0, <size_t>(kept - c.numbers_kept) * sizeof(uint16_t))
    c.numbers_kept = kept
    return True


cdef void put_text_checked(Col* c, int64_t row, const Text* t) noexcept nogil:
    """put_text into a column that is not ready, or of a text without a number."""
    if t.number and c.kept == 0 and c.size == 0 and row >= c.rows and row < OFFSET_MAX - 8:
        if row < c.numbers_kept or keep_numbers(c, row + 1):
            c.numbers[row] = <uint16_t>t.number
            c.rows = row + 1
            c.used += t.size
            c.shared.octets += t.size
        return
    put_octets_checked(c, row, t.at, t.size)


cdef bint write_texts(Col* c) noexcept nogil:
    """Offsets and octets in place of the numbers of texts. False: out of memory, or more octets than a column can have; the
    column is then empty."""
    cdef uint16_t* numbers = c.numbers
    cdef int64_t rows = c.rows, octets = c.used, kept = c.numbers_kept
    cdef bint nulls = False, ok
    c.numbers = NULL
    c.numbers_kept = c.rows = c.used = 0
    if octets > OFFSET_MAX - TEXT_PAD:
        c.shared.full = True
    ok = not c.shared.full and keep_rows(c, rows) and grow_octets(c, octets + TEXT_PAD)
    if ok:
        if rows and memcmp(numbers, numbers + 1, <size_t>(rows - 1) * sizeof(uint16_t)) == 0:
            repeat_text(c, &TEXTS[numbers[0]], rows)
        else:
            nulls = copy_texts(c, numbers, rows)
        c.rows = rows
        c.used = octets
        c.capacity = c.kept
        ok = not nulls or resize(c, <void**>&c.validity, 0, validity_size(c.kept))
        if nulls and ok:
            memset(c.validity, 0, validity_size(c.kept))
            set_numbered(c.validity, numbers, rows)
    release_octets(numbers, <size_t>kept * sizeof(uint16_t))
    return ok


cdef inline bint copy_texts(Col* c, const uint16_t* numbers, int64_t rows) noexcept nogil:
    """The texts of these numbers. Returns whether one is null."""
    cdef uint8_t* to = c.data
    cdef int32_t* offsets = c.offsets
    cdef int64_t i, used = 0
    cdef bint nulls = False
    cdef const Text* t
    for i in range(rows):
        t = &TEXTS[numbers[i]]
        nulls |= numbers[i] == 0
        memcpy(to + used, t.at, TEXT_PAD)       # a fixed number of octets; the next text overwrites the surplus
        if t.size > TEXT_PAD:
            memcpy(to + used + TEXT_PAD, t.at + TEXT_PAD, <size_t>(t.size - TEXT_PAD))
        used += t.size
        offsets[i + 1] = <int32_t>used
    return nulls


cdef inline void repeat_text(Col* c, const Text* t, int64_t rows) noexcept nogil:
    """The same text in all rows."""
    cdef int32_t* offsets = c.offsets
    cdef int32_t size = t.size
    cdef size_t done = <size_t>size, octets = <size_t>(rows * size)
    cdef int64_t i
    memcpy(c.data, t.at, done)
    while done < octets:
        memcpy(c.data + done, c.data, min(done, octets - done))
        done += min(done, octets - done)
    for i in range(rows + 1):
        offsets[i] = <int32_t>(i * size)


cdef inline void set_numbered(uint8_t* validity, const uint16_t* numbers, int64_t rows) noexcept nogil:
    """The bits of rows with a number."""
    cdef int64_t i
    for i in range(rows):
        validity[i >> 3] |= <uint8_t>((numbers[i] != 0) << (i & 7))


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
    if c.numbers != NULL and not write_texts(c):
        return False
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
    if c.numbers != NULL and not write_texts(c):
        return False
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
    if not c.on or row < c.rows or (c.numbers != NULL and not write_texts(c)) or (row > c.rows and not fill_nulls(c, row)):
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
    if c.numbers != NULL and not write_texts(c):
        return 0
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
    cdef int64_t size
    cdef void* p
    if c.numbers != NULL:
        if not write_texts(c):
            return False
        if n <= c.size - c.used:
            return True
    size = max(grown(c.shared, c.size), c.used + n, max(c.first_size, <int64_t>FIRST_OCTETS))
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
        if c.rows == 0 or c.numbers != NULL:
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
    global texts_count
    cdef Text t
    cdef uint8_t* copy = <uint8_t*>calloc(1, <size_t>len(octets) + TEXT_PAD)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, PyBytes_AS_STRING(octets), <size_t>len(octets))
    t.at = copy
    t.size = <int32_t>len(octets)
    t.number = 0
    if texts_count < TEXTS_MOST:
        t.number = texts_count
        TEXTS[texts_count] = t
        texts_count += 1
    return t


cdef Text NO_TEXT = pad_text(b"")
TEXTS[0] = NO_TEXT              # under nulls
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
