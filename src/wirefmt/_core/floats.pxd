# IEEE 754 binary64 and binary32 as decimal text: the shortest digits that are read back as the same number, or a given number
# of digits, correctly rounded. The text does not depend on the locale (printf and strtod use LC_NUMERIC).
#
# A number is f * 2^e. Shortest digits: R. Giulietti, "The Schubfach way to render doubles", 2020. All decimals of an interval
# around the number are read as it. 10^k is the largest power of ten that is not longer than this interval, so at least one
# multiple of 10^k is in it, and at most one of 10^(k + 1), which then is the shortest. The number and the ends of its interval,
# four times as large to be whole, are multiplied by 10^-k; 128 bits of that power are enough to compare the products with whole
# numbers.
#
# A given number of digits comes from exact integers r / s = number / 10^k, one after another: G. L. Steele and J. L. White, "How
# to print floating-point numbers accurately", 1990.
#
# Header-only, nogil.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from wirefmt._core.powers cimport POWER_FIRST, POWERS
from wirefmt._core.text cimport write_unsigned


cdef enum:
    BIG_LIMBS = 40              # 1280 bits: 2^1074 * 10, and 2^1024 * 20, with what is added
    FLOAT_DIGITS = 17           # that the shortest form has at most
    FLOAT_COPIED = 24           # octets that are copied for some digits: whole words
    DIGITS_BEFORE = 8
    DIGITS_SIZE = 48            # octets of the digits, of the zeros after them, and of what is copied with them
    FLOAT_SIZE = 48             # octets for text, -1.2345678901234567e-308, and for what is written beyond it
    SCIENTIFIC_CAPACITY = 16        # octets besides the decimals of the form with a given number of decimals


cdef struct Big:                # an integer, the least significant limb first
    int size
    uint32_t limb[BIG_LIMBS]


cdef struct Binary:             # a number taken apart
    uint64_t f
    int e
    bint negative, finite
    bint edge                   # f is a power of two: the next smaller number is half as far as the next larger


# ------------------------------------------------------------------------------------------------ integers

cdef inline void big_set(Big* a, uint64_t v) noexcept nogil:
    a.limb[0] = <uint32_t>v
    a.limb[1] = <uint32_t>(v >> 32)
    a.size = 2 if v >> 32 else 1 if v else 0


cdef inline void big_multiply(Big* a, uint32_t by) noexcept nogil:
    cdef uint64_t carry = 0
    cdef int i
    for i in range(a.size):
        carry += <uint64_t>a.limb[i] * by
        a.limb[i] = <uint32_t>carry
        carry >>= 32
    if carry:
        a.limb[a.size] = <uint32_t>carry
        a.size += 1


cdef inline void big_power_of_ten(Big* a, int n) noexcept nogil:
    """Multiply by 10^n."""
    while n >= 9:
        big_multiply(a, 1000000000)
        n -= 9
    while n:
        big_multiply(a, 10)
        n -= 1


cdef inline void big_shift(Big* a, int bits) noexcept nogil:
    """Multiply by 2^bits."""
    cdef int limbs = bits >> 5, i
    if a.size == 0:
        return
    for i in range(a.size - 1, -1, -1):
        a.limb[i + limbs] = a.limb[i]
    memset(a.limb, 0, <size_t>limbs * sizeof(uint32_t))
    a.size += limbs
    big_multiply(a, <uint32_t>1 << (bits & 31))


cdef inline int big_compare(const Big* a, const Big* b) noexcept nogil:
    """-1, 0, 1: a is less than, equal to, greater than b."""
    cdef int i
    if a.size != b.size:
        return -1 if a.size < b.size else 1
    for i in range(a.size - 1, -1, -1):
        if a.limb[i] != b.limb[i]:
            return -1 if a.limb[i] < b.limb[i] else 1
    return 0


cdef inline int big_divide(Big* r, const Big* s) noexcept nogil:
    """The quotient r / s, which is less than 10; r becomes the remainder."""
    cdef int digit = 0, i
    cdef int64_t left
    while big_compare(r, s) >= 0:
        left = 0
        for i in range(r.size):
            left += <int64_t>r.limb[i] - (<int64_t>s.limb[i] if i < s.size else 0)
            r.limb[i] = <uint32_t>left
            left >>= 32
        while r.size and r.limb[r.size - 1] == 0:
            r.size -= 1
        digit += 1
    return digit


# ------------------------------------------------------------------------------------------------ digits

