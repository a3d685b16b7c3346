"""The config that a checkpoint carries, read as data: nothing in it is run."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from mmbam.utils.errors import InputError

_MAX_LENGTH = 10**6
_NUMBERS = {'inf': math.inf, 'nan': math.nan}


def config_of(content: Any) -> dict:
    """Read the config in the meta data of a checkpoint of mmengine's runner.

    Args:
        content (Any): Content of the file.

    Returns:
        dict: The config's variables; empty if there is none, or if it holds more than
        literals.
    """
    meta = content.get('meta') if isinstance(content, Mapping) else None
    text = meta.get('cfg') if isinstance(meta, Mapping) else None
    try:
        return literal_config(text) if isinstance(text, str) else {}
    except InputError:
        return {}


def literal_config(text: str) -> dict:
    """Read the text of a config that assigns literals, as mmengine writes it.

    Args:
        text (str): Lines like ``model = dict(type='BAM', sizes=[224, 96])``.

    Raises:
        InputError: It holds anything that would have to be run.
    """
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f'{len(text)} letters')
        # Deeply nested text overflows Python's parser.
        module = ast.parse(text)
        found = {}
        for node in module.body:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                raise ValueError('a statement')
            (target,) = node.targets
            if not isinstance(target, ast.Name):
                raise ValueError('an assignment to a part')
            found[target.id] = _value(node.value)
        return found
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise InputError(
            f'The config in the checkpoint holds more than literals ({error}).'
        ) from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {
            _value(key): _value(value)
            for key, value in zip(node.keys, node.values)
            if key is not None
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == 'dict' and not node.args:
            return {word.arg: _value(word.value) for word in node.keywords if word.arg}
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    return ast.literal_eval(node)
