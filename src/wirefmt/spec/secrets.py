"""What is secret: one rule for reprs, columns, the command line and Spark.

A value is secret if it is a field of `FIELDS`, or an entry of a map whose name ends with a word of `NAMES`. Secret values
are hidden unless credentials are exposed. The compiled core has both tables: `tools/gen_tables.py` writes the names into
`_core/secrets_table.pxi`, and both tables into the page docs/secrets.md.
"""

from typing import Final, NamedTuple

#: Text shown instead of a secret value.
SHOWN: Final = "***"


class SecretField(NamedTuple):
    protocol: str
    message: str  # packet, method, performative or command; empty: every message of the protocol
    field: str


#: Fields that are secret according to their specifications.
FIELDS: Final[tuple[SecretField, ...]] = (
    SecretField("mqtt", "CONNECT", "password"),
    SecretField("mqtt", "", "authentication_data"),  # CONNECT, CONNACK, AUTH
    SecretField("amqp091", "connection.start-ok", "response"),
    SecretField("amqp091", "connection.secure", "challenge"),
    SecretField("amqp091", "connection.secure-ok", "response"),
    SecretField("amqp091", "connection.update-secret", "new_secret"),
    SecretField("amqp10", "sasl-init", "initial_response"),
    SecretField("amqp10", "sasl-challenge", "challenge"),
    SecretField("amqp10", "sasl-response", "response"),
    SecretField("amqp10", "sasl-outcome", "additional_data"),
    SecretField("nsq", "AUTH", "secret"),
)


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
