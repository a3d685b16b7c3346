"""LocalizeHook: the right boxes at the right time, and training none the wiser."""

import numpy as np
import pytest
import torch

from mmbam.checkpoints import load_training_checkpoint
from mmbam.engine.hooks import LocalizeHook
from mmbam.engine.hooks.localize_hook import KEY
from tests.helpers.blobs import (
    Toy,
    build,
    dataset,
    localize_cfg,
    weights,
    write_blobs,
)
from tests.helpers.distributed import run_ranks

SEED = dict(type='mmbam.SeedByEpochHook')


def hook_of(runner):
    return next(hook for hook in runner.hooks if isinstance(hook, LocalizeHook))


def table_of(runner):
    crops = runner.train_dataloader.dataset.pipeline.transforms[2].pipelines[0]
    return crops.transforms[0].boxes


@pytest.fixture
def blobs(tmp_path):
    write_blobs(tmp_path / 'blobs')
    return tmp_path / 'blobs'


@pytest.fixture
def epochs(monkeypatch):
    """The epochs at whose beginning something was localized."""
    seen = []
    original = LocalizeHook._localize
    monkeypatch.setattr(
        LocalizeHook,
        '_localize',
        lambda self, runner: seen.append(runner.epoch) or original(self, runner),
    )
    return seen


def test_the_target_backbone_finds_the_rectangles(tmp_path):
    expected = write_blobs(tmp_path / 'blobs')
    data = dataset(tmp_path / 'blobs')
    runner = build(data, tmp_path / 'run', [localize_cfg()], epochs=2)
    runner.train()
    torch.testing.assert_close(table_of(runner).read(), expected)


def test_a_model_without_teacher_is_read_through_its_backbone(tmp_path, blobs):
    runner = build(dataset(blobs), tmp_path / 'run', [localize_cfg()], epochs=2)
    found = []
    for target in (runner.model.target_backbone, None):
        runner.model.backbone = torch.nn.AvgPool2d(2)
        runner.model.target_backbone = target
        hook = hook_of(runner)
        hook.before_train(runner)
        hook._localize(runner)
        found.append(table_of(runner).read())
    assert torch.equal(*found)


def test_crops_are_random_at_first_and_boxes_are_refreshed(tmp_path, blobs, epochs):
    runner = build(dataset(blobs), tmp_path / 'run', [localize_cfg(interval=3)], 6)
    runner.train()
    assert epochs == [1, 4]


@pytest.mark.parametrize('method', ['fork', 'spawn'])
def test_persistent_workers_crop_by_the_boxes_of_the_epoch(tmp_path, blobs, method):
    loader = dict(
        num_workers=2, persistent_workers=True, multiprocessing_context=method
    )
    hooks = [localize_cfg(num_workers=0), SEED]
    workers = build(dataset(blobs), tmp_path / 'a', hooks, 3, loader=loader)
    alone = build(dataset(blobs), tmp_path / 'b', hooks, 3)
    for runner in (workers, alone):
        runner.train()
    assert workers.model.mean_inputs == alone.model.mean_inputs
    brightness = np.reshape(alone.model.mean_inputs, (3, -1)).mean(axis=1)
    # Crops in the box are all bright, (255 - 100) / 50; crops anywhere are not.
    assert brightness[0] < 2 and brightness[1] > 2.9 and brightness[2] > 2.9


def localized_on_a_rank(folder):
    runner = build(dataset(folder), folder.parent / 'run', [localize_cfg()], epochs=2)
    runner.train()
    return table_of(runner).read().numpy()


def test_two_ranks_write_the_table_of_one(tmp_path):
    expected = write_blobs(tmp_path / 'blobs', number=11)
    first, second = run_ranks(localized_on_a_rank, 2, tmp_path / 'blobs')
    np.testing.assert_array_equal(first, localized_on_a_rank(tmp_path / 'blobs'))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, expected.numpy())


@pytest.mark.parametrize('stop', [1, 2, 3])
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, blobs, epochs, stop):
    def run(name, last, **kwargs):
        runner = build(
            dataset(blobs), tmp_path / name, [localize_cfg(), SEED], last, **kwargs
        )
        runner.train()
        return runner

    whole = run('whole', 4)
    assert epochs == [1, 3]
    run('parts', stop)
    del epochs[:]
    resumed = run('parts', 4, resume=True)
    # Stopping right before a refresh, the refresh is still to come.
    assert epochs == [epoch for epoch in (1, 3) if epoch >= stop]
    assert torch.equal(weights(resumed), weights(whole))
    assert torch.equal(table_of(resumed).read(), table_of(whole).read())


