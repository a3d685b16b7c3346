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

from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.errors import InputError

from .config import labels, shared, steps_per_epoch
from .method import Method, load_methods
from .plan import plan_epochs
from .settings import Settings
from .worker import ERROR, RESULT, write_json

SETTINGS, RESULTS, PLAN = 'settings.json', 'results.json', 'plan.json'
# Two processes must not write into one folder, so a run ends with its command.
START = """
from mmbam.engine.signals import end_with_parent
end_with_parent({})
from mmbam.comparison.worker import main
main()
"""


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
        dict: ``settings``, ``shared`` (sentences), ``tested`` (number of test images),
        ``classes`` (their number, 0 without labels), ``machine``, ``methods`` (title,
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
    tested = len(build_dataset(settings.datasets()['test']))
    if tested < 2:
        raise InputError(
            f'A comparison needs at least 2 test images, but got {tested}.'
        )
    out = Path(out)
    _check_settings(out / SETTINGS, settings)
    results: dict[str, Any] = dict(
        settings=asdict(settings),
        shared=shared(settings),
        tested=tested,
        classes=settings.classes(),
        machine=machine(),
        methods={
            m.name: dict(title=m.title, source=m.source, own=m.own) for m in loaded
        },
        runs=[],
    )
    if not results['classes']:
        print(*labels(settings), flush=True)
    plan = plan_epochs(loaded, settings, out / PLAN)
    for seed in seeds:
        for method in loaded:
            folder = out / f'{method.name}_seed{seed}'
            run = dict(method=method.name, seed=seed, **plan[method.name])
            if 'error' in run:
                print(
                    f'{method.title}, seed {seed}: failed. {run["error"]}', flush=True
                )
            else:
                run = _run(method, seed, settings, folder, run['epochs'])
            results['runs'].append(run)
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


def _run(
    method: Method, seed: int, settings: Settings, folder: Path, epochs: int
) -> dict:
    name, title = method.name, f'{method.title}, seed {seed}'
    spec: dict[str, Any] = dict(
        method=name,
        seed=seed,
        epochs=epochs,
        settings=asdict(settings),
        folder=str(folder),
        config=method.config,
    )
    options = settings.options.get(name, {})
    spec['settings']['options'] = {name: options} if options else {}
    spec = json.loads(json.dumps(spec, default=str))  # tuples as they are read again
    file = folder / 'spec.json'
    if file.is_file() and json.loads(file.read_text()) != spec:
        raise InputError(
            f'{str(folder)!r} holds a run with another config or other options of '
            f'{name}, or of another version: remove it, or name another folder.'
        )
    if (folder / RESULT).is_file():
        print(f'{title}: done already', flush=True)
        return json.loads((folder / RESULT).read_text())
    print(f'{title}: training for {epochs} epochs', flush=True)
    write_json(file, spec)
    (folder / ERROR).unlink(missing_ok=True)
    log = folder / 'errors.txt'
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
    start = START.format(os.getpid())
    with log.open('w') as stream:
        code = subprocess.call(
            [sys.executable, '-c', start, str(file), str(method.path)],
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
