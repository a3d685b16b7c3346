"""The backbone among all weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from mmbam.utils.errors import InputError

from .names import TIMM_PREFIX, to_timm

SOURCES = ('auto', 'teacher', 'student')

_CONTAINERS = {'module', 'model'}
# Words in front of a weight's name: whose network it is, and whether that network's
# backbone begins there.
_NETWORKS = {
    'student': ('student', False),
    'teacher': ('teacher', False),
    'backbone': (None, True),
    'student_backbone': ('student', True),  # lightly
    'teacher_backbone': ('momentum', True),
    'backbone_momentum': ('momentum', True),
    'momentum_backbone': ('momentum', True),  # solo-learn
    'base_encoder': ('student', True),  # MoCo v3
    'momentum_encoder': ('momentum', True),
    'encoder_q': ('student', True),  # MoCo v1 and v2
    'encoder_k': ('momentum', True),
}
_MASKS = ('mask_token', 'masked_embed')
# First parts of names outside of a backbone: heads, projectors, the queue of MoCo, the
# decoder of MAE, tokens that stand for masked patches (DINOv2, iBOT).
_HEADS = {
    'fc',
    'classifier',
    'heads',
    'neck',
    'predictor',
    'projection',
    'projector',
    'pooler',
    'queue',
    'queue_ptr',
    *_MASKS,
}
_DECODER = ('decoder.', 'decoder_')


class Selected(NamedTuple):
    """A backbone in a checkpoint: its weights, whose it is, and where it was."""

    weights: dict[str, Tensor]
    source: str
    prefix: str


def select_backbone(
    weights: Mapping[str, Tensor], source: str = 'auto', prefix: str | None = None
) -> tuple[dict[str, Tensor], str]:
    """Take one network's backbone out of a checkpoint.

    Prefixes of wrappers (``module.``, ``model.``, ``_orig_mod.``), of roles
    (``student.``, ``teacher.``) and of backbones (``backbone.``, and those of MoCo,
    lightly and solo-learn) are removed. Where some names have that of a backbone, the
    others (necks, heads) are left out.

    Args:
        weights (Mapping[str, Tensor]): All weights, as :func:`read_weights` returns
            them.
        source (str): ``'teacher'``, ``'student'``, or ``'auto'`` for the teacher if it
            is a moving average of the student, else the student. Weights without
            either prefix are the student's. A teacher whose backbone or neck has other
            names or shapes than the student's is a frozen network and never taken.
            Momentum encoders of other projects are teachers that ``'auto'`` passes
            over, as those projects do. Defaults to ``'auto'``.
        prefix (str, optional): What the names of the backbone's weights begin with, in
            place of a known prefix. Defaults to None.

    Returns:
        tuple[dict[str, Tensor], str]: The weights with their names in the backbone, and
        ``'teacher'`` or ``'student'``.
    """
    return find_backbone(weights, source, prefix)[:2]


def find_backbone(
    weights: Mapping[str, Tensor], source: str = 'auto', prefix: str | None = None
) -> Selected:
    """Do what :func:`select_backbone` does, and tell the prefix of the weights."""
    if source not in SOURCES:
        raise InputError(f'source must be one of {SOURCES}, but got {source!r}.')
    if prefix is not None:
        prefix = prefix if prefix.endswith('.') or not prefix else f'{prefix}.'
        chosen = below(weights, prefix)
        if not chosen:
            first = sorted({name.split('.')[0] for name in weights})
            raise InputError(
                f'No weight has a name that begins with {prefix!r}: they begin with '
                f'{", ".join(first[:8])}{", ..." if len(first) > 8 else ""}.'
            )
        return Selected(chosen, source_of(prefix), prefix)
    # By role, then by whether the name has the prefix of a backbone.
    found: dict[str, dict[bool, dict[str, Tensor]]] = {
        role: {True: {}, False: {}} for role in ('student', 'teacher', 'momentum')
    }
    prefixes: dict[tuple[str, bool], str] = {}
    for name, value in weights.items():
        role, in_backbone, rest = _split(name)
        found[role][in_backbone][rest] = value
        if name.endswith(rest):  # compiled parts have a prefix in the middle
            prefixes.setdefault((role, in_backbone), name.removesuffix(rest))
    student, teacher, momentum = (of[True] or of[False] for of in found.values())
    average = bool(teacher) and (not student or _alike(found))
    if source == 'auto':
        source = 'teacher' if average or not student else 'student'
    if source == 'teacher' and not (average or momentum):
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
    role = 'momentum' if source == 'teacher' and not average else source
    in_backbone = bool(found[role][True])
    prefix = prefixes.get((role, in_backbone), '')
    return Selected(found[role][in_backbone], source, prefix)


def complete_prefixes(weights: Mapping[str, Tensor], expected: set[str]) -> list[str]:
    """Find the prefixes below which a file has all weights of a network.

    Args:
        weights (Mapping[str, Tensor]): All weights of the file.
        expected (set[str]): Names in timm of the network's weights.
    """
    needed = {name for name in expected if not name.endswith('num_batches_tracked')}
    if not needed:
        return []
    anchor = max(needed, key=len)
    cuts = {
        (name, cut)
        for name in weights
        for cut in (0, *(i + 1 for i, letter in enumerate(name) if letter == '.'))
    }
    prefixes = {name[:cut] for name, cut in cuts if to_timm(name[cut:]) == anchor}
    return sorted(
        prefix
        for prefix in prefixes
        # to_timm drops this last part, so the prefix without it is there as well.
        if not prefix.endswith(TIMM_PREFIX)
        and needed <= {to_timm(name) for name in below(weights, prefix)}
    )


def source_of(prefix: str) -> str:
    """Whose weights a prefix marks, ``'teacher'`` or ``'student'``."""
    return 'student' if _split(f'{prefix}x')[0] == 'student' else 'teacher'


def below(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Weights whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


def is_head(name: str) -> bool:
    """Whether a weight is of a head, projector, decoder or the like, by its name."""
    first = name.split('.')[0]
    return first.endswith('head') or first in _HEADS or name.startswith(_DECODER)


def _split(name: str) -> tuple[str, bool, str]:
    """Role, whether the name is of a backbone, and the name without prefixes."""
    role, in_backbone = 'student', False
    parts = [part for part in name.split('.') if part != '_orig_mod']
    while len(parts) > 1 and not in_backbone:
        if parts[0] in _NETWORKS:
            of, in_backbone = _NETWORKS[parts[0]]
            role = of or role
        elif parts[0] not in _CONTAINERS:
            break
        parts.pop(0)
    if in_backbone and parts[0] == 'module' and len(parts) > 1:
        parts.pop(0)
    return role, in_backbone, '.'.join(parts)


def _alike(found: Mapping[str, Mapping[bool, Mapping[str, Tensor]]]) -> bool:
    """Whether the teacher has the student's names and shapes, as an average has."""
    student, teacher = (
        {
            (in_backbone, name): tuple(value.shape)
            for in_backbone, part in found[role].items()
            for name, value in part.items()
            # iBOT masks the images of the student alone.
            if (in_backbone and name not in _MASKS)
            or (not in_backbone and (not found[role][True] or name.startswith('neck.')))
        }
        for role in ('student', 'teacher')
    )
    return student == teacher
