"""Random filter expressions and properties, right and wrong ones."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "_x", "$y", "TAGS")
NUMBERS = ("0", "1", "5", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "7L", "7l", "3000000000L",
           "1.5", "0.0", "00.5", "5.", ".5", "5E10", "5e-2", "1e400", "1e-400", "5.E1", "007", "0L", "1.5f")  # fmt: skip
STRINGS = ("''", "'x'", "'5'", "'it''s'", "'true'", "'blü'", "'1.5'", "'a b'")
VALUES = ("5", "1", "-1", "+5", "007", "1.5", " 1.5 ", "5 ", "1e3", "NaN", "-Infinity", "0x1p3", "0x1.8p1", "1f",
          "2147483648", "9223372036854775808", "true", "TRUE", "false", "x", "xyz", "it's", "blü", "٣", "-0", "0", ".", "1_000",
          "=")  # fmt: skip
SYMBOLS = ("=", "<>", ">", ">=", "<", "<=", "(", ")", ",", "+", "-", "AND", "or", "NOT", "IS", "NULL", "IN", "BETWEEN",
           "CONTAINS", "#", "!", "--", "-- c\n", "/* c */", "/*", "'", '"', "LIKE")  # fmt: skip


def word(random: Random, text: str) -> str:
    """A keyword as somebody might write it."""
    return random.choice((text, text, text.lower(), text.capitalize()))


def operand(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.45:
        return random.choice(NAMES)
    if kind < 0.7:
        return random.choice(NUMBERS)
    if kind < 0.8:
        return random.choice(STRINGS)
    if kind < 0.85:
        return word(random, random.choice(("TRUE", "FALSE", "NULL")))
    if kind < 0.93:
        return random.choice(("-", "+", "- ", "NOT ")) + operand(random, depth)
    return f"({expression(random, depth - 1)})" if depth > 0 else random.choice(NAMES)


def condition(random: Random, depth: int) -> str:
    left, negative = operand(random, depth), random.choice(("", "", word(random, "NOT") + " "))
    match random.randrange(8):
        case 0 | 1:
            return f"{left} {random.choice(('=', '<>'))} {operand(random, depth)}"
        case 2 | 3:
            return f"{left}{random.choice(('>', '>=', '<', '<='))}{operand(random, depth)}"
        case 4:
            return f"{left} {word(random, 'IS')} {negative}{word(random, 'NULL')}"
        case 5:
            low, high = operand(random, depth), operand(random, depth)
            return f"{left} {negative}{word(random, 'BETWEEN')} {low} {word(random, 'AND')} {high}"
        case 6:
            texts = ", ".join(random.choice(STRINGS) for _ in range(random.randint(1, 6)))
            return f"{left} {negative}{word(random, 'IN')} ({texts})"
        case _:
            keyword = word(random, random.choice(("CONTAINS", "STARTSWITH", "ENDSWITH")))
            return f"{left} {negative}{keyword} {random.choice(STRINGS)}"


def expression(random: Random, depth: int = 3) -> str:
    kind = random.random()
    if depth <= 0 or kind < 0.4:
        return condition(random, depth)
    if kind < 0.5:
        return operand(random, depth)
    if kind < 0.6:
        return f"{word(random, 'NOT')} ({expression(random, depth - 1)})"
    if kind < 0.65:
        return f"({expression(random, depth - 1)})"
    joined = random.choice((" AND ", " or ", "\tOR\n", " /* x */and "))
    return joined.join(expression(random, depth - 1) for _ in range(random.randint(2, 3)))


def mangled(random: Random, text: str) -> str:
    """A part is cut out, doubled, or replaced."""
    begin = random.randrange(len(text) + 1)
    end = min(len(text), begin + random.randint(0, 4))
    middle = random.choice(("", text[begin:end] * 2, random.choice(SYMBOLS), " " + random.choice(SYMBOLS) + " "))
    return text[:begin] + middle + text[end:]


def example(random: Random) -> tuple[str, dict[str, str]]:
    text = expression(random)
    while random.random() < 0.3:
        text = mangled(random, text)
    return text, {name: random.choice(VALUES) for name in NAMES if random.random() < 0.7}
