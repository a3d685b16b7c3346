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
from typing import Any

import torch

from mmbam.utils.errors import InputError

from .config import shared, steps_per_epoch
from .method import Method, load_methods
from .settings import Settings
from .worker import ERROR, RESULT, write_json

SETTINGS, RESULTS = 'settings.json', 'results.json'
START = 'from mmbam.comparison.worker import main; main()'


def compare(
    settings: Settings,
    methods: Sequence[str | Path],
    seeds: Sequence[int] = (0,),
    out: str | Path = 'work_dirs/compare',
) -> dict:
    """Run every method with every seed under the same conditions.

    Finished runs are kept, an interrupted run continues after its last epoch, a failed
    one is tried again. A run that fails does not stop the others.

    Args:
        settings (Settings): What all runs share.
        methods (Sequence[str | Path]): Names of configs in ``configs/compare``, or
            paths of configs.
        seeds (Sequence[int]): Seeds, each for one run of every method. Defaults to
            (0,).
        out (str | Path): Folder of the comparison. Methods and seeds may be added to
            it later; other settings need another folder.

    Returns:
        dict: ``settings``, ``shared`` (sentences), ``machine``, ``methods`` (title,
        source and what is its own, under each name) and ``runs``, a list with the
        result or the ``error`` of each. Also in ``results.json``.
    """
    loaded = load_methods(methods)
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError(
            'A comparison needs different seeds of at least 0, at least one, but got '
            f'{list(seeds)}.'
        )
    settings.backbone_config()
    steps_per_epoch(settings)  # wrong data shows before the first run
    out = Path(out)
    _check_settings(out / SETTINGS, settings)
    about = {m.name: dict(title=m.title, source=m.source, own=m.own) for m in loaded}
    runs = []
    for seed in seeds:
        for method in loaded:
            runs.append(_run(method, seed, settings, out / f'{method.name}_seed{seed}'))
            results = dict(
                settings=asdict(settings),
                shared=shared(settings),
                machine=machine(),
                methods=about,
                runs=runs,
            )
            write_json(out / RESULTS, results)
    return results


def machine() -> str:
    """Describe the machine that times the runs."""
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
    # Options concern one method each: its folders are checked in _run.
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


def _run(method: Method, seed: int, settings: Settings, folder: Path) -> dict:
    name, title = method.name, f'{method.title}, seed {seed}'
    spec: dict[str, Any] = dict(
        method=name, seed=seed, settings=asdict(settings), folder=str(folder)
    )
    options = settings.options.get(name, {})
    spec['settings']['options'] = {name: options} if options else {}
    spec['config'] = method.config
    spec = json.loads(json.dumps(spec, default=str))  # tuples as they are read again
    file = folder / 'spec.json'
    # Older versions wrote no config.
    if file.is_file() and {**spec, **json.loads(file.read_text())} != spec:
        raise InputError(
            f'{str(folder)!r} holds a run with another config or other options of '
            f'{name}: remove it, or name another folder.'
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
            [sys.executable, '-c', START, str(file), str(method.path)],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)},
            stderr=stream,
        )
    if (folder / RESULT).is_file():
        return json.loads((folder / RESULT).read_text())
    error = f'The run ended with exit code {code}, see {log}.'
    if (folder / ERROR).is_file():
        error = json.loads((folder / ERROR).read_text())['error']
    print(f'{title}: failed. {error}', flush=True)
    return dict(method=name, seed=seed, error=error)
