# IEEE 754 binary64 and binary32 as decimal text: the shortest digits that are read back as the same number, or a given number
# of digits, correctly rounded. The text does not depend on the locale (printf and strtod use LC_NUMERIC).
#
# A number is f * 2^e. Digits come from exact integers r / s = number / 10^k, one after another; the shortest form ends when
# the remainder is within half the distance to the neighbouring numbers, `below` and `above`. G. L. Steele and J. L. White,
# "How to print floating-point numbers accurately", 1990; R. G. Burger and R. K. Dybvig, "Printing floating-point numbers quickly
# and accurately", 1996.
#
# Header-only, nogil.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from wirefmt._core.text cimport write_unsigned


cdef enum:
    BIG_LIMBS = 40              # 1280 bits: 2^1074 * 10, and 2^1024 * 20, with what is added
    FLOAT_DIGITS = 17           # that the shortest form has at most
    FLOAT_SIZE = 32             # octets of text: -1.2345678901234567e-308
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


cdef inline int big_compare_sum(const Big* a, const Big* b, const Big* c) noexcept nogil:
    """big_compare of a + b and c."""
    cdef Big sum
    cdef uint64_t carry = 0
    cdef int i
    sum.size = max(a.size, b.size)
    for i in range(sum.size):
        carry += (<uint64_t>a.limb[i] if i < a.size else 0) + (<uint64_t>b.limb[i] if i < b.size else 0)
        sum.limb[i] = <uint32_t>carry
        carry >>= 32
    if carry:
        sum.limb[sum.size] = <uint32_t>carry
        sum.size += 1
    return big_compare(&sum, c)


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
    #include <float.h>
    #if FLT_EVAL_METHOD == 0        /* double operations round to double */
    #define WIREFMT_DOUBLES 1
    #else
    #define WIREFMT_DOUBLES 0
    #endif
    """
    enum: WIREFMT_DOUBLES


cdef inline int few_digits(uint64_t bits, uint8_t* digits, int* point) noexcept nogil:
    """shortest_digits of a positive binary64 with at most 15 digits, few of them after the point; 0: the number may have more.

    n and 10^k are exact, so n / 10^k is the number that the text n * 10^-k is read as. No two texts of at most 15 digits are
    read as one number, so a text that is read as this number is the only one, and with the smallest k it is the shortest."""
    cdef double v, rest, power = 1.0
    cdef int64_t whole
    cdef uint64_t n = 0
    cdef int k = 0, size
    memcpy(&v, &bits, 8)
    if not WIREFMT_DOUBLES or not v < 1e15:
        return 0
    while True:
        whole = <int64_t>(v * power + 0.5)
        if whole >= <int64_t>1000000000000000:
            return 0
        # equal quotients need products that differ by less than their rounding: this saves most divisions
        rest = v * power - <double>whole
        if whole and rest * rest <= 1e-30 * <double>whole * <double>whole and <double>whole / power == v:
            break
        power *= 10.0
        k += 1
        if k > 9:
            return 0
    n = <uint64_t>whole                     # the division of unsigned numbers is faster
    point[0] = -k
    while k == 0 and n % 10 == 0:
        n //= 10
        point[0] += 1
    size = write_unsigned(n, digits)
    point[0] += size
    return size


cdef inline int shortest_digits(const Binary* v, uint8_t* digits, int* point) noexcept nogil:
    """Write the digits ('0' to '9', at most FLOAT_DIGITS) of a number that is not 0, 0.DIGITS * 10^point; return their number."""
    cdef Big r, s, above, below
    cdef int more = 2 if v.edge else 1          # all is doubled: half of a distance is a whole number
    cdef int k = decimal_estimate(v), n = 0, digit, low, high
    cdef bint even = v.f & 1 == 0               # numbers half-way between neighbours are read as the even one
    big_set(&r, v.f)
    big_set(&s, 1)
    big_set(&above, 1)
    big_set(&below, 1)
    big_shift(&r, max(v.e, 0) + more)
    big_shift(&s, max(-v.e, 0) + more)
    big_shift(&above, max(v.e, 0) + more - 1)
    big_shift(&below, max(v.e, 0))
    if k >= 0:
        big_power_of_ten(&s, k)
    else:
        big_power_of_ten(&r, -k)
        big_power_of_ten(&above, -k)
        big_power_of_ten(&below, -k)
    high = big_compare_sum(&r, &above, &s)
    if high > 0 or (even and high == 0):
        k += 1
    else:
        big_multiply(&r, 10)
        big_multiply(&above, 10)
        big_multiply(&below, 10)
    point[0] = k
    while True:
        digit = big_divide(&r, &s)
        low = big_compare(&r, &below)
        high = big_compare_sum(&r, &above, &s)
        if low < 0 or high > 0 or (even and (low == 0 or high == 0)):
            break
        digits[n] = <uint8_t>(c"0" + digit)
        n += 1
        big_multiply(&r, 10)
        big_multiply(&above, 10)
        big_multiply(&below, 10)
    if low > 0 or (low == 0 and not even):      # only the next digit is near enough
        digit += 1
    elif high > 0 or (even and high == 0):      # both are: the nearer one
        low = big_compare_sum(&r, &r, &s)
        if low > 0 or (low == 0 and digit & 1):
            digit += 1
    digits[n] = <uint8_t>(c"0" + digit)
    return n + 1


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
    cdef uint8_t[FLOAT_DIGITS + 1] digits
    cdef int size = 0, point = 1, n, i
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
    n = few_digits(bits & <uint64_t>0x7FFFFFFFFFFFFFFF, digits, &point) if wide else 0
    if n == 0:
        n = shortest_digits(&v, digits, &point)
    if point < -3 or point > max(n, 15):
        out[size] = digits[0]
        size += 1
        if n > 1:
            out[size] = c"."
            memcpy(out + size + 1, digits + 1, <size_t>(n - 1))
            size += n
        return size + write_exponent(point - 1, out + size)
    if point <= 0:
        out[size] = c"0"
        out[size + 1] = c"."
        size += 2
        memset(out + size, c"0", <size_t>-point)
        size -= point
    for i in range(max(n, point)):
        if i == point and i:
            out[size] = c"."
            size += 1
        out[size] = digits[i] if i < n else c"0"
        size += 1
    return size


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
