"""Methods are configs: how they are found, filled with values and refused."""

from __future__ import annotations

import pytest
import torch
from mmengine.registry import MODELS

from mmbam.comparison import Settings, load_method, method_names
from mmbam.comparison.config import run_config
from mmbam.comparison.method import fill, load_methods
from mmbam.utils.errors import InputError
from tests.helpers.folders import make_folders

MODEL = "model = dict(type='SimCLR', neck=dict(in_channels='=width'))"


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    make_folders(root)  # 24 images to train on
    return str(root)


@pytest.fixture
def write(tmp_path):
    def write_method(text, name='mine'):
        path = tmp_path / f'{name}.py'
        path.write_text(text)
        return path

    return write_method


def config_of(method, data, epochs=3, **kwargs):
    settings = Settings(data, epochs=epochs, size=16, batch_size=8, **kwargs)
    return run_config(method, settings, 0, epochs, 'folder')


def test_the_names_are_those_of_the_configs():
    assert {'bam', 'bam-teacher', 'dino', 'mae', 'simclr', 'swav'} <= {*method_names()}
    for name in method_names():
        method = load_method(name)
        assert method.name == name
        assert method.source.startswith('arXiv:') and method.own != '–'


def test_formulas_take_values_wherever_they_are():
    config = dict(a='=width', b=[dict(c='=2 * max(width, 3)')], d=('=cnn', 'x=1', 4))
    filled = fill(config, dict(width=8, cnn=True))
    assert filled == dict(a=8, b=[dict(c=16)], d=(True, 'x=1', 4))


@pytest.mark.parametrize(
    'formula, named',
    [('=widht', "'=widht'.*NameError.*width"), ('=1 +', 'SyntaxError')],
)
def test_a_wrong_formula_is_named_with_the_values_it_may_use(formula, named):
    with pytest.raises(InputError, match=named):
        fill(dict(a=formula), dict(width=8))


@pytest.mark.parametrize('backbone, width, cnn', [('resnet', 64, 1), ('vit', 128, 0)])
def test_a_method_is_filled_with_the_values_of_the_comparison(
    backbone, width, cnn, data, write
):
    method = load_method(
        write(
            """
model = dict(type='SimCLR', neck=[
    '=width', '=cnn', '=head_width', '=views', '=size', '=local_size', '=local_views',
    '=batch_size', '=epochs', '=epoch_steps', '=steps', '=backbone.type',
    '=momentum(0.5)', '=momentum(0.99)'])
"""
        )
    )
    cfg = config_of(method, data, epochs=20, backbone=backbone, head_width=24)
    kind = {'resnet': 'ResNet_CIFAR', 'vit': 'MoCoV3ViT'}[backbone]
    # 3 steps an epoch; an average spans at most a tenth of the 60 steps.
    expected = [width, cnn, 24, 2, 16, 8, 4, 8, 20, 3, 60, kind, 0.5, 1 - 10 / 60]
    assert cfg.model.neck == expected


def test_the_number_of_views_is_that_of_the_pipeline(data, write):
    model = "model = dict(type='X', views='=views')\n"
    multi_view = "dict(type='MultiView', num_views=[2, 3], transforms=[[], []])"
    for text, number in (
        ('', 2),
        (f'train_pipeline = [{multi_view}]', 5),
        ("train_pipeline = [dict(type='RandomFlip', prob=0.5)]", 1),
    ):
        method = load_method(write(model + text))
        assert config_of(method, data).model.views == number
    multi_crop = load_method('bam-multicrop')
    cfg = config_of(multi_crop, data, local_views=3)
    assert cfg.model.head.loss.num_views == 5


def test_a_method_may_change_all_that_is_shared(data, write):
    method = load_method(
        write(
            MODEL
            + """
custom_hooks = [dict(type='EMAHook')]
optim_wrapper = dict(optimizer=dict(lr='=0.1 * batch_size'))
"""
        )
    )
    cfg = config_of(method, data, options={'mine': {'optim_wrapper.clip_grad': None}})
    assert [hook.type for hook in cfg.custom_hooks] == [
        'mmbam.SeedByEpochHook',
        'EMAHook',
    ]
    assert cfg.optim_wrapper.optimizer == dict(type='AdamW', lr=0.8, weight_decay=0.04)
    assert cfg.optim_wrapper.clip_grad is None


def test_as_many_checkpoints_as_evaluations_are_kept_on_demand(data):
    method = load_method('bam')
    hook = config_of(method, data, epochs=21).default_hooks.checkpoint
    assert (hook.interval, hook.max_keep_ckpts) == (1, 1)
    kept = dict(keep=True, evaluations=5)
    hook = config_of(method, data, epochs=21, **kept).default_hooks.checkpoint
    assert (hook.interval, hook.max_keep_ckpts) == (4, -1)
    hook = config_of(method, data, epochs=3, **kept).default_hooks.checkpoint
    assert (hook.interval, hook.max_keep_ckpts) == (1, -1)


def test_all_methods_train_in_mixed_precision_on_demand(data):
    method = load_method('bam')
    assert config_of(method, data).optim_wrapper.type == 'OptimWrapper'
    wrapper = config_of(method, data, amp=True).optim_wrapper
    on_gpu = torch.cuda.is_available()
    assert wrapper.type == (
        'AmpOptimWrapper' if on_gpu else 'mmbam.AutocastOptimWrapper'
    )


@pytest.mark.parametrize(
    'text, named',
    [
        ("method = dict(title='Mine')", 'must hold model'),
        (MODEL + "\nmethod = dict(tilte='Mine')", 'tilte'),
    ],
)
def test_a_config_that_is_no_method_is_refused(text, named, write):
    with pytest.raises(InputError, match=named):
        load_method(write(text))


def test_methods_with_one_title_are_refused(write):
    path = write(MODEL + "\nmethod = dict(title='BAM')")
    with pytest.raises(InputError, match="the title 'BAM'"):
        load_methods(['bam', path])


def test_a_path_that_does_not_exist_is_named():
    with pytest.raises(InputError, match='nowhere/mine.py'):
        load_method('nowhere/mine.py')


def test_swavs_neck_for_vectors_can_be_named_in_a_config():
    torch.manual_seed(0)
    neck = MODELS.build(
        dict(
            type='mmbam.VectorSwAVNeck',
            in_channels=6,
            hid_channels=8,
            out_channels=4,
            with_avg_pool=False,
            norm_cfg=dict(type='BN1d'),
        )
    )
    large, small = torch.randn(4, 6), torch.randn(2, 6)
    out = neck([(large,), (small,)])
    expected = neck.projection_neck(torch.cat([large, small]))
    expected = torch.nn.functional.normalize(expected, dim=1)
    torch.testing.assert_close(out, expected)
