"""One run, in a process of its own.

So its peak of memory is its own, and a crash does not end the comparison.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import Dataset

from mmbam.checkpoints import use_safe_loading
from mmbam.engine.hooks import ProgressHook
from mmbam.evaluation import cluster_scores
from mmbam.evaluation.nearest import nearest
from mmbam.models import heat_map
from mmbam.models.backbones.anatomy import has_cls_token
from mmbam.utils.errors import InputError
from mmbam.utils.files import save_tensors, write_text
from mmbam.utils.logs import only_warnings
from mmbam.utils.model import frozen, takes_channels_last

from .config import run_config
from .measure_hook import MeasureHook, build_loaders, memory_now
from .method import Method, load_method
from .settings import Settings

RESULT, ERROR, LOOKS = 'result.json', 'error.json', 'looks.pt'
SHOWN, NEIGHBOURS = 8, 5


def run(
    method: Method, seed: int, settings: Settings, folder: Path, epochs: int
) -> None:
    """Pre-train with one method, evaluate it and write the result into a folder.

    A run that was interrupted there continues.
    """
    cfg = run_config(method, settings, seed, epochs, str(folder))
    loaders = build_loaders(settings)
    before = memory_now()
    runner = build_runner(cfg)
    backbone = settings.backbone_config()
    # The paper's learning rates of the probe.
    base_lr = 0.002 if has_cls_token(runner.model.backbone) else 0.3
    measure = MeasureHook(
        loaders,
        lambda model: evaluated_network(model, backbone),
        settings.evaluations,
        base_lr if settings.classes() else None,
        before,
    )
    progress = ProgressHook(lines=5)
    runner.register_hook(measure)
    runner.register_hook(progress)
    try:
        runner.train()
    finally:
        progress.close()
    features = measure.features(runner.model, 'train', 'test')
    network = evaluated_network(runner.model, backbone)
    looks = look(network, runner.model, loaders['test'].dataset, features)
    save_tensors(looks, folder / LOOKS)
    record = measure.record
    result = dict(
        method=method.name,
        seed=seed,
        epochs=epochs,
        history=record['history'],
        losses=course(record['losses']),
        **costs(record, settings.batch_size),
    )
    if settings.classes():
        clusters = cluster_scores(*features['test'])
        most = clusters[max(clusters)]
        result.update(nmi=most['nmi'], ari=most['ari'], clusters=max(clusters))
    write_json(folder / RESULT, result)


def build_runner(cfg: Config) -> Runner:
    """Build a runner, with a CNN in the memory format that is faster for it."""
    # mmengine's name has whole seconds, so that two runs could share their logs.
    cfg.experiment_name = f'compare_{time.time_ns()}'
    use_safe_loading()
    runner = Runner.from_cfg(cfg)
    backbone = runner.model.backbone
    if not has_cls_token(backbone) and takes_channels_last(backbone):
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


def look(network: nn.Module, model: nn.Module, test: Dataset, features: dict) -> dict:
    """Find the nearest training images of some test images, and their heat maps.

    Returns:
        dict: ``queries`` (n,), ``neighbours`` (n, k), whether each is of the ``same``
        label (n, k), and ``heat`` (n, h, w) or None.
    """
    (train, train_labels), (tested, test_labels) = features['train'], features['test']
    shown = min(SHOWN, len(tested))
    queries = torch.linspace(0, len(tested) - 1, shown).round().long()
    _, neighbours = nearest(tested[queries], train, NEIGHBOURS)
    images = torch.stack([test[int(i)][0] for i in queries])
    with frozen(network):
        data = model.data_preprocessor(dict(inputs=images, data_samples=None))
        try:
            heat = heat_map(network, data['inputs']).cpu()
        except InputError:  # a network without heat maps
            heat = None
    same = test_labels[queries, None] == train_labels[neighbours]
    return dict(queries=queries, neighbours=neighbours, same=same, heat=heat)


def course(losses: list[float]) -> list[float]:
    """Return the course of the loss in at most 100 means of successive steps."""
    return [
        float(part.mean()) for part in np.array_split(losses, min(100, len(losses)))
    ]


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


def error_text(error: Exception) -> str:
    """Return an error in one line."""
    return f'{type(error).__name__}: {" ".join(str(error).split())}'


@only_warnings()  # each run builds the same data sets many times
def main() -> None:
    """Do a run; arguments are the file that describes it and the method's config."""
    warnings.filterwarnings('ignore')  # libraries warn about one another
    spec = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(spec['folder'])
    try:
        method, settings = load_method(sys.argv[2]), Settings(**spec['settings'])
        run(method, spec['seed'], settings, folder, spec['epochs'])
    except Exception as error:
        traceback.print_exc()
        write_json(folder / ERROR, dict(error=error_text(error)))
        sys.exit(1)
