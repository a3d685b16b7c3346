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
import time
from collections.abc import Sequence
from pathlib import Path

from mmengine.logging import MessageHub

from .config import run_config, steps_per_epoch
from .method import Method, load_method
from .settings import Settings
from .worker import build_runner, error_text, write_json

TURNS, WARM_UP, TIMED = 3, 1, 3  # turns of each method, and its steps in a turn


def plan_epochs(
    methods: Sequence[Method], settings: Settings, file: Path
) -> dict[str, dict]:
    """Return the ``epochs`` of each method, or the ``error`` that its steps raised.

    Args:
        methods (Sequence[Method]): Methods of the comparison.
        settings (Settings): Settings of the comparison.
        file (Path): File that keeps the times. Methods that are added later are timed
            in turns with one that is there, and scaled by its earlier time.
    """
    if settings.epochs:
        return {method.name: dict(epochs=settings.epochs) for method in methods}
    known = json.loads(file.read_text()) if file.is_file() else {}
    timed = {method.name: method for method in methods if method.name not in known}
    errors: dict[str, str] = {}
    if timed:
        reference = next(iter(known), None)
        if reference:
            timed[reference] = load_method(known[reference]['path'])
        seconds, errors = _time_in_turns(timed, settings, file.parent / 'trial')
        scale = 1.0
        if reference in seconds:
            scale = known[reference]['step_seconds'] / seconds[reference]
        for name, median in seconds.items():
            path = str(timed[name].path)
            known.setdefault(name, dict(path=path, step_seconds=scale * median))
        write_json(file, known)
    assert settings.minutes is not None
    epochs_per_second = 60 * settings.minutes / steps_per_epoch(settings)
    return {
        method.name: dict(error=errors[method.name])
        if method.name in errors
        else dict(
            epochs=max(1, round(epochs_per_second / known[method.name]['step_seconds']))
        )
        for method in methods
    }


def _time_in_turns(
    methods: dict[str, Method], settings: Settings, folder: Path
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the median seconds of a step, or the error, under each method's name."""
    seconds: dict[str, list[float]] = {}
    errors: dict[str, str] = {}
    for turn in range(TURNS):
        print(
            f'Timing some steps of each method, turn {turn + 1} of {TURNS}', flush=True
        )
        for name, method in methods.items():
            if name in errors:
                continue
            try:
                times = timed_steps(method, settings, folder / name)
                seconds.setdefault(name, []).extend(times)
            except Exception as error:  # it is reported, and the others run on
                errors[name] = error_text(error)
            gc.collect()  # one model at a time in memory
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {k: v for k, v in medians.items() if k not in errors}, errors


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
