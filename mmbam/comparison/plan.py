"""How many epochs of each method fit into the minutes, by steps timed in turns.

The methods are timed one after the other, several times over, before the first run. So
another job on the machine slows them all alike and does not decide who gets how many
epochs.
"""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmengine.logging import MessageHub

from .config import run_config, steps_per_epoch
from .method import Method, load_method
from .settings import Settings
from .worker import build_runner, error_text, write_json

TURNS, WARM_UP, TIMED = 3, 2, 6  # turns of each method, and its steps in a turn


def timed_steps(method: Method, settings: Settings, folder: Path) -> list[float]:
    """Build a method and return the seconds of a few steps, loading included."""
    cfg = run_config(method, settings, 0, 1, str(folder))
    runner = build_runner(cfg)
    model = runner.model.train()
    MessageHub.get_current_instance().update_info('max_iters', 1000)
    optimizer = runner.build_optim_wrapper(cfg.optim_wrapper)
    loader = runner.build_dataloader(cfg.train_dataloader)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    seconds, began = [], time.perf_counter()
    for batch in itertools.islice(batches, WARM_UP + TIMED):
        losses = model.train_step(batch, optimizer)
        float(losses['loss'])  # a GPU has finished the step
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
    return seconds[WARM_UP:]


def time_in_turns(
    methods: Sequence[Method],
    settings: Settings,
    folder: Path,
    known: Mapping[str, dict],
) -> dict[str, dict]:
    """Return ``step_seconds``, or the ``error``, and the ``path`` of each method.

    Args:
        methods (Sequence[Method]): Methods to time.
        settings (Settings): Settings of the comparison.
        folder (Path): Folder for the logs of the trials.
        known (Mapping[str, dict]): An earlier result, or nothing. One of its methods
            takes part again, and new times are scaled by how much slower or faster it
            is now.
    """
    known = {k: v for k, v in known.items() if 'step_seconds' in v}
    timed = {method.name: method for method in methods}
    reference = next(iter(known), None)
    if reference:
        timed.setdefault(reference, load_method(known[reference]['path']))
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    result: dict[str, dict] = {n: dict(path=str(m.path)) for n, m in timed.items()}
    for turn in range(TURNS):
        print(f'Timing a few steps of each method, {turn + 1} of {TURNS}', flush=True)
        for name, method in timed.items():
            if 'error' in result[name]:
                continue
            try:
                seconds[name] += timed_steps(method, settings, folder / name)
            except Exception as error:
                traceback.print_exc()
                result[name]['error'] = error_text(error)
            gc.collect()  # one model at a time in memory
    scale = 1.0
    if reference and seconds[reference]:
        scale = known[reference]['step_seconds'] / statistics.median(seconds[reference])
    for name, of_method in result.items():
        if 'error' not in of_method:
            of_method['step_seconds'] = scale * statistics.median(seconds[name])
    return {**result, **known}


def epochs_within(settings: Settings, step_seconds: float) -> int:
    """Return the number of epochs that comes nearest to the minutes, at least 1."""
    assert settings.minutes is not None
    epoch_seconds = step_seconds * steps_per_epoch(settings)
    return max(1, round(60 * settings.minutes / epoch_seconds))


def main() -> None:
    """Time the methods whose configs are named, and add them to the plan."""
    warnings.filterwarnings('ignore')  # libraries warn about one another
    plan = Path(sys.argv[1])
    settings = Settings(**json.loads(sys.argv[2]))
    methods = [load_method(path) for path in sys.argv[3:]]
    known = json.loads(plan.read_text()) if plan.is_file() else {}
    write_json(plan, time_in_turns(methods, settings, plan.parent / 'trial', known))