cdef inline Binary take_apart(uint64_t bits, bint wide) noexcept nogil:
    """The number that has these bits: a binary64 if `wide` is set, otherwise a binary32."""
    cdef Binary v
    cdef int precision = 52 if wide else 23
    cdef int exponent = <int>(bits >> precision & (0x7FF if wide else 0xFF))
    v.negative = bits >> (63 if wide else 31) & 1
    v.finite = exponent != (0x7FF if wide else 0xFF)
    v.f = bits & ((<uint64_t>1 << precision) - 1)
    v.e = max(exponent, 1) - (1075 if wide else 150)
    v.edge = v.f == 0 and exponent > 1
    if exponent:
        v.f |= <uint64_t>1 << precision
    return v


cdef inline int decimal_estimate(const Binary* v) noexcept nogil:
    """k with v < 10^(k + 1), and 10^(k - 1) < v: it is right or one too small."""
    cdef int bits = v.e - 1
    cdef uint64_t f = v.f
    cdef double about
    while f:
        bits += 1
        f >>= 1
    about = bits * 0.30102999566398120 - 1e-10          # bits: the logarithm to the base of 2, rounded down
    return <int>about + (1 if about > <double><int>about else 0)


cdef extern from *:
    """
    /* The upper 64 bits of the product of a power of ten and v. Bit 0 is also set if the rest is more than what the power, which
       is rounded up, may add to a whole number. */
    static inline uint64_t wirefmt_scaled(const uint64_t *power, uint64_t v) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)power[0] * v + (uint64_t)((unsigned __int128)power[1] * v >> 64);
        return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
    #else
        const uint64_t half = 0xFFFFFFFF;
        uint64_t sum = 0, rest = 0;             /* digits of 32 bits, from the lowest on: 4 of the power, 2 of v */
        uint32_t digits[6] = {0};
        int i, j;
        for (i = 0; i < 4; i++) {
            rest = power[1 - (i >> 1)] >> 32 * (i & 1) & half;
            for (sum = 0, j = 0; j < 2; j++) {
                sum += rest * (v >> 32 * j & half) + digits[i + j];
                digits[i + j] = (uint32_t)sum;
                sum >>= 32;
            }
            digits[i + 2] = (uint32_t)sum;
        }
        rest = (uint64_t)digits[3] << 32 | digits[2];
        return ((uint64_t)digits[5] << 32 | digits[4]) | (rest > 1);
    #endif
    }

    /* The number of zeros at the end of digits, which are not all zeros. Seven octets before them are read, too. */
    static inline int wirefmt_zeros_before(const unsigned char *end) {
        int n = 0;
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        uint64_t last;
        while (memcpy(&last, end - n - 8, 8), last == 0x3030303030303030ULL)
            n += 8;
        return n + (__builtin_clzll(last ^ 0x3030303030303030ULL) >> 3);
    #else
        while (end[-n - 1] == '0')
            n++;
        return n;
    #endif
    }
    """
    uint64_t scaled "wirefmt_scaled"(const uint64_t* power, uint64_t v) noexcept nogil
    int zeros_before "wirefmt_zeros_before"(const uint8_t* end) noexcept nogil


cdef inline int shortest_digits(const Binary* v, uint8_t* digits, int* point) noexcept nogil:
    """Write the digits ('0' to '9', at most FLOAT_DIGITS) of a number that is not 0, 0.DIGITS * 10^point; return their number.
    Zeros follow. `digits` has DIGITS_SIZE octets, and DIGITS_BEFORE before it, which are read."""
    # 1262611 / 2^22 is near to log10(2), 524031 / 2^22 to log10(4 / 3), 1741647 / 2^19 to log2(10)
    cdef int k = (v.e * 1262611 - (524031 if v.edge else 0)) >> 22
    cdef int shift = v.e + (-k * 1741647 >> 19) + 1
    cdef const uint64_t* power = POWERS[-k - POWER_FIRST]
    cdef uint64_t odd = v.f & 1                 # numbers half-way between neighbours are read as the even one
    cdef uint64_t value = scaled(power, 4 * v.f << shift)
    cdef uint64_t low = scaled(power, 4 * v.f - (1 if v.edge else 2) << shift) + odd
    cdef uint64_t high = scaled(power, 4 * v.f + 2 << shift) - odd
    cdef uint64_t n = value >> 2, tens = n // 10
    cdef bint above, below
    cdef int size
    below = low <= 40 * tens
    above = 40 * tens + 40 <= high
    if n >= 10 and below != above:              # the only one with a digit less
        n = tens + above
        k += 1
    else:
        below = low <= 4 * n
        above = 4 * n + 4 <= high
        if below == above:                      # the nearer one, or the even one
            above = value + (n & 1) > 4 * n + 2
        n += above
    size = write_unsigned(n, digits)
    memset(digits + size, c"0", DIGITS_SIZE - FLOAT_DIGITS - 1)
    point[0] = k + size
    return size - zeros_before(digits + size)


