"""Run methods one after the other and collect what came out."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mmbam.utils.errors import InputError

from .config import shared, steps_per_epoch
from .methods import METHODS
from .settings import Settings
from .worker import ERROR, RESULT, write_json

SETTINGS, RESULTS = 'settings.json', 'results.json'
START = 'from mmbam.comparison.worker import main; main()'


def compare(
    settings: Settings,
    methods: Sequence[str],
    seeds: Sequence[int] = (0,),
    out: str | Path = 'work_dirs/compare',
) -> dict:
    """Run every method with every seed under the same conditions.

    Runs that are done already are kept, an interrupted one goes on after its last
    epoch, one that failed is tried again. A run that fails does not stop the others.

    Args:
        settings (Settings): What all runs share.
        methods (Sequence[str]): Names from ``METHODS``.
        seeds (Sequence[int]): One run of each method for each. Defaults to (0,).
        out (str | Path): Folder for everything. Methods and seeds may be added to it
            later; other settings need another folder.

    Returns:
        dict: ``settings``, ``shared`` (in words), ``machine``, and ``runs``, a list
        with the result of each, or its ``error``. Also in ``results.json``.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown or not methods:
        raise InputError(
            f'There is no method {", ".join(map(repr, unknown)) or "to compare"}; '
            f'choose from {", ".join(METHODS)}.'
        )
    if not seeds:
        raise InputError('A comparison needs at least one seed.')
    steps_per_epoch(settings)  # what is wrong with the data shows before the first run
    settings.backbone_config()
    out = Path(out)
    _check_settings(out / SETTINGS, settings)
    runs = []
    for seed in seeds:
        for name in methods:
            runs.append(_run(name, seed, settings, out / f'{name}_seed{seed}'))
            results = dict(
                settings=asdict(settings),
                shared=shared(settings),
                machine=machine(),
                runs=runs,
            )
            write_json(out / RESULTS, results)
    return results


def machine() -> str:
    """On what the runs were timed."""
    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    else:
        device = f'{_processor()}, {os.cpu_count()} cores, no GPU'
    return f'{device}; torch {torch.__version__}, {torch.get_num_threads()} threads'


def _processor() -> str:
    try:
        text = Path('/proc/cpuinfo').read_text()
    except OSError:
        return platform.processor()
    found = re.search(r'model name\s*: (.*)', text)
    return found[1] if found else platform.machine()


def _check_settings(file: Path, settings: Settings) -> None:
    """Refuse to mix runs under different conditions in one folder."""
    # What is set for one method does not concern the runs of the others, whose folders
    # are checked one by one.
    now = {k: v for k, v in asdict(settings).items() if k != 'options'}
    if file.is_file():
        before = json.loads(file.read_text())
        different = sorted(key for key in now if before.get(key) != now[key])
        if different:
            raise InputError(
                f'{str(file.parent)!r} holds runs with other settings '
                f'({", ".join(different)}): name another folder.'
            )
    write_json(file, now)


def _run(name: str, seed: int, settings: Settings, folder: Path) -> dict:
    title = f'{METHODS[name].title}, seed {seed}'
    spec = dict(method=name, seed=seed, settings=asdict(settings), folder=str(folder))
    options = settings.options.get(name, {})
    spec['settings']['options'] = {name: options} if options else {}
    file = folder / 'spec.json'
    if file.is_file() and json.loads(file.read_text()) != json.loads(json.dumps(spec)):
        raise InputError(
            f'{str(folder)!r} holds a run with other options of {name}: remove it, or '
            'name another folder.'
        )
    if (folder / RESULT).is_file():
        print(f'{title}: done already', flush=True)
        return json.loads((folder / RESULT).read_text())
    print(f'{title}: training', flush=True)
    write_json(file, spec)
    (folder / ERROR).unlink(missing_ok=True)
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
    log = folder / 'errors.txt'
    with log.open('w') as stream:
        code = subprocess.call(
            [sys.executable, '-c', START, str(file)],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)},
            stderr=stream,
        )
    if (folder / RESULT).is_file():
        return json.loads((folder / RESULT).read_text())
    error = f'It ended with exit code {code}, see {log}.'
    if (folder / ERROR).is_file():
        error = json.loads((folder / ERROR).read_text())['error']
    print(f'{title}: failed. {error}', flush=True)
    return dict(method=name, seed=seed, error=error)
