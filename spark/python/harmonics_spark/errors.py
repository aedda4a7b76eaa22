"""What went wrong in the session's Java machine, in a line."""

from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException


class HarmonicsError(RuntimeError):
    """Its text is one line. `java_error` is what came, with the stack of the Java machine."""

    def __init__(self, line, java_error):
        super().__init__(line)
        self.java_error = java_error


def first_line(error):
    """The first line of the message of a Java exception."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text = error.java_exception.getMessage() or error.java_exception.toString()
    return (text.strip().splitlines() or ['an error without words'])[0]


@contextmanager
def in_one_line():
    """Turns exceptions of the Java machine into HarmonicsError."""
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        raise HarmonicsError(first_line(error), error) from None