cdef inline void exact_digits(const Binary* v, int count, uint8_t* digits, int* point) noexcept nogil:
    """The first `count` digits of a number that is not 0, rounded to the nearest, half-way to even: 0.DIGITS * 10^point."""
    cdef Big r, s
    cdef int k = decimal_estimate(v), i, half
    big_set(&r, v.f)
    big_set(&s, 1)
    big_shift(&r, max(v.e, 0))
    big_shift(&s, max(-v.e, 0))
    if k >= 0:
        big_power_of_ten(&s, k)
    else:
        big_power_of_ten(&r, -k)
    if big_compare(&r, &s) >= 0:
        k += 1
    else:
        big_multiply(&r, 10)
    for i in range(count):
        digits[i] = <uint8_t>(c"0" + big_divide(&r, &s))
        big_multiply(&r, 10)
    big_multiply(&s, 5)                         # r was multiplied by ten once more
    half = big_compare(&r, &s)
    if half > 0 or (half == 0 and digits[count - 1] & 1):
        i = count - 1
        while i >= 0 and digits[i] == c"9":
            digits[i] = c"0"
            i -= 1
        if i >= 0:
            digits[i] += 1
        else:
            digits[0] = c"1"
            k += 1
    point[0] = k


# ------------------------------------------------------------------------------------------------ text

cdef inline int write_exponent(int exponent, uint8_t* out) noexcept nogil:
    """Write e+07, e-308: a sign and at least two digits. Returns the size."""
    cdef int size = 0, e = -exponent if exponent < 0 else exponent
    out[0] = c"e"
    out[1] = c"-" if exponent < 0 else c"+"
    size = 2
    if e >= 100:
        out[size] = <uint8_t>(c"0" + e // 100)
        size += 1
    out[size] = <uint8_t>(c"0" + e // 10 % 10)
    out[size + 1] = <uint8_t>(c"0" + e % 10)
    return size + 2


cdef inline int write_float(uint64_t bits, bint wide, uint8_t* out) noexcept nogil:
    """Write a binary64 (binary32 unless `wide` is set) as JSON to `out` (FLOAT_ROOM), with the fewest digits: 21.5, 100, 1e+22,
    1.5e-07, and NaN and infinities as strings. Returns the size."""
    cdef Binary v = take_apart(bits, wide)
    cdef uint8_t[DIGITS_BEFORE + DIGITS_SIZE] space
    cdef uint8_t* digits = space + DIGITS_BEFORE
    cdef int size = 0, point = 1, n
    if not v.finite:
        if v.f & ((<uint64_t>1 << (52 if wide else 23)) - 1):
            memcpy(out, b'"NaN"', 5)
            return 5
        n = 11 if v.negative else 10
        memcpy(out, b'"-Infinity"' if v.negative else b'"Infinity"', <size_t>n)
        return n
    if v.negative:
        out[0] = c"-"
        size = 1
    if v.f == 0:
        out[size] = c"0"
        return size + 1
    memset(space, 0, DIGITS_BEFORE)
    n = shortest_digits(&v, digits, &point)
    if point < -3 or point > max(n, 15):
        out[size] = digits[0]
        size += 1
        if n > 1:
            out[size] = c"."
            memcpy(out + size + 1, digits + 1, FLOAT_COPIED)
            size += n
        return size + write_exponent(point - 1, out + size)
    if point <= 0:
        memcpy(out + size, b"0.000", 5)
        size += 2 - point
        memcpy(out + size, digits, FLOAT_COPIED)
        return size + n
    memcpy(out + size, digits, FLOAT_COPIED)
    if point >= n:
        return size + point
    out[size + point] = c"."
    memcpy(out + size + point + 1, digits + point, FLOAT_COPIED)
    return size + n + 1


cdef inline int write_scientific(uint64_t bits, bint wide, int decimals, uint8_t* out) noexcept nogil:
    """Write d.ddde+dd with `decimals` decimals, nan, inf or -inf to `out` (decimals + SCIENTIFIC_ROOM). Returns the size."""
    cdef Binary v = take_apart(bits, wide)
    cdef int size = 0, point = 1
    if v.negative:
        out[0] = c"-"
        size = 1
    if not v.finite:
        if v.f & ((<uint64_t>1 << (52 if wide else 23)) - 1):
            memcpy(out, b"nan", 3)
            return 3
        memcpy(out + size, b"inf", 3)
        return size + 3
    if v.f:
        exact_digits(&v, decimals + 1, out + size + 1, &point)
    else:
        memset(out + size + 1, c"0", <size_t>decimals + 1)
    out[size] = out[size + 1]
    out[size + 1] = c"."
    size += decimals + 2
    return size + write_exponent(point - 1, out + size)
