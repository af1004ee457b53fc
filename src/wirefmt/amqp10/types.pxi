# AMQP 1.0, part 1: the type system over octets. amqp10_check checks a value once; later reads need no checks.
#
# OASIS AMQP 1.0, part 1  https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-types-v1.0-os.html
#
# A value is a constructor and its content. A constructor is one octet, or 0x00, a descriptor (any value) and another
# constructor. An array has one constructor for all its elements, which are contents only. Every function below
# with a parameter for a constructor therefore also has one for the content.
#
# Nothing here makes Python objects or allocates, except to sort the keys of large maps, which finds equal ones.
from libc.stdlib cimport qsort


cdef struct Amqp10Reader:       # state shared by the checking functions
    const Amqp10Options* o
    Fault* f
    const uint8_t* base         # start of the frame, message or value, for offsets
    uint64_t elements
    int field, index            # where the reader is, for paths
    int bound                   # FIELDS row of what limits the whole
    Notes notes


# ------------------------------------------------------------------------------------------------ faults and notes

cdef const uint8_t* amqp10_fault(Amqp10Reader* x, int check, const uint8_t* at, int64_t need, int64_t have) noexcept nogil:
    """Fill the reader's fault. NULL, so that `return amqp10_fault(...)` ends a checking function."""
    fault(x.f, amqp10_checks[check].status, check, x.field, <int64_t>(at - x.base), need, have,
          x.bound if need else 0)
    x.f.index = x.index
    return NULL


cdef inline const uint8_t* amqp10_cut(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, uint64_t need) noexcept nogil:
    return amqp10_fault(x, AMQP10_CHECK_TRUNCATED, at, <int64_t>need, <int64_t>(end - at))


cdef bint amqp10_violation(Amqp10Reader* x, int check, const uint8_t* at) noexcept nogil:
    """Report a violation at `at`. False: LAX noted it, continue."""
    cdef const Amqp10CheckRow* row = &amqp10_checks[check]
    return violation(&x.o.common, &x.notes, x.f, row.status, row.lax, check, x.field, x.index, <int64_t>(at - x.base)) != OK


cdef inline bint amqp10_count_elements(Amqp10Reader* x, uint32_t count, const uint8_t* at) noexcept nogil:
    x.elements += count
    if x.o.common.max_elements and x.elements > x.o.common.max_elements:
        amqp10_fault(x, AMQP10_CHECK_ELEMENTS, at, <int64_t>x.elements, x.o.common.max_elements)
        return False
    return True


cdef inline void amqp10_begin(Amqp10Reader* x, const uint8_t* base, const Amqp10Options* o, Fault* f) noexcept nogil:
    memset(x, 0, sizeof(Amqp10Reader))
    x.o = o
    x.f = f
    x.base = base
    x.index = -1


# ------------------------------------------------------------------------------------------------ checking