def test_boxes_of_other_data_are_refused(tmp_path, blobs):
    build(dataset(blobs), tmp_path / 'run', [localize_cfg()], 2).train()
    write_blobs(tmp_path / 'more', number=12)
    runner = build(
        dataset(tmp_path / 'more'), tmp_path / 'run', [localize_cfg()], 4, resume=True
    )
    with pytest.raises(ValueError, match=r'of \[10\] images.* trains on \[12\]'):
        runner.train()


def test_weights_to_start_from_bring_no_boxes(tmp_path, blobs, epochs):
    build(dataset(blobs), tmp_path / 'first', [localize_cfg()], 2).train()
    write_blobs(tmp_path / 'more', number=12)
    runner = build(
        dataset(tmp_path / 'more'),
        tmp_path / 'second',
        [localize_cfg()],
        epochs=1,
        load_from=str(tmp_path / 'first/epoch_2.pth'),
    )
    runner.train()
    assert epochs == [1]
    assert table_of(runner)[0] is None


def test_a_run_resumed_without_boxes_localizes_at_once(tmp_path, blobs, epochs):
    build(dataset(blobs), tmp_path / 'run', [], 2).train()
    hooks = [localize_cfg()]
    build(dataset(blobs), tmp_path / 'run', hooks, 4, resume=True).train()
    assert epochs == [2, 3]


def test_a_checkpoint_holds_the_boxes_once_there_are_any(tmp_path, blobs):
    runner = build(dataset(blobs), tmp_path / 'run', [localize_cfg()], 2)
    runner.train()
    boxes = [
        load_training_checkpoint(tmp_path / f'run/epoch_{n}.pth').get(KEY)
        for n in (1, 2)
    ]
    assert boxes[0] is None
    assert torch.equal(boxes[1]['boxes'], table_of(runner).read())


def test_training_is_not_disturbed(tmp_path, blobs):
    """The same weights with the hook and without, if nothing uses its boxes."""
    data = dataset(blobs, dict(type='mmbam.BoxedCrop', use_boxes=False), seeded=False)
    found = []
    for name, hooks in (('without', []), ('with', [localize_cfg()])):
        runner = build(data, tmp_path / name, hooks)
        runner.model.target_backbone = runner.model.backbone
        runner.train()
        found.append(weights(runner))
    assert torch.equal(*found)


def test_modes_are_put_back_module_by_module(tmp_path, blobs):
    runner = build(dataset(blobs), tmp_path / 'run', [localize_cfg()], 2)
    runner.train()
    model = runner.model
    model.target_backbone = model.backbone
    model.train()
    model.backbone[1].eval()
    hook_of(runner)._localize(runner)
    assert [m.training for m in model.backbone] == [True, False, True]


def test_images_that_cannot_be_read_are_reported_and_have_no_box(tmp_path, blobs):
    runner = build(dataset(blobs), tmp_path / 'run', [localize_cfg()], 2)
    hook = hook_of(runner)
    hook.before_train(runner)
    (blobs / '003.png').write_bytes(b'no image')
    (blobs / '007.png').unlink()
    hook._localize(runner)
    table = table_of(runner)
    assert [i for i in range(10) if table[i] is None] == [3, 7]
    log = next((tmp_path / 'run').glob('*/*.log')).read_text()
    assert '003.png: ' in log and '007.png: FileNotFoundError' in log
    assert '2 images could not be read' in log


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(start_epoch=-1), 'start_epoch must be an integer of at least 0'),
        (dict(interval=0), 'interval must be an integer of at least 1'),
        (dict(image_size=0.5), 'image_size must be an integer of at least 1'),
        (dict(num_workers=-1), 'num_workers must be an integer of at least 0'),
        (dict(threshold=1), r'threshold must be in \[0, 1\), got 1'),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalizeHook(**arguments)


def test_what_cannot_use_boxes_is_refused(tmp_path, blobs):
    flip = dict(type='RandomFlip', prob=0.5)
    runner = build(dataset(blobs, flip), tmp_path / 'a', [localize_cfg()])
    with pytest.raises(ValueError, match='No transform of CustomDataset.pipeline uses'):
        runner.train()
    loop = dict(by_epoch=False, max_iters=2)
    runner = build(dataset(blobs), tmp_path / 'b', [localize_cfg()], train_cfg=loop)
    with pytest.raises(ValueError, match='LocalizeHook counts epochs'):
        runner.train()


class Headless(Toy):
    def __init__(self):
        super().__init__()
        self.network, self.backbone, self.target_backbone = self.backbone, None, None

    def forward(self, inputs, data_samples=None, mode='loss'):
        return dict(loss=self.network(inputs[0]).mean())


def test_a_model_without_backbone_is_named(tmp_path, blobs):
    runner = build(
        dataset(blobs), tmp_path / 'run', [localize_cfg(start_epoch=0)], model=Headless
    )
    with pytest.raises(ValueError, match='`backbone`, which Headless does not have'):
        runner.train()
