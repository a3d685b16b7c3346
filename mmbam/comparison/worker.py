"""One run, in a process of its own.

So its peak of memory is its own, and a crash does not end the comparison.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import MessageHub
from mmengine.registry import MODELS
from mmengine.runner import Runner
from torch import nn
from torch.nn.functional import normalize

from mmbam.checkpoints import use_safe_loading
from mmbam.engine.hooks import ProgressHook
from mmbam.evaluation import build_loader, cluster_scores
from mmbam.models import heat_map
from mmbam.models.backbones.anatomy import has_cls_token
from mmbam.utils.errors import InputError
from mmbam.utils.files import save_tensors, write_text
from mmbam.utils.model import frozen

from .config import run_config, steps_per_epoch
from .measure_hook import MeasureHook, memory_now
from .method import Method, load_method
from .settings import Settings

RESULT, ERROR, PLAN, LOOKS = 'result.json', 'error.json', 'plan.json', 'looks.pt'
TRIED_STEPS = 10
SHOWN, NEIGHBOURS = 8, 5


def run(method: Method, seed: int, settings: Settings, folder: Path) -> None:
    """Pre-train with one method, evaluate it and write the result into a folder.

    A run that was interrupted there continues.
    """
    epochs = settings.epochs or planned_epochs(method, seed, settings, folder)
    cfg = run_config(method, settings, seed, epochs, str(folder))
    datasets = settings.datasets()
    loaders = {
        part: build_loader(datasets[part], batch_size=256, num_workers=0)
        for part in ('train', 'test')
    }
    before = memory_now()
    runner = build_runner(cfg)
    backbone = settings.backbone_config()
    # The paper's learning rates of the probe.
    base_lr = 0.002 if has_cls_token(runner.model.backbone) else 0.3
    measure = MeasureHook(
        loaders,
        lambda model: evaluated_network(model, backbone),
        settings.evaluations,
        base_lr,
        before,
    )
    progress = ProgressHook(lines=5)
    runner.register_hook(measure)
    runner.register_hook(progress)
    try:
        runner.train()
    finally:
        progress.close()
    features = measure.features(runner.model)
    clusters = cluster_scores(*features['test'])
    most = clusters[max(clusters)]
    network = evaluated_network(runner.model, backbone)
    save_tensors(look(network, runner.model, loaders, features), folder / LOOKS)
    record = measure.record
    result = dict(
        method=method.name,
        seed=seed,
        epochs=epochs,
        history=record['history'],
        nmi=most['nmi'],
        ari=most['ari'],
        clusters=max(clusters),
        **costs(record, settings.batch_size),
    )
    write_json(folder / RESULT, result)


def planned_epochs(method: Method, seed: int, settings: Settings, folder: Path) -> int:
    """Return how many epochs fit into the minutes; a continued run keeps its number."""
    file = folder / PLAN
    if file.is_file():
        return json.loads(file.read_text())['epochs']
    cfg = run_config(method, settings, seed, 1, str(folder / 'trial'))
    runner = build_runner(cfg)
    model = runner.model.train()
    MessageHub.get_current_instance().update_info('max_iters', 1000)
    optimizer = runner.build_optim_wrapper(cfg.optim_wrapper)
    loader = runner.build_dataloader(cfg.train_dataloader)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for step, batch in enumerate(itertools.islice(batches, TRIED_STEPS)):
        if step == 2:  # the first steps are slower
            began = time.perf_counter()
        model.train_step(batch, optimizer)
    seconds = (time.perf_counter() - began) / (TRIED_STEPS - 2)
    assert settings.minutes is not None
    epoch_seconds = seconds * steps_per_epoch(settings)
    epochs = max(1, round(60 * settings.minutes / epoch_seconds))
    write_json(file, dict(epochs=epochs, step_seconds=seconds))
    return epochs


def build_runner(cfg: Config) -> Runner:
    """Build a runner, with a CNN in the memory format that is faster for it."""
    # mmengine's name has whole seconds, so that two runs could share their logs.
    cfg.experiment_name = f'compare_{time.time_ns()}'
    use_safe_loading()
    runner = Runner.from_cfg(cfg)
    if not has_cls_token(runner.model.backbone):
        runner.model.to(memory_format=torch.channels_last)
    return runner


def evaluated_network(model: nn.Module, backbone: dict) -> nn.Module:
    """Return the backbone to evaluate: the teacher's, if the model has one."""
    network = getattr(model, 'target_backbone', model.backbone)
    if type(network).__name__ == backbone['type'].split('.')[-1]:
        return network
    # The method has a backbone of its own, as MAE's, which masks images.
    plain = MODELS.build(backbone)
    plain.load_state_dict(network.state_dict())
    return plain.to(next(network.parameters()).device)


def look(network: nn.Module, model: nn.Module, loaders: dict, features: dict) -> dict:
    """Find the nearest training images of some test images, and their heat maps.

    Returns:
        dict: ``queries`` (n,), ``neighbours`` (n, k), their ``query_labels`` and
        ``neighbour_labels``, and ``heat`` (n, h, w) or None.
    """
    (train, train_labels), (test, test_labels) = features['train'], features['test']
    shown = min(SHOWN, len(test))
    queries = torch.from_numpy(np.linspace(0, len(test) - 1, shown).round().astype(int))
    similar = normalize(test[queries], dim=1) @ normalize(train, dim=1).T
    neighbours = similar.topk(min(NEIGHBOURS, len(train)), dim=1).indices
    dataset = loaders['test'].dataset
    images = torch.stack([dataset[int(i)]['inputs'] for i in queries])
    with frozen(network):
        data = model.data_preprocessor(dict(inputs=images, data_samples=None))
        try:
            heat = heat_map(network, data['inputs']).cpu()
        except InputError:  # a network without heat maps
            heat = None
    return dict(
        queries=queries,
        neighbours=neighbours,
        query_labels=test_labels[queries],
        neighbour_labels=train_labels[neighbours],
        heat=heat,
    )


def costs(record: dict, batch_size: int) -> dict:
    """Return the time and memory of a run from its record."""
    times = np.array(record['times'])
    usual = times[1:] if len(times) > 1 else times  # the first step is slower
    low, median, high = np.percentile(usual, (10, 50, 90)).tolist()
    return dict(
        steps=len(times),
        train_seconds=times.sum().item(),
        step_seconds=dict(median=median, p10=low, p90=high),
        images_per_second=batch_size * len(times) / times.sum().item(),
        wait_share=sum(record['waits']) / times.sum().item(),
        peak_memory=record['peak'],
    )


def write_json(path: Path, content: dict) -> None:
    """Write a JSON file as a whole or not at all."""
    write_text(path, json.dumps(content, indent=2))


def main() -> None:
    """Do a run; arguments are the file that describes it and the method's config."""
    warnings.filterwarnings('ignore')  # libraries warn about one another
    spec = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(spec['folder'])
    try:
        method, settings = load_method(sys.argv[2]), Settings(**spec['settings'])
        run(method, spec['seed'], settings, folder)
    except Exception as error:
        traceback.print_exc()
        message = ' '.join(str(error).split())
        write_json(folder / ERROR, dict(error=f'{type(error).__name__}: {message}'))
        sys.exit(1)
