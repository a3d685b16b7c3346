"""The config that a checkpoint carries, read as data: nothing in it is run."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

_MAX_LENGTH = 10**6
_NUMBERS = {'inf': math.inf, 'nan': math.nan}


def config_of(content: Any) -> dict:
    """Read the config in the meta data of a checkpoint of mmengine's runner.

    Args:
        content (Any): Content of the file.

    Returns:
        dict: The config's variables; empty if there is none.
    """
    meta = content.get('meta') if isinstance(content, Mapping) else None
    text = meta.get('cfg') if isinstance(meta, Mapping) else None
    return literal_config(text) if isinstance(text, str) else {}


def literal_config(text: str) -> dict:
    """Read the text of a config as mmengine writes it.

    Args:
        text (str): Lines like ``model = dict(type='BAM', sizes=[224, 96])``.

    Returns:
        dict: The variables whose values are literals. All that would have to be run is
        left out.
    """
    if len(text) > _MAX_LENGTH:
        return {}
    try:
        statements = ast.parse(text).body
    # What Python raises for text that is no program, or is nested too deeply.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for node in statements:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = _value(node.value)
            except (ValueError, TypeError, RecursionError):
                continue
    return found


def _value(node: ast.expr) -> Any:
    """Value of a literal, in which ``dict(a=1)`` counts as one."""
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return {
            ast.literal_eval(key) if key else None: _value(value)
            for key, value in zip(node.keys, node.values)
        }
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id != 'dict' or node.args:
            raise ValueError('a call')
        found: dict = {}
        for word in node.keywords:
            value = _value(word.value)
            found.update({word.arg: value} if word.arg else value)
        return found
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    return ast.literal_eval(node)