cdef inline const uint8_t* amqp10_plain(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """What follows the value at `at`, if it is one that no rule can object to: a number, a binary, a text that is ASCII.
    NULL: amqp10_check is to be asked."""
    cdef const Amqp10ConstructorRow* row
    cdef uint32_t size
    cdef uint8_t code
    if at >= end:
        return NULL
    code = at[0]
    # Branches on the usual constructors are predicted; the processor would wait for what a row says.
    if AMQP10_CODE_NULL <= code <= AMQP10_CODE_ULONG0:
        return at + 1
    if end - at < 2:
        return NULL
    if AMQP10_CODE_UBYTE <= code <= AMQP10_CODE_SMALLLONG:
        return at + 2
    if code == AMQP10_CODE_STR8 or code == AMQP10_CODE_SYM8:
        return amqp10_plain_text(at, end)
    row = &amqp10_constructors[code]
    if end - at <= row.width:
        return NULL
    if row.category == AMQP10_CATEGORY_FIXED:
        if code == AMQP10_CODE_BOOLEAN or code == AMQP10_CODE_CHAR or code == AMQP10_CODE_LIST0:
            return NULL
        return at + 1 + row.width
    if row.category != AMQP10_CATEGORY_VARIABLE:
        return NULL
    size = at[1] if row.width == 1 else load_u32(at + 1)
    at += 1 + row.width
    if end - at < size or (row.type != AMQP10_BINARY and not is_ascii(at, size)):
        return NULL
    return at + size


cdef inline const uint8_t* amqp10_plain_text(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """amqp10_plain of a string or symbol with one octet of size, of which at least two octets are before `end`."""
    cdef size_t size = at[1]
    at += 2
    return at + size if <size_t>(end - at) >= size and is_ascii(at, size) else NULL


cdef const uint8_t* amqp10_check(Amqp10Reader* x, const uint8_t* at, const uint8_t* end, int depth) noexcept nogil:
    """Check the value at `at`, whose bound is `end`. Returns where the next one begins; NULL: see x.f."""
    if at < end and at[0] != 0:
        return amqp10_check_content(x, at[0], at + 1, end, depth)
    at = amqp10_check_descriptors(x, at, end, &depth)
    if at == NULL:
        return NULL
    return amqp10_check_content(x, at[0], at + 1, end, depth)


cdef const uint8_t* amqp10_check_descriptors(Amqp10Reader* x, const uint8_t* at, const uint8_t* end,
                                             int* depth) noexcept nogil:
    """Skip descriptors. Returns the position of the octet that has the encoding of the content."""
    while at < end:
        if at[0] != 0:
            return at
        depth[0] += 1
        if depth[0] > AMQP10_NESTING_MAX:
            return amqp10_fault(x, AMQP10_CHECK_NESTING, at, depth[0], AMQP10_NESTING_MAX)
        at = amqp10_check(x, at + 1, end, depth[0])
        if at == NULL:
            return NULL
    return amqp10_cut(x, at, end, 1)


cdef const uint8_t* amqp10_check_content(Amqp10Reader* x, uint8_t code, const uint8_t* at, const uint8_t* end,
                                         int depth) noexcept nogil:
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[code]
    cdef size_t size
    if <size_t>(end - at) < row.width:
        return amqp10_cut(x, at, end, row.width)
    if row.category == AMQP10_CATEGORY_FIXED:
        if code == AMQP10_CODE_BOOLEAN or code == AMQP10_CODE_CHAR:
            return amqp10_check_scalar(x, code, at)
        return at + row.width
    if row.category == 0:
        return amqp10_fault(x, AMQP10_CHECK_CONSTRUCTOR, at - 1, 0, 0)
    size = at[0] if row.width == 1 else load_u32(at)
    at += row.width
    if <size_t>(end - at) < size:
        return amqp10_cut(x, at, end, size)
    if row.type == AMQP10_BINARY:
        return at + size
    if row.category == AMQP10_CATEGORY_VARIABLE:
        return amqp10_check_characters(x, row.type, at, at + size)
    if depth >= AMQP10_NESTING_MAX:
        return amqp10_fault(x, AMQP10_CHECK_NESTING, at, depth + 1, AMQP10_NESTING_MAX)
    return amqp10_check_compound(x, row, at, at + size, depth)


cdef const uint8_t* amqp10_check_scalar(Amqp10Reader* x, uint8_t code, const uint8_t* at) noexcept nogil:
    """Check scalars for which not all octets are valid: 1.6.2, 1.6.16."""
    cdef uint32_t c
    if code == AMQP10_CODE_BOOLEAN:
        # proton, rhea and RabbitMQ's Python client read other octets than 1 as true
        if at[0] > 1 and amqp10_violation(x, AMQP10_CHECK_BOOLEAN, at):
            return NULL
        return at + 1
    c = load_u32(at)
    if c > 0x10FFFF:
        return amqp10_fault(x, AMQP10_CHECK_CHAR, at, 0, 0)
    if 0xD800 <= c < 0xE000 and amqp10_violation(x, AMQP10_CHECK_CHAR_SURROGATE, at):
        return NULL
    return at + 4


cdef const uint8_t* amqp10_check_characters(Amqp10Reader* x, int type, const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Check that a string is UTF-8 (U+0000 is allowed), a symbol ASCII."""
    cdef const uint8_t* p = at
    cdef size_t bad = 0
    if is_ascii(at, <size_t>(end - at)):
        return end
    if type == AMQP10_SYMBOL:
        while p[0] < 0x80:
            p += 1
        if amqp10_violation(x, AMQP10_CHECK_SYMBOL_ASCII, p):
            return NULL
        return end
    if not is_utf8(p, <size_t>(end - p), &bad) and amqp10_violation(x, AMQP10_CHECK_STRING_UTF8, p + bad):
        return NULL
    return end


cdef const uint8_t* amqp10_check_compound(Amqp10Reader* x, const Amqp10ConstructorRow* row, const uint8_t* at,
                                          const uint8_t* end, int depth) noexcept nogil:
    """Check count and elements of a list, map or array, which end at `end`."""
    cdef const uint8_t* first
    cdef const uint8_t* after
    cdef uint32_t count, i
    if <size_t>(end - at) < row.width:
        return amqp10_cut(x, at, end, row.width)
    count = at[0] if row.width == 1 else load_u32(at)
    if not amqp10_count_elements(x, count, at):
        return NULL
    at += row.width
    if row.category == AMQP10_CATEGORY_ARRAY:
        return amqp10_check_array(x, count, at, end, depth)
    if row.type == AMQP10_MAP and count & 1:
        return amqp10_fault(x, AMQP10_CHECK_MAP_ODD, at, 0, 0)
    if count > <size_t>(end - at):
        return amqp10_fault(x, AMQP10_CHECK_ELEMENT_COUNT, at, count, <int64_t>(end - at))
    first = at
    for i in range(count):
        if depth == 0:
            x.index = <int>(i >> 1 if row.type == AMQP10_MAP else i)
        after = amqp10_plain(at, end)
        at = after if after != NULL else amqp10_check(x, at, end, depth + 1)
        if at == NULL:
            return NULL
    if at != end:
        return amqp10_fault(x, AMQP10_CHECK_REST, at, 0, 0)
    if row.type == AMQP10_MAP and count > 2 and not amqp10_check_keys(x, first, count >> 1, depth):
        return NULL
    if depth == 0:
        x.index = -1
    return end


cdef const uint8_t* amqp10_check_array(Amqp10Reader* x, uint32_t count, const uint8_t* at, const uint8_t* end,
                                       int depth) noexcept nogil:
    """Check constructor and elements of an array. Elements without octets are not walked, because there may be any number."""
    cdef const Amqp10ConstructorRow* row
    cdef uint8_t code
    cdef uint32_t i
    depth += 1                              # descriptors and elements are in the array
    at = amqp10_check_descriptors(x, at, end, &depth)
    if at == NULL:
        return NULL
    code = at[0]
    row = &amqp10_constructors[code]
    if row.category == 0:
        return amqp10_fault(x, AMQP10_CHECK_CONSTRUCTOR, at, 0, 0)
    at += 1
    if not row.zero:
        if count > <size_t>(end - at):
            return amqp10_fault(x, AMQP10_CHECK_ELEMENT_COUNT, at, count, <int64_t>(end - at))
        for i in range(count):
            at = amqp10_check_content(x, code, at, end, depth)
            if at == NULL:
                return NULL
    if at != end:
        return amqp10_fault(x, AMQP10_CHECK_REST, at, 0, 0)
    return end


# ------------------------------------------------------------------------------------------------ reading what was checked

cdef const uint8_t* amqp10_primitive(const uint8_t* constructor) noexcept nogil:
    """Skip the descriptors of a constructor. Returns its last octet, which has the encoding of the content."""
    while constructor[0] == 0:
        constructor = amqp10_skip(constructor + 1)
    return constructor


cdef void amqp10_read_described(const uint8_t* at, Amqp10ValueView* v) noexcept nogil:
    cdef const uint8_t* primitive
    v.type = AMQP10_DESCRIBED
    v.inner = amqp10_skip(v.constructor + 1)
    v.body = at
    v.size = 0
    v.count = 0
    primitive = amqp10_primitive(v.inner)
    v.end = amqp10_skip_content(primitive[0], primitive + 1 if at == NULL else at)


cdef inline const uint8_t* amqp10_descriptor(const Amqp10ValueView* v) noexcept nogil:
    """The position of a described value's descriptor."""
    return v.constructor + 1


cdef inline bint amqp10_is_text(const Amqp10ValueView* v) noexcept nogil:
    return v.type == AMQP10_STRING or v.type == AMQP10_SYMBOL


cdef inline bint amqp10_ascii_at(const uint8_t* at, bint plain, Span* out) noexcept nogil:
    """The octets of the (checked) value at `at`, if it is a string or symbol of ASCII. plain: it is ASCII if it is a text."""
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[at[0]]
    if row.type != AMQP10_STRING and row.type != AMQP10_SYMBOL:
        return False
    out.size = at[1] if row.width == 1 else load_u32(at + 1)
    out.at = at + 1 + row.width
    return plain or is_ascii(out.at, out.size)


cdef inline uint64_t amqp10_fixed_at(const Amqp10ConstructorRow* row, const uint8_t* at) noexcept nogil:
    """The bits of the (checked) value at `at`, a number of a fixed size of at most eight octets."""
    if row.width == 0:
        return 0
    if row.width == 1:
        return at[1]
    return load_u16(at + 1) if row.width == 2 else load_u32(at + 1) if row.width == 4 else load_u64(at + 1)


# ------------------------------------------------------------------------------------------------ composites

cdef int amqp10_shape_of(const uint8_t* descriptor, bint* irregular) noexcept nogil:
    """The composite type that a (checked) descriptor names; 0: none. irregular: by an integer that is not a ulong."""
    cdef Amqp10ValueView v
    cdef uint64_t code
    cdef int shape
    irregular[0] = False
    if descriptor[0] == AMQP10_CODE_SMALLULONG:
        return amqp10_shape_of_code[descriptor[1]] if descriptor[1] < 128 else 0
    amqp10_read(descriptor, &v)
    if v.type == AMQP10_SYMBOL:
        for shape in range(1, AMQP10_SHAPES):
            if v.size == amqp10_shape_symbol_size[shape] and memcmp(v.body, amqp10_shape_symbol[shape], v.size) == 0:
                return shape
        return 0
    if v.type == AMQP10_ULONG:
        code = amqp10_unsigned(&v)
    elif AMQP10_UBYTE <= v.type <= AMQP10_UINT:
        irregular[0] = True
        code = amqp10_unsigned(&v)
    elif AMQP10_BYTE <= v.type <= AMQP10_LONG:
        irregular[0] = True
        code = <uint64_t>amqp10_signed(&v)
    else:
        return 0
    return amqp10_shape_of_code[code] if code < 128 else 0


# ------------------------------------------------------------------------------------------------ equal, and in order
#
# Values are equal if they have the same type and value in any encoding (1.6).

cdef inline int amqp10_order(uint64_t a, uint64_t b) noexcept nogil:
    return -1 if a < b else 1 if a > b else 0


cdef int amqp10_compare(const Amqp10ValueView* a, const Amqp10ValueView* b) noexcept nogil:
    """-1, 0, 1: an order of all values, which only serves to find equal ones."""
    if a.type != b.type:
        return -1 if a.type < b.type else 1
    if a.type >= AMQP10_LIST:
        return amqp10_compare_compound(a, b)
    if AMQP10_DECIMAL128 == a.type or AMQP10_UUID <= a.type <= AMQP10_SYMBOL:
        if a.size != b.size:
            return -1 if a.size < b.size else 1
        return memcmp(a.body, b.body, a.size)
    if AMQP10_BYTE <= a.type <= AMQP10_LONG:
        return amqp10_order(<uint64_t>amqp10_signed(a), <uint64_t>amqp10_signed(b))
    return amqp10_order(amqp10_unsigned(a), amqp10_unsigned(b))


cdef int amqp10_compare_compound(const Amqp10ValueView* a, const Amqp10ValueView* b) noexcept nogil:
    cdef Amqp10Items left, right
    cdef Amqp10ValueView c, d
    cdef int found = 0
    if a.type == AMQP10_DESCRIBED:
        return amqp10_compare_described(a, b)
    if a.count != b.count:
        return -1 if a.count < b.count else 1
    if a.type == AMQP10_ARRAY:
        found = amqp10_compare_constructors(a.inner, b.inner)
        if found:
            return found
    left = amqp10_items(a)
    right = amqp10_items(b)
    if a.type == AMQP10_ARRAY and a.size == 0 and b.size == 0 and left.left > 1:
        left.left = 1                   # elements without octets are all equal
    while found == 0 and amqp10_next(&left, &c) and amqp10_next(&right, &d):
        found = amqp10_compare(&c, &d)
    return found


cdef int amqp10_compare_described(const Amqp10ValueView* a, const Amqp10ValueView* b) noexcept nogil:
    """Compare described values. A composite's descriptor is a number or a symbol, and nulls at its end count as absent (1.4)."""
    cdef Amqp10ValueView c, d
    cdef Amqp10Items left, right
    cdef int found = amqp10_order(<uint64_t>amqp10_composite_shape(a), <uint64_t>amqp10_composite_shape(b))
    if found:
        return found
    if amqp10_composite_shape(a) == 0:
        amqp10_read(amqp10_descriptor(a), &c)
        amqp10_read(amqp10_descriptor(b), &d)
        found = amqp10_compare(&c, &d)
    amqp10_described(a, &c)
    amqp10_described(b, &d)
    if found or amqp10_composite_shape(a) == 0:
        return found if found else amqp10_compare(&c, &d)
    left = amqp10_items(&c)
    right = amqp10_items(&d)
    while found == 0 and (left.left or right.left):
        if not amqp10_next(&left, &c):
            c.type = AMQP10_NULL
        if not amqp10_next(&right, &d):
            d.type = AMQP10_NULL
        if c.type != AMQP10_NULL or d.type != AMQP10_NULL:
            found = amqp10_compare(&c, &d)
    return found


cdef int amqp10_composite_shape(const Amqp10ValueView* v) noexcept nogil:
    """The composite type of a described value; 0: none."""
    cdef bint irregular = False
    cdef const uint8_t* primitive = amqp10_primitive(v.inner)
    if primitive != v.inner or amqp10_constructors[primitive[0]].type != AMQP10_LIST:
        return 0
    return amqp10_shape_of(amqp10_descriptor(v), &irregular)


cdef int amqp10_compare_constructors(const uint8_t* a, const uint8_t* b) noexcept nogil:
    """Compare the types and descriptors of arrays' elements; the arrays may be empty."""
    cdef Amqp10ValueView c, d
    cdef int found
    while a[0] == 0 and b[0] == 0:
        amqp10_read(a + 1, &c)
        amqp10_read(b + 1, &d)
        found = amqp10_compare(&c, &d)
        if found:
            return found
        a = c.end
        b = d.end
    if a[0] == 0 or b[0] == 0:
        return -1 if a[0] == 0 else 1
    return amqp10_order(amqp10_constructors[a[0]].type, amqp10_constructors[b[0]].type)


cdef uint64_t amqp10_hash(const Amqp10ValueView* v, uint64_t h) noexcept nogil:
    """Equal values have equal hashes."""
    cdef Amqp10Items items
    cdef Amqp10ValueView item
    h = mix(h, v.type)
    if v.type == AMQP10_DESCRIBED:
        return amqp10_hash_described(v, h)
    if v.type >= AMQP10_LIST:
        h = mix(h, v.count)
        items = amqp10_items(v)
        if v.type == AMQP10_ARRAY and items.left > 16:
            items.left = 16             # there may be 2^32 elements without octets
        while amqp10_next(&items, &item):
            h = amqp10_hash(&item, h)
        return h
    if AMQP10_DECIMAL128 == v.type or AMQP10_UUID <= v.type <= AMQP10_SYMBOL:
        return hash_octets(mix(h, v.size), v.body, v.size)
    if AMQP10_BYTE <= v.type <= AMQP10_LONG:
        return mix(h, <uint64_t>amqp10_signed(v))
    return mix(h, amqp10_unsigned(v))


cdef uint64_t amqp10_hash_described(const Amqp10ValueView* v, uint64_t h) noexcept nogil:
    cdef Amqp10Items items
    cdef Amqp10ValueView item
    cdef int shape = amqp10_composite_shape(v)
    cdef uint64_t i = 0
    if shape == 0:
        amqp10_read(amqp10_descriptor(v), &item)
        h = amqp10_hash(&item, h)
        amqp10_described(v, &item)
        return amqp10_hash(&item, h)
    amqp10_described(v, &item)
    items = amqp10_items(&item)
    h = mix(h, <uint64_t>shape)
    while amqp10_next(&items, &item):
        i += 1
        if item.type != AMQP10_NULL:
            h = amqp10_hash(&item, mix(h, i))
    return h


cdef enum:
    AMQP10_FEW_KEYS = 16


cdef bint amqp10_check_keys(Amqp10Reader* x, const uint8_t* at, uint32_t keys, int depth) noexcept nogil:
    """Check that no two keys of a map are equal (1.6.23). False: see x.f. `at` is the first of `keys` pairs."""
    cdef const uint8_t* few[AMQP10_FEW_KEYS]
    cdef uint64_t hashes[AMQP10_FEW_KEYS]
    cdef Amqp10ValueView key, other
    cdef uint32_t i, k
    if keys > AMQP10_FEW_KEYS:
        return amqp10_check_many_keys(x, at, keys, depth)
    for i in range(keys):
        few[i] = at
        amqp10_read(at, &key)
        hashes[i] = amqp10_hash(&key, 0)
        for k in range(i):
            if hashes[k] == hashes[i]:
                amqp10_read(few[k], &other)
                if amqp10_compare(&key, &other) == 0:
                    if depth == 0:
                        x.index = <int>i
                    if amqp10_violation(x, AMQP10_CHECK_MAP_DUPLICATE, at):
                        return False
        at = amqp10_skip(key.end)
    return True


cdef bint amqp10_check_many_keys(Amqp10Reader* x, const uint8_t* at, uint32_t keys, int depth) noexcept nogil:
    """The same by sorting, so that the time does not depend on the choice of keys."""
    cdef const uint8_t** ordered = <const uint8_t**>malloc(keys * sizeof(const uint8_t*))
    cdef Amqp10ValueView key, other
    cdef uint32_t i
    cdef bint good = True
    if ordered == NULL:
        amqp10_fault(x, AMQP10_CHECK_MEMORY, at, 0, 0)
        return False
    for i in range(keys):
        ordered[i] = at
        at = amqp10_skip(amqp10_skip(at))
    qsort(ordered, keys, sizeof(const uint8_t*), amqp10_order_of_keys)
    if depth == 0:
        x.index = -1
    for i in range(1, keys):
        amqp10_read(ordered[i - 1], &key)
        amqp10_read(ordered[i], &other)
        if amqp10_compare(&key, &other) == 0 and \
                amqp10_violation(x, AMQP10_CHECK_MAP_DUPLICATE, max(ordered[i - 1], ordered[i])):
            good = False
            break
    free(ordered)
    return good


cdef int amqp10_order_of_keys(const void* a, const void* b) noexcept nogil:
    cdef Amqp10ValueView key, other
    amqp10_read((<const uint8_t**>a)[0], &key)
    amqp10_read((<const uint8_t**>b)[0], &other)
    return amqp10_compare(&key, &other)
