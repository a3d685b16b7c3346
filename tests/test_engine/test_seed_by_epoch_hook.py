"""SeedByEpochHook: runs that can stop, resume and change workers."""

import pytest
import torch

from tests.helpers.blobs import Toy, build, dataset, weights, write_blobs
from tests.helpers.distributed import run_ranks

HOOKS = [dict(type='mmbam.SeedByEpochHook')]


@pytest.fixture
def blobs(tmp_path):
    write_blobs(tmp_path / 'blobs')
    return tmp_path / 'blobs'


def run(*args, **kwargs):
    runner = build(*args, **kwargs)
    runner.train()
    return runner


def test_epochs_differ(tmp_path, blobs):
    loader = dict(sampler=dict(type='DefaultSampler', shuffle=False))
    runner = run(dataset(blobs), tmp_path / 'run', HOOKS, 2, loader=loader)
    first, second = runner.model.mean_inputs[:3], runner.model.mean_inputs[3:]
    assert not set(first) & set(second)


@pytest.mark.parametrize('persistent', [False, True])
def test_any_number_of_workers_gives_the_same_run(tmp_path, blobs, persistent):
    loader = dict(num_workers=2, persistent_workers=persistent)
    alone = run(dataset(blobs), tmp_path / 'a', HOOKS, 3)
    workers = run(dataset(blobs), tmp_path / 'b', HOOKS, 3, loader=loader)
    assert workers.model.mean_inputs == alone.model.mean_inputs
    # Dropout, too: the weights have seen what the network drew.
    assert torch.equal(weights(workers), weights(alone))


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('seed', [0, None])
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, blobs, workers, seed):
    loader = dict(num_workers=workers)
    whole = run(dataset(blobs), tmp_path / 'a', HOOKS, 3, seed, loader)
    if seed is None:  # a run that drew its own seed is resumed by another that did
        run(dataset(blobs), tmp_path / 'b', HOOKS, 3, whole.seed, loader)
        (tmp_path / 'b/last_checkpoint').write_text(str(tmp_path / 'b/epoch_2.pth'))
    else:
        run(dataset(blobs), tmp_path / 'b', HOOKS, 2, seed, loader)
    torch.rand(7)  # whatever happened in between
    resumed = run(dataset(blobs), tmp_path / 'b', HOOKS, 3, seed, loader, resume=True)
    assert len(resumed.model.mean_inputs) == 3
    assert torch.equal(weights(resumed), weights(whole))


def test_without_the_hook_a_resumed_run_differs(tmp_path, blobs):
    """The tests above can fail."""
    whole = run(dataset(blobs), tmp_path / 'a', [], 3)
    run(dataset(blobs), tmp_path / 'b', [], 2)
    resumed = run(dataset(blobs), tmp_path / 'b', [], 3, resume=True)
    assert not torch.equal(weights(resumed), weights(whole))


def draws_of_a_rank(folder, *names):
    found = []
    for name in names:
        runner = run(
            dataset(folder),
            folder.parent / name,
            HOOKS,
            epochs=1,
            loader=dict(
                batch_size=1, sampler=dict(type='DefaultSampler', shuffle=False)
            ),
            randomness=dict(seed=0, diff_rank_seed=name == 'own seeds'),
        )
        model = getattr(runner.model, 'module', runner.model)
        found.append((model.mean_inputs, torch.rand(()).item()))
    return found


def test_samples_know_no_rank_but_networks_do(tmp_path, blobs):
    [(alone, _)] = draws_of_a_rank(blobs, 'alone')
    ranks = run_ranks(draws_of_a_rank, 2, blobs, 'one seed', 'own seeds')
    for (first, drawn), (second, drawn_too) in zip(*ranks):
        assert first == alone[::2] and second == alone[1::2]
        assert drawn != drawn_too


def test_concatenated_data_sets_do_not_draw_alike(tmp_path, blobs):
    both = dict(type='ConcatDataset', datasets=[dataset(blobs), dataset(blobs)])
    loader = dict(batch_size=10, sampler=dict(type='DefaultSampler', shuffle=False))
    runner = run(both, tmp_path / 'run', HOOKS, 1, loader=loader)
    first, second = runner.model.mean_inputs
    assert first != second


def test_a_sample_that_is_repeated_within_an_epoch_draws_anew(tmp_path, blobs):
    repeated = dict(type='RepeatDataset', times=2, dataset=dataset(blobs))
    loader = dict(batch_size=10, sampler=dict(type='DefaultSampler', shuffle=False))
    runner = run(repeated, tmp_path / 'run', HOOKS, 1, loader=loader)
    first, second = runner.model.mean_inputs
    assert first != second


def test_a_loop_that_starts_its_workers_early_is_refused(tmp_path, blobs):
    loop = dict(by_epoch=False, max_iters=2)
    with pytest.raises(ValueError, match="train_cfg.type='mmbam.IterLoop'"):
        run(dataset(blobs), tmp_path / 'run', HOOKS, train_cfg=loop)


def test_the_toy_model_draws(tmp_path):
    """Or the tests above would say nothing about the network."""
    model = Toy()
    view = torch.zeros(1, 3, 8, 8)
    model.train()
    assert not torch.equal(model.backbone(view + 1), model.backbone(view + 1))
