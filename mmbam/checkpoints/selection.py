"""The backbone among all weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from mmbam.utils.errors import InputError

SOURCES = ('auto', 'teacher', 'student')


def select_backbone(
    weights: Mapping[str, Tensor], source: str = 'auto'
) -> tuple[dict[str, Tensor], str]:
    """Take one network's backbone out of a checkpoint.

    The prefixes ``module.``, ``_orig_mod.``, ``student.``, ``teacher.`` and
    ``backbone.`` are removed. Where some names have ``backbone.``, the others (necks,
    heads) are left out.

    Args:
        weights (Mapping[str, Tensor]): All weights, as :func:`read_weights` returns
            them.
        source (str): ``'teacher'``, ``'student'``, or ``'auto'`` for the teacher if it
            is a moving average of the student, else the student. Weights without
            either word are the student's. A teacher whose backbone or neck has other
            names or shapes than the student's is a frozen network that was only learnt
            from, and never taken. Defaults to ``'auto'``.

    Returns:
        tuple[dict[str, Tensor], str]: The weights with their names in the backbone, and
        ``'teacher'`` or ``'student'``.
    """
    if source not in SOURCES:
        raise InputError(f'source must be one of {SOURCES}, but got {source!r}.')
    # By role, then by whether the name says that it is the backbone's.
    found: dict[str, dict[bool, dict[str, Tensor]]] = {
        role: {True: {}, False: {}} for role in ('student', 'teacher')
    }
    for name, value in weights.items():
        role, in_backbone, rest = _split(name)
        found[role][in_backbone][rest] = value
    student, teacher = (
        found[role][True] or found[role][False] for role in ('student', 'teacher')
    )
    average = bool(teacher) and (not student or _alike(found))
    if source == 'auto':
        source = 'teacher' if average else 'student'
    if source == 'teacher' and not average:
        raise InputError(
            "source='teacher' needs a teacher that is a moving average of the student, "
            f'but the checkpoint has {"a frozen one" if teacher else "none"}: use '
            "source='student' or 'auto'."
        )
    if source == 'student' and not student:
        raise InputError(
            "source='student' needs weights of a student, but the checkpoint has only "
            "a teacher's: use source='teacher' or 'auto'."
        )
    return (teacher if source == 'teacher' else student), source


def is_head(name: str) -> bool:
    """Whether a weight is of what sits on a backbone and may be left over."""
    first = name.split('.')[0]
    return first.endswith('head') or first in {
        'fc',
        'classifier',
        'heads',
        'neck',
        'predictor',
        'projection',
        'projector',
    }


def _split(name: str) -> tuple[str, bool, str]:
    """Role, whether ``backbone.`` was there, and the name without prefixes."""
    role = 'student'
    parts = [part for part in name.split('.') if part != '_orig_mod']
    while len(parts) > 1 and parts[0] in ('module', 'student', 'teacher'):
        prefix = parts.pop(0)
        role = role if prefix == 'module' else prefix
    in_backbone = parts[0] == 'backbone' and len(parts) > 1
    if in_backbone:
        parts = parts[1:]
        parts = parts[1:] if parts[0] == 'module' and len(parts) > 1 else parts
    return role, in_backbone, '.'.join(parts)


def _alike(found: Mapping[str, Mapping[bool, Mapping[str, Tensor]]]) -> bool:
    """Whether the teacher has the student's names and shapes, as an average has."""
    student, teacher = (
        {
            (in_backbone, name): tuple(value.shape)
            for in_backbone, part in found[role].items()
            for name, value in part.items()
            if in_backbone or not found[role][True] or name.startswith('neck.')
        }
        for role in ('student', 'teacher')
    )
    return student == teacher
