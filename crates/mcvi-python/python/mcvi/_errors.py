"""The exceptions of the package. Their messages are those of the command."""


class Error(Exception):
    """Something went wrong; the message says what, and what to do about it."""


class UsageError(Error, ValueError):
    """Something that you can mend: a setting, a model, data, a file."""
