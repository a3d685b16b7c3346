"""What the user gave is wrong, and one sentence says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError, FileNotFoundError):
    """A folder, file, checkpoint or config of the user does not fit.

    Its message is enough: commands show it without a traceback. It is both of the
    errors that Python has for this, so that either may be expected.
    """


# OpenMMLab's data sets refuse what they were given by any of these.
REFUSALS = (OSError, ValueError, RuntimeError, AssertionError)
# What comes out of mmengine when it packs a data set that has nothing in it.
_EMPTY = 'need at least one array to concatenate'


@contextmanager
def input_errors(
    kinds: tuple[type[Exception], ...] = REFUSALS, of: str = ''
) -> Iterator[None]:
    """Turn the errors by which libraries refuse what they were given into InputError.

    What only a bug raises (TypeError, AttributeError ...) passes as it is.

    Args:
        kinds (tuple[type[Exception], ...]): Errors to turn. Defaults to OSError,
            ValueError, RuntimeError and AssertionError.
        of (str): What was wrong, put in front of the message. Defaults to none.
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        message = _sentence(error)
        raise InputError(f'{of}: {message}' if of else message) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f'there is no {str(error.filename)!r}.'
    if str(error) == _EMPTY:
        return 'there is no image, or none with an object of the classes in the config.'
    # One line, whatever the library made of it.
    return ' '.join(str(error).split()) or type(error).__name__
