"""What the beginning of a report tells: the class of the exception, read without the rest."""

import re

# A report's text begins with its error, and that with the names of the exception's class and its bases.
ERROR_CLASS = re.compile(r'\s*\{\s*"error":\s*\{\s*"classes":\s*\[\s*"((?:[^"\\]|\\.)*)"')


def error_class(report_head: str) -> str:
    """Read the exception's class out of the first characters of a report; empty without any."""
    found = ERROR_CLASS.match(report_head)
    return found[1] if found else ""
