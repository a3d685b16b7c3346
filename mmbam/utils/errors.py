"""Errors whose one sentence is enough: commands show them without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ExpectedError(Exception):
    """An error that is no bug; its message says all that the user needs."""


class InputError(ExpectedError, ValueError, FileNotFoundError):
    """A folder, file, checkpoint, config or option of the user is wrong.

    Subclasses both, so that existing ``except`` clauses keep working.
    """


# What OpenMMLab's data sets raise for wrong arguments and files.
REFUSALS = (OSError, ValueError, RuntimeError, AssertionError)
# mmengine's message when it packs an empty data set.
_EMPTY = 'need at least one array to concatenate'


@contextmanager
def input_errors(
    kinds: tuple[type[Exception], ...] = REFUSALS, of: str = ''
) -> Iterator[None]:
    """Turn the errors that libraries raise for wrong input into InputError.

    Errors that only a bug raises (TypeError, AttributeError ...) pass unchanged.

    Args:
        kinds (tuple[type[Exception], ...]): Errors to turn. Defaults to OSError,
            ValueError, RuntimeError and AssertionError.
        of (str): Subject to put in front of the message. Defaults to none.
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
    # Some libraries write several lines.
    return ' '.join(str(error).split()) or type(error).__name__
