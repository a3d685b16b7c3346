"""Selection: the right network out of a file that may hold two."""

import pytest
import torch

from mmbam.checkpoints import select_backbone

STUDENT, TEACHER = torch.zeros(2), torch.ones(2)


def network(prefix, value, names=('backbone.w', 'neck.v')):
    return {prefix + name: value for name in names}


def taken(weights, source='auto'):
    backbone, source = select_backbone(weights, source)
    assert list(backbone) == ['w']
    assert torch.equal(backbone['w'], TEACHER if source == 'teacher' else STUDENT)
    return source


AVERAGE = {**network('', STUDENT), **network('teacher.', TEACHER)}


@pytest.mark.parametrize(
    'source, expected',
    [('auto', 'teacher'), ('teacher', 'teacher'), ('student', 'student')],
)
def test_a_moving_average_is_taken_unless_the_student_is_asked_for(source, expected):
    assert taken(AVERAGE, source) == expected


@pytest.mark.parametrize(
    'frozen',
    [
        {'teacher.backbone.w': torch.ones(3), 'teacher.neck.v': TEACHER},
        {'teacher.backbone.other': TEACHER, 'teacher.neck.v': TEACHER},
        {'teacher.backbone.w': TEACHER},  # the student's architecture, but no neck
    ],
)
def test_a_frozen_teacher_is_never_taken(frozen):
    weights = {**network('', STUDENT), **frozen}
    assert taken(weights) == taken(weights, 'student') == 'student'
    with pytest.raises(ValueError, match='frozen'):
        select_backbone(weights, 'teacher')


@pytest.mark.parametrize(
    'prefix',
    ['module.', '_orig_mod.', 'student.', 'student.module.', 'module.student.']
    + ['student._orig_mod.module.', ''],
)
@pytest.mark.parametrize('name', ['w', 'backbone.w', 'backbone._orig_mod.w'])
def test_prefixes_are_removed(prefix, name):
    assert taken({prefix + name: STUDENT}) == 'student'


def test_a_teacher_alone_is_enough():
    weights = network('teacher.module.', TEACHER)
    assert taken(weights) == 'teacher'
    with pytest.raises(ValueError, match='only a teacher'):
        select_backbone(weights, 'student')


def test_a_missing_teacher_is_said():
    with pytest.raises(ValueError, match='has none'):
        select_backbone(network('', STUDENT), 'teacher')


def test_an_unknown_source_is_named():
    with pytest.raises(ValueError, match="'auto', 'teacher', 'student'.*'ema'"):
        select_backbone(AVERAGE, 'ema')
