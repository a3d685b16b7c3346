"""Settings of the demo and of the chain."""

import pytest

from mmbam.demo.chain import ChainSettings, detector_config, segmentor_config
from mmbam.demo.run import DemoSettings, demo_config, tiny_config
from mmbam.utils.errors import InputError


def test_the_number_of_epochs_is_the_configs_unless_given():
    config = tiny_config('bam_vit_32px')
    assert DemoSettings('vit').epochs == config.train_cfg.max_epochs
    assert DemoSettings('vit', epochs=7).epochs == 7
    with pytest.raises(InputError, match='epochs must be at least 2, got 1'):
        DemoSettings(epochs=1)


def test_a_shorter_run_has_shorter_schedules():
    cfg = demo_config(DemoSettings(epochs=6, seed=3, out='there'), 'images')
    assert cfg.train_cfg.max_epochs == 6 == max(s.end for s in cfg.param_scheduler)
    assert cfg.randomness.seed == 3 and cfg.work_dir == 'there/run'
    with pytest.raises(InputError, match='10 patches .* do not fill a batch'):
        demo_config(DemoSettings(patches=(10, 10)), 'images')


@pytest.mark.parametrize('backbone', ['resnet', 'vit'])
def test_heads_are_trained_for_the_length_asked_for(backbone):
    settings = ChainSettings(backbone, detection_epochs=3, segmentation_iters=5)
    detector = detector_config(settings, 'coco')
    assert detector.train_cfg.max_epochs == 3 < detector.train_cfg.val_interval
    assert detector.val_evaluator.ann_file == 'coco/annotations/instances_val2017.json'
    segmentor = segmentor_config(settings, 'ade')
    assert segmentor.train_cfg.max_iters == 5 < segmentor.train_cfg.val_interval
    assert segmentor.train_dataloader.dataset.data_root == 'ade'
    assert settings.of_demo() == DemoSettings(backbone)
