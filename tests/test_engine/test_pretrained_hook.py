"""PretrainedBackboneHook: training starts from the file's weights, or not at all."""

import pytest
import torch
from mmengine.model import BaseModel, MMDistributedDataParallel
from mmengine.runner import Runner
from torch import nn

from mmbam.engine.hooks import PretrainedBackboneHook
from tests.helpers.distributed import run_ranks


class Toy(BaseModel):
    """A model with a moving average, as BAM has one."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(2, 2)
        self.teacher = nn.Linear(2, 2).requires_grad_(False)

    def init_teacher(self):
        self.teacher.load_state_dict(self.backbone.state_dict())

    def forward(self, inputs, data_samples=None, mode='loss'):
        return dict(loss=self.backbone(torch.stack(inputs)).square().mean())


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return dict(inputs=torch.ones(2))


def train(work_dir, hooks, epochs=1, lr=0.0, model=None, **kwargs):
    runner = Runner(
        model or Toy(),
        work_dir=str(work_dir),
        train_dataloader=dict(
            batch_size=2,
            dataset=Data(),
            sampler=dict(type='DefaultSampler', shuffle=False),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=lr)),
        custom_hooks=hooks,
        experiment_name=work_dir.name,
        log_level='WARNING',
        **kwargs,
    )
    runner.train()
    return runner


@pytest.fixture
def checkpoint(tmp_path):
    weights = {'weight': torch.full((2, 2), 3.0), 'bias': torch.full((2,), 4.0)}
    weights = {f'backbone.{name}': value for name, value in weights.items()}
    teacher = {f'teacher.{name}': value + 1 for name, value in weights.items()}
    torch.save(dict(state_dict={**weights, **teacher}), tmp_path / 'pretrained.pth')
    return str(tmp_path / 'pretrained.pth')


def hook(checkpoint, **kwargs):
    return dict(type='mmbam.PretrainedBackboneHook', checkpoint=checkpoint, **kwargs)


@pytest.mark.parametrize('source, value', [('auto', 4), ('student', 3)])
def test_training_starts_from_the_file(tmp_path, checkpoint, source, value):
    model = train(tmp_path / 'run', [hook(checkpoint, source=source)]).model
    assert model.backbone.weight.eq(value).all()
    assert model.teacher.weight.eq(value).all()  # the average starts equal


def test_a_prefix_names_the_network(tmp_path, checkpoint):
    named = hook(checkpoint, prefix='teacher.backbone.', source='student')
    assert train(tmp_path / 'run', [named]).model.backbone.weight.eq(4).all()


def test_a_resumed_run_keeps_its_own_weights(tmp_path, checkpoint):
    hooks = [hook(checkpoint)]
    train(tmp_path / 'run', hooks, lr=0.1)
    resumed = train(tmp_path / 'run', hooks, lr=0.1, epochs=2, resume=True)
    whole = train(tmp_path / 'whole', hooks, lr=0.1, epochs=2)
    assert torch.equal(resumed.model.backbone.weight, whole.model.backbone.weight)


def test_a_file_that_does_not_fit_stops_the_run(tmp_path):
    torch.save({'backbone.weight': torch.zeros(2, 2)}, tmp_path / 'a.pth')
    with pytest.raises(ValueError, match='missing: bias'):
        train(tmp_path / 'run', [hook(str(tmp_path / 'a.pth'))])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='gone.pth'):
        train(tmp_path / 'run', [hook('gone.pth')])


def test_the_environment_may_name_the_file(tmp_path, checkpoint, monkeypatch):
    monkeypatch.delenv('MMBAM_CHECKPOINT', raising=False)
    with pytest.raises(ValueError, match='MMBAM_CHECKPOINT'):
        train(tmp_path / 'a', [hook(None)])
    monkeypatch.setenv('MMBAM_CHECKPOINT', checkpoint)
    model = train(tmp_path / 'b', [hook(None)]).model
    assert model.backbone.weight.eq(4).all()


def test_an_unknown_source_is_named():
    with pytest.raises(ValueError, match="source.*'ema'"):
        PretrainedBackboneHook('a.pth', source='ema')


def _train_on_a_rank(work_dir, checkpoint):
    torch.manual_seed(torch.distributed.get_rank())
    model = MMDistributedDataParallel(Toy())
    train(work_dir, [hook(checkpoint)], model=model)
    return model.module.backbone.weight.tolist()


def test_every_rank_starts_from_the_file(tmp_path, checkpoint):
    weights = run_ranks(_train_on_a_rank, 2, tmp_path / 'run', checkpoint)
    assert weights == [[[4.0, 4.0], [4.0, 4.0]]] * 2
