# Which values are secret, and what is shown instead. The rule is spec/secrets.py.
#
# Columns call is_secret_name() when they put an entry of a map (columns_head.pxi), reprs show values made by hidden().
from cpython.unicode cimport PyUnicode_AsUTF8AndSize

from types import MappingProxyType

from wirefmt.spec.secrets import SHOWN as SECRET_SHOWN_STR


# ------------------------------------------------------------------------------------------------ names

cdef enum:
    SECRET_SPREAD = 64          # octets that a word in octets of unknown structure may take, separators included


cdef bint holds_secret_word(const uint8_t* p, size_t n) noexcept nogil:
    """Do octets of unknown structure contain a word that may be a secret name?"""
    cdef size_t i, k
    cdef uint32_t node
    for i in range(n):
        node = 0
        k = i + 1
        while k and 0x20 <= p[k - 1] < 0x7F and i - k != SECRET_SPREAD:
            k -= 1
            if secret_letter[p[k]] == 0:
                if node == 0:
                    break
                continue
            node = secret_next[node][secret_letter[p[k]]]
            if node == 0:
                break
            if secret_end[node] == 2 or (secret_end[node] and not (k and secret_letter[p[k - 1]])):
                return True
    return False


cdef bint holds_secret_member(const uint8_t* p, size_t n) noexcept nogil:
    """Does text with entries like `"name": value` or `name = value` contain a secret name?"""
    cdef size_t i, begin, end
    for i in range(n):
        if p[i] != c":" and p[i] != c"=":
            continue
        end = i
        while end and (p[end - 1] == c" " or p[end - 1] == c"\t" or p[end - 1] == c'"' or p[end - 1] == c"'"):
            end -= 1
        begin = end
        while begin and (secret_letter[p[begin - 1]] or c"0" <= p[begin - 1] <= c"9" or p[begin - 1] == c"_" or
                         p[begin - 1] == c"-" or p[begin - 1] == c"."):
            begin -= 1
        if is_secret_name(p + begin, end - begin):
            return True
    return False


cdef bint is_secret_text(str name) except -1:
    """is_secret_name of a str."""
    cdef Py_ssize_t size = 0
    cdef const char* p
    if name.isascii():
        p = PyUnicode_AsUTF8AndSize(name, &size)
        return is_secret_name(<const uint8_t*>p, <size_t>size)
    octets = name.encode("utf-8", "replace")
    return is_secret_name(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))


def secret_name(name, /):
    """True if an entry of a map with this name is secret, by the rule in docs/secrets.md.

    name: str or bytes; False for anything else.
    """
    if isinstance(name, str):
        return is_secret_text(str(name))
    if isinstance(name, bytes):
        return is_secret_name(<const uint8_t*>PyBytes_AS_STRING(name), <size_t>PyBytes_GET_SIZE(name))
    return False


# ------------------------------------------------------------------------------------------------ values that do not show

cdef str SECRET_SHOWN = SECRET_SHOWN_STR
cdef bytes SECRET_SHOWN_OCTETS = SECRET_SHOWN.encode()


class HiddenText(str):
    """A secret str: equal to it and used like it. Its repr shows asterisks."""
    __slots__ = ()

    def __repr__(self):
        return repr(SECRET_SHOWN)


class HiddenBytes(bytes):
    """Secret bytes: equal to them and used like them. The repr shows asterisks."""
    __slots__ = ()

    def __repr__(self):
        return repr(SECRET_SHOWN_OCTETS)


class HiddenInt(int):
    """A secret int: equal to it and used like it. Its repr shows asterisks."""
    __slots__ = ()
    __str__ = int.__repr__

    def __repr__(self):
        return repr(SECRET_SHOWN)


class HiddenFloat(float):
    """A secret float: equal to it and used like it. Its repr shows asterisks."""
    __slots__ = ()
    __str__ = float.__repr__

    def __repr__(self):
        return repr(SECRET_SHOWN)


cdef dict HIDDEN_CLASSES = {str: HiddenText, bytes: HiddenBytes, int: HiddenInt, float: HiddenFloat}

for hidden_class in HIDDEN_CLASSES.values():
    hidden_class.__module__ = "wirefmt.secrets"


cdef object hidden(object value):
    """A secret value in a type whose repr hides it, including the values in tuples and mappings."""
    found = HIDDEN_CLASSES.get(type(value))
    if found is not None:
        return found(value)
    if type(value) is tuple:
        return tuple([hidden(item) for item in <tuple>value])
    if type(value) is MappingProxyType:
        return MappingProxyType({key: hidden(item) for key, item in value.items()})
    return value


cdef object shown_entry(object name, object value):
    """The form of a map entry's value in a repr."""
    return SECRET_SHOWN if secret_name(name) else value
