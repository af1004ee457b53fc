"""_core/secrets_table.pxi and docs/secrets.md from spec/secrets.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from tables.text import c_array

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def secrets_table(spec: ModuleType) -> list[str]:
    """A tree of the letters of the words, last letter first, since names are compared from their end."""
    tree = [[0] * 27]
    ends = [0]
    for row in spec.NAMES:
        node = 0
        for letter in reversed(row.word):
            if not tree[node][number(letter)]:
                tree[node][number(letter)] = len(tree)
                tree.append([0] * 27)
                ends.append(0)
            node = tree[node][number(letter)]
        ends[node] = 1 if row.whole else 2
    lines = ["", "", "cdef extern from *:", '    """']
    lines += c_array(
        f"unsigned short secret_next[{len(tree)}][27]", ("{" + ", ".join(map(str, row)) + "}" for row in tree)
    )
    lines += c_array("unsigned char secret_end[]", [", ".join(row) for row in sixteens(ends)])
    lines += c_array("unsigned char secret_letter[256]", [", ".join(row) for row in sixteens(letter_numbers())])
    lines += ['    """']
    lines += [
        "    const uint16_t (*secret_next)[27]      # by node and letter: the next node; 0: no word has this ending",
        "    const uint8_t* secret_end              # by node: 1 a word if no letters are left, 2 a word",
        "    const uint8_t* secret_letter           # by octet: 1 to 26 for letters of either case, 0 for others",
        "",
        "",
        "cdef enum:",
        f"    SECRET_SHORTEST = {min(len(row.word) for row in spec.NAMES)}",
    ]
    return lines


def number(letter: str) -> int:
    return LETTERS.index(letter) + 1


def letter_numbers() -> list[int]:
    return [number(chr(i).lower()) if i < 128 and chr(i).isalpha() else 0 for i in range(256)]


def sixteens(values: list[int]) -> Iterable[list[str]]:
    for i in range(0, len(values), 16):
        yield [str(v) for v in values[i : i + 16]]


def secrets_page(spec: ModuleType, protocol: Callable[[str], ModuleType]) -> list[str]:
    """docs/secrets.md. `protocol`: the specification of a protocol, by name."""
    lines = PAGE.format(shown=spec.SHOWN).splitlines()
    lines += ["| protocol | message | field |", "|---|---|---|"]
    for row in spec.PROTOCOLS:
        secrets = getattr(protocol(row.name), "SECRETS", ())
        lines += [f"| {row.name} | {message or 'any'} | `{field}` |" for message, field in secrets]
    lines += NAMES.splitlines()
    lines += [", ".join(f"`{row.word}`" for row in spec.NAMES if not row.whole) + "."]
    lines += ["", "As a whole name: " + ", ".join(f"`{row.word}`" for row in spec.NAMES if row.whole) + "."]
    return lines + REST.format(shown=spec.SHOWN).splitlines()


PAGE = """
# Secrets

wirefmt hides passwords, tokens and keys wherever it shows data: in the `repr` of objects, in error messages, in the
columns of `decode_batch` and of captures, in what the command line prints, and in Spark. One rule in one place decides:
`wirefmt/spec/secrets.py`. A value is shown only on request: `expose_credentials=True` in Python, `--expose-credentials`
on the command line, the option `expose_credentials` in Spark. A `repr` has no such option.

Attributes return the value: `packet.password` is the password, `encode()` gives the bytes that
were received, `pickle` stores them.

## Secret fields

These fields are secret by definition.
"""

NAMES = """
PHPMQ has no credentials.

## Secret names

An entry of a map is secret if its name ends with one of the words below. Only letters count, and case does not:
`SECRET_KEY`, `secretKey` and `x-secret-key-2` all end with `secretkey`. Maps are: User Properties and Will Properties of
MQTT; tables, headers and arguments of AMQP 0.9.1; maps of AMQP 1.0, annotations and application properties included;
`extFields` and message properties of RocketMQ; JSON of NSQ's IDENTIFY and of its responses. Nested maps count: a map
under a secret name is hidden as a whole, a secret entry within a map is hidden there.
"""

REST = """
## What is shown instead

| where | what |
|---|---|
| column of its own (`mqtt.password`, `amqp10.challenge`, `nsq.secret` ...) | null |
| entry of a map column, member of JSON text in a column | `{shown}` |
| `rocketmq.ext_fields` and `properties` of `decode_batch`: a properties string with a secret property | `{shown}` |
| `nsq.response`: JSON with a secret member | `{shown}` |
| `payload`: RocketMQ's JSON, settings or messages that name a secret | null |
| `raw`: the bytes of a message that has a secret entry | null, and `error` says so |
| `repr` | `{shown}` in place of the value |
| `wirefmt convert`: values that `--explain` and JSON lines list | `{shown}` |

A message whose `raw` is hidden is not converted by `decode --as` or `convert_table`: its `converted` is null. Expose
credentials to convert it.

Values in the sequences and mappings of an object (`properties` of MQTT, `ext_fields` of RocketMQ, `members` of NSQ) are
`HiddenText`, `HiddenBytes`, `HiddenInt` or `HiddenFloat` of `wirefmt.secrets`: subclasses of `str`, `bytes`, `int` and
`float` that equal the value and differ in their `repr` only. `wirefmt.secrets.is_secret_name` is the rule for names.

## What is not hidden

- Payloads of messages: wirefmt never searches them.
- User names and identifiers of clients.
- Values that are decoded without their message: `rocketmq.decode_json`, a list that `amqp10.decode_value` gives.
- Raw bytes: the packets table of Spark's first stage, `encode()`, the message that `wirefmt convert` prints.
"""
