"""What fits, and who waits for whom: findings about an environment and its data.

What the curves of a run say is in :mod:`mmbam.engine.diagnosis`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import FUNCTIONS, MODELS, init_default_scope

from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.config import build_errors, read_config
from mmbam.utils.errors import InputError
from mmbam.utils.versions import CORE, DENSE, check, installed_versions, require_dense

OK, NOTE, PROBLEM = 'ok', 'note', 'problem'
# Share of the time spent waiting for data that is worth a change.
WAITING = 0.15
# Recipe whose views a folder of images is seen through.
FOLDER_RECIPE = 'mmbam::bam/vit-s16_folder_300e.py'
# Images and seconds to measure with, and images of a step on a CPU.
IMAGES, SECONDS, ON_CPU = 64, 10.0, 16


@dataclass
class Finding:
    """One thing that was looked at.

    Args:
        level (str): ``'ok'``, ``'note'`` (worth knowing) or ``'problem'``.
        text (str): What was found.
        help (str): What usually helps. Defaults to nothing.
    """

    level: str
    text: str
    help: str = ''


def check_versions() -> list[Finding]:
    """Look at the packages that pre-training and the downstream tasks need."""
    findings = []
    for package in (*CORE, *DENSE[1:]):
        found = installed_versions(package)
        try:
            if package in CORE:
                check(package)
            elif found:
                require_dense(package.module)
        except ImportError as error:
            findings.append(Finding(PROBLEM, str(error)))
            continue
        if found:
            name, version = next(iter(found.items()))
            findings.append(Finding(OK, f'{name} {version}'))
        else:
            text = f'{next(iter(package.ranges))} is not installed'
            findings.append(Finding(NOTE, text, 'Only dense downstream tasks need it.'))
    return findings


def check_devices() -> list[Finding]:
    """Look at the accelerators, the cores and the threads."""
    findings = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            gpu = torch.cuda.get_device_properties(index)
            text = f'GPU {index}: {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB'
            try:
                torch.ones(1, device=f'cuda:{index}').add(1).item()
                findings.append(Finding(OK, text))
            except RuntimeError as error:
                text = f'{text}, but it cannot add: {str(error).splitlines()[0]}'
                helps = 'This torch was not built for it: STACK=modern has a newer one.'
                findings.append(Finding(PROBLEM, text, helps))
    else:
        text = 'no GPU that this torch can use: everything runs on the CPU'
        findings.append(Finding(NOTE, text))
    text = f'{cores()} CPU cores, {torch.get_num_threads()} threads of torch'
    findings.append(Finding(OK, text))
    return findings


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    affinity: Callable | None = getattr(os, 'sched_getaffinity', None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def who_waits(loading: float, step: float, workers: int, images: int) -> Finding:
    """Compare the seconds to load a batch with those to learn from it."""
    rates = (
        f'{workers} workers load {images / loading:.0f} images/s, the network learns '
        f'from {images / step:.0f} images/s'
    )
    if loading <= step:
        return Finding(OK, f'{rates}: the data are never waited for')
    share = 1 - step / loading
    text = f'{rates}: the network waits for data for {share:.0%} of the time'
    if share < WAITING:
        return Finding(NOTE, text)
    return Finding(PROBLEM, text, loading_help(workers))


def loading_help(workers: int | None = None) -> str:
    """What usually makes loading faster."""
    if workers is None or workers < cores():
        first = f'train_dataloader.num_workers={cores()}, the number of cores'
    else:
        first = 'more CPU cores'
    return (
        f'{first}; images that are stored at twice the size of the largest view; '
        'fewer or smaller views.'
    )


def check_data(source: str | Path, options: dict | None = None) -> list[Finding]:
    """Measure how fast images are loaded, and how fast the network learns from them.

    Of a config, data and network are measured, with ``options`` in it; of a folder of
    images only loading, with the views of a recipe.
    """
    folder = Path(source).is_dir()
    cfg = read_config(FOLDER_RECIPE if folder else source, options)
    if 'train_dataloader' not in cfg:
        raise InputError(f'{str(source)!r} has no train_dataloader to measure.')
    loader = cfg.train_dataloader
    if folder:
        loader.dataset.data_root = str(source)
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    dataset = build_dataset(loader.dataset)
    samples, seconds = _load(dataset)
    # Workers beyond the cores only take turns.
    workers = loader.get('num_workers', 0)
    speed = max(1, min(workers, cores()))
    one = f'one core makes the views of {1 / seconds:.1f} images/s'
    found = [Finding(OK, f'{len(dataset)} images; {one}')]
    if folder:
        text = f'{cores()} cores can load {cores() / seconds:.0f} images/s'
        helps = 'With --data CONFIG, doctor also measures how many the network needs.'
        return [*found, Finding(NOTE, text, helps)]
    batch = loader.batch_size
    step = _step(cfg, samples) * batch
    return [*found, who_waits(seconds * batch / speed, step, workers, batch)]


def _load(dataset: Any) -> tuple[list, float]:
    """Samples spread over a data set, and the seconds that one takes."""
    chosen = np.linspace(0, len(dataset) - 1, min(IMAGES, len(dataset))).astype(int)
    samples = [dataset[int(chosen[0])]]  # what is slow only once
    began = time.perf_counter()
    for index in chosen:
        samples.append(dataset[int(index)])
        if time.perf_counter() - began > SECONDS:
            break
    return samples, (time.perf_counter() - began) / (len(samples) - 1)


def _step(cfg: Config, samples: list) -> float:
    """Seconds that the network takes to learn from one image."""
    device = get_device()
    number = cfg.train_dataloader.batch_size
    number = min(number, ON_CPU) if device == 'cpu' else number
    batch = (samples * -(-number // len(samples)))[:number]
    kind = cfg.train_dataloader.get('collate_fn', dict(type='pseudo_collate'))['type']
    with build_errors():
        model = MODELS.build(cfg.model).to(device).train()
        data = FUNCTIONS.get(kind)(batch)
    for turn in count():
        if turn == 1:  # what is slow only once is over
            _wait(device)
            began = time.perf_counter()
        inputs = model.data_preprocessor(data, True)
        loss, _ = model.parse_losses(model(**inputs, mode='loss'))
        loss.backward()
        _wait(device)
        if turn and (turn == 3 or time.perf_counter() - began > SECONDS):
            break
    return (time.perf_counter() - began) / (turn * number)


def _wait(device: str) -> None:
    if device == 'cuda':
        torch.cuda.synchronize()
