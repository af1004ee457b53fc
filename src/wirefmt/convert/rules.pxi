# Conversion rules as the core runs them: rows of wirefmt/convert/rules, compiled to numbers by wirefmt/convert/dialects.py.
#
# For each pair of protocols, field of the source and type of value there is a chain of rows. The first row whose
# condition holds converts the value; without such a row the value is not converted. Values within headers and maps have
# their own chains, by type only.


cdef enum:
    CONVERT_FIELDS_MAX = 32     # above the number of any field of a protocol
    CONVERT_TYPES_MAX = 32      # above the number of any type


cdef struct ConvertRow:
    uint16_t next               # the row to try if this one's condition does not hold; 0: none
    uint8_t when                # a ConvertWhen
    uint8_t how                 # a ConvertHow
    uint8_t target              # field of the target's protocol; 0: none
    uint8_t type                # type there; 0: the conversion decides
    uint8_t moved               # the value goes to another kind of place: report it
    uint8_t key_prefix          # `key` is a prefix of keys
    uint16_t key_size, name_size
    const char* key             # key of the header, annotation or property of the row; NULL: any
    const char* name            # its key in the target; NULL: the same key
    uint16_t number             # row of `ids`


cdef struct ConvertPair:
    uint16_t first[CONVERT_FIELDS_MAX][CONVERT_TYPES_MAX]
    uint16_t item[CONVERT_TYPES_MAX]            # values within headers, annotations, properties
    uint8_t there                               # the pair has rules


@cython.final
cdef class ConvertRules:
    """A compiled dialect. Immutable: any number of threads may convert by it.

    ConvertRules(rows, ids, valid=False): `rows` are tuples (source, target, field, types, key, when, how, to_field, to_type,
    name, moved, number), all numbers except the keys; field 0 means a row of types. `valid`: values that the target's
    specification does not allow are dropped, whatever the row says.
    """
    cdef ConvertRow* rows
    cdef ConvertPair* pairs
    cdef readonly tuple ids
    cdef readonly bint valid
    cdef bint same_is_identity      # a message for its own protocol keeps its octets; otherwise it is written again
    cdef bint annotation_keys       # refuse keys of annotations that do not begin with x-
    cdef bint short_arrays          # refuse arrays whose elements are in a short encoding
    cdef bint all_fields            # write nulls after the last field of a header or properties
    cdef bint sections              # refuse messages without a body, or with sections out of order
    cdef bint expiry_delivered      # an MQTT consumer receives the expiry of messages from other protocols
    cdef uint8_t short_strings      # octets of the longest string or binary whose size is written in one octet
    cdef list names                 # owns the keys

    def __init__(self, rows, ids, *, bint valid=False, bint annotation_keys=False, bint same_is_identity=True,
                 bint short_arrays=False, bint sections=True, bint all_fields=False, uint8_t short_strings=255,
                 bint expiry_delivered=True):
        cdef ConvertRow* row
        cdef ConvertPair* pair
        cdef uint16_t* slot
        cdef int i = 1
        rows = list(rows)
        if len(rows) > 0xFFFF:
            raise ValueError("more than 65535 rows")
        self.rows = <ConvertRow*>calloc(len(rows) + 1, sizeof(ConvertRow))
        self.pairs = <ConvertPair*>calloc(CONVERT_PROTOCOLS * CONVERT_PROTOCOLS, sizeof(ConvertPair))
        if self.rows == NULL or self.pairs == NULL:
            raise MemoryError
        self.ids = tuple(ids)
        self.valid = valid
        self.annotation_keys = annotation_keys
        self.same_is_identity = same_is_identity
        self.short_arrays = short_arrays
        self.sections = sections
        self.all_fields = all_fields
        self.short_strings = short_strings
        self.expiry_delivered = expiry_delivered
        self.names = []
        # last row first, so that each row only needs the one after it
        for source, target, field, type_, key, when, how, to_field, to_type, name, moved, number in reversed(rows):
            if not (0 <= source < CONVERT_PROTOCOLS and 0 <= target < CONVERT_PROTOCOLS and 0 <= field < CONVERT_FIELDS_MAX and
                    0 <= type_ < CONVERT_TYPES_MAX and 0 <= when < WHEN_COUNT and 0 <= how < HOW_COUNT and
                    0 <= to_field < CONVERT_FIELDS_MAX and 0 <= to_type < CONVERT_TYPES_MAX and 0 <= number < len(self.ids)):
                raise ValueError(f"row {len(rows) - i} has an invalid number")
            row = &self.rows[i]
            pair = &self.pairs[<int>source * CONVERT_PROTOCOLS + <int>target]
            pair.there = 1
            slot = &pair.item[<int>type_] if field == 0 else &pair.first[<int>field][<int>type_]
            row.next = slot[0]
            row.when = when
            row.how = how
            row.target = to_field
            row.type = to_type
            row.moved = moved
            row.number = number
            self.keep_key(row, key, name)
            slot[0] = <uint16_t>i
            i += 1

    cdef int keep_key(self, ConvertRow* row, bytes key, bytes name) except -1:
        if key is not None:
            row.key_prefix = key.endswith(b"*")
            key = key[:len(key) - 1] if row.key_prefix else key
            self.names.append(key)
            row.key = PyBytes_AS_STRING(key)
            row.key_size = <uint16_t>PyBytes_GET_SIZE(key)
        if name is not None:
            self.names.append(name)
            row.name = PyBytes_AS_STRING(name)
            row.name_size = <uint16_t>PyBytes_GET_SIZE(name)
        return 0

    def __dealloc__(self):
        free(self.rows)
        free(self.pairs)


cdef inline const ConvertPair* convert_pair(ConvertRules rules, int source, int target) noexcept:
    return &rules.pairs[source * CONVERT_PROTOCOLS + target]
