"""Secrets: which entries are hidden, and the types of hidden values. The rule is in docs/secrets.md.

>>> from wirefmt.secrets import HiddenText, is_secret_name
>>> is_secret_name("X-Auth-Token")
True
>>> HiddenText("hunter2")
'***'
>>> HiddenText("hunter2") == "hunter2"
True
"""

from wirefmt import _core

HiddenBytes = _core.HiddenBytes
HiddenFloat = _core.HiddenFloat
HiddenInt = _core.HiddenInt
HiddenText = _core.HiddenText
is_secret_name = _core.secret_name

__all__ = ["HiddenBytes", "HiddenFloat", "HiddenInt", "HiddenText", "is_secret_name"]
