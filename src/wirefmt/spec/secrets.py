"""What is secret: one rule for reprs, columns, the command line and Spark.

A value is secret if it is one of `fields()`, or an entry of a map whose name ends with a word of `NAMES`. Secret values
are hidden unless credentials are exposed. Each codec has the fields of its protocol, the kernel has the names:
`tools/gen_tables.py` writes them into `_core/secrets_table.pxi`, and both into the page docs/secrets.md.
"""

from typing import Final, NamedTuple

from wirefmt.protocols import PROTOCOLS

#: Text shown instead of a secret value.
SHOWN: Final = "***"


class SecretField(NamedTuple):
    protocol: str
    message: str  # packet, method, performative or command; empty: every message of the protocol
    field: str


def fields() -> tuple[SecretField, ...]:
    """Fields that are secret according to their specifications: SECRETS of every protocol's spec.py, if it has them."""
    return tuple(SecretField(row.name, *pair) for row in PROTOCOLS for pair in getattr(row.spec(), "SECRETS", ()))


class SecretName(NamedTuple):
    word: str  # small letters only
    whole: bool = False  # the word is the whole name, not just its end


#: Names of secret entries. Only letters count, and case does not: SECRET_KEY, secretKey and x-secret-key end with
#: "secretkey". Entries are User Properties, fields of tables and maps, members of JSON, extFields, message properties.
NAMES: Final[tuple[SecretName, ...]] = (
    SecretName("password"),
    SecretName("passwords"),
    SecretName("passwordhash"),
    SecretName("passwd"),
    SecretName("passphrase"),
    SecretName("passcode"),
    SecretName("pwd"),
    SecretName("pass", whole=True),
    SecretName("secret"),
    SecretName("secrets"),
    SecretName("secretid"),
    SecretName("secretkey"),
    SecretName("sharedkey"),
    SecretName("accesskey"),
    SecretName("accesskeyid"),
    SecretName("apikey"),
    SecretName("authkey"),
    SecretName("accountkey"),
    SecretName("privatekey"),
    SecretName("signingkey"),
    SecretName("encryptionkey"),
    SecretName("masterkey"),
    SecretName("token"),
    SecretName("tokens"),
    SecretName("bearer"),
    SecretName("jwt"),
    SecretName("sas", whole=True),
    SecretName("sig", whole=True),
    SecretName("otp", whole=True),
    SecretName("signature"),
    SecretName("assertion"),
    SecretName("authorization"),
    SecretName("authenticationdata"),
    SecretName("authdata"),
    SecretName("cookie"),
    SecretName("cookies"),
    SecretName("credential"),
    SecretName("credentials"),
    SecretName("jaasconfig"),
    SecretName("connectionstring"),
)
