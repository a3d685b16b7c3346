"""A race in which every method is tuned alike: ``python benchmarks/race.py FOLDER``.

FOLDER holds ``train`` and ``val`` (or ``test``) folders of class folders. First, each
method gets the same number of trials: the settings of AdamW and LARS in ``OPTIMIZERS``,
then with the best of them two other values of its own main setting. A trial is one
seed, trained on four fifths of the training images and judged by k-NN on the rest, so
that test images choose nothing. Then the best setting of each method runs with several
seeds on all training images. All runs of a stage get the same time, by steps that are
timed in turns; ``mmbam compare`` does the work, and running this again continues. With
``--trials 0``, methods take the settings that won the trials of docs/comparison.md.

Two processes may share the work: give each some of the methods, and start the second
when the first has timed the steps (``plan.json``), which all use. One of them with all
methods then prints the whole table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mmbam.comparison import Settings, compare  # noqa: E402
from mmbam.comparison.compare import PLAN  # noqa: E402
from mmbam.comparison.method import load_methods  # noqa: E402
from mmbam.comparison.pictures import draw_course  # noqa: E402
from mmbam.comparison.plan import plan_epochs  # noqa: E402
from mmbam.utils.errors import InputError  # noqa: E402
from mmbam.utils.files import write_text  # noqa: E402
from mmbam.utils.tables import print_table  # noqa: E402

# The last is solo-learn's LARS for CIFAR: no decay or adaptation of biases and norms.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    'AdamW 0.002': {'lr': 0.002},
    'AdamW 0.005': {'lr': 0.005},
    'LARS 0.4': {
        'type': 'mmpretrain.LARS',
        'lr': 0.4,
        'momentum': 0.9,
        'weight_decay': 1e-4,
        'eta': 0.02,
    },
}
EXCLUDED = {
    'optim_wrapper.paramwise_cfg.norm_decay_mult': 0.0,
    'optim_wrapper.paramwise_cfg.custom_keys': {
        'bn': dict(decay_mult=0.0, lars_exclude=True),
        'bias': dict(decay_mult=0.0, lars_exclude=True),
    },
}
LOSS, TEMPERATURE = 'model.head.loss.', 'model.head.temperature'
WARMER = {LOSS + 'tau': 0.2, LOSS + 'tau_b': 0.1}
NORMED = {'model.neck.norm_cfg': dict(type='BN1d')}  # the projector beside a teacher
# Two other values of the main setting of each method, beside the published one.
OWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    'bam': ({LOSS + 'tau_b': 0.03}, WARMER),
    'bam-4views': ({LOSS + 'num_target_views': 4}, WARMER),
    'bam-teacher': (NORMED, {**NORMED, LOSS + 'positive_mask': None}),
    'bam-multicrop': ({LOSS + 'tau_b': 0.03}, WARMER),
    'bam-teacher-multicrop': (NORMED, {**NORMED, LOSS + 'positive_mask': None}),
    'simclr': ({TEMPERATURE: 0.2}, {TEMPERATURE: 0.5}),
    'mocov3': ({TEMPERATURE: 0.2}, {TEMPERATURE: 0.5}),
    'byol': ({'model.base_momentum': 0.004}, {'model.base_momentum': 0.03}),
    'barlowtwins': (
        {'model.head.loss.lambd': 0.002},
        {'model.head.loss.lambd': 0.02},
    ),
    'vicreg': ({'model.head.covariance': 0.3}, {'model.head.covariance': 3.0}),
    'dino': ({LOSS + 'teacher_temp': 0.04}, {LOSS + 'teacher_temp': 0.06}),
}
# What won the trials of docs/comparison.md: an optimizer, and own settings.
WON: dict[str, tuple[str, dict[str, Any]]] = {
    'bam': ('AdamW 0.005', {}),
    'bam-4views': ('AdamW 0.005', OWN['bam-4views'][0]),
    'bam-teacher': ('AdamW 0.005', OWN['bam-teacher'][1]),
    'bam-multicrop': ('LARS 0.4', OWN['bam-multicrop'][1]),
    'bam-teacher-multicrop': ('LARS 0.4', OWN['bam-teacher-multicrop'][1]),
    'simclr': ('LARS 0.4', OWN['simclr'][0]),
    'mocov3': ('LARS 0.4', OWN['mocov3'][0]),
    'byol': ('LARS 0.4', {}),
    'barlowtwins': ('AdamW 0.002', OWN['barlowtwins'][1]),
    'vicreg': ('LARS 0.4', {}),
    'dino': ('AdamW 0.005', OWN['dino'][0]),
}


def options_of(optimizer: str, own: dict[str, Any]) -> dict[str, Any]:
    """Changes to a method's config for an optimizer and own settings."""
    changed = {
        f'optim_wrapper.optimizer.{key}': value
        for key, value in OPTIMIZERS[optimizer].items()
    }
    return {**changed, **(EXCLUDED if 'LARS' in optimizer else {}), **own}


def word_of(key: str, value: Any) -> str:
    """A setting in short, which is part of a folder's name."""
    value = value['type'] if isinstance(value, dict) else value
    return f'{key.rpartition(".")[2]} {value}'


class Race:
    """The trials and the final runs in a folder."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)

    def settings(self, data: Path, **changes: Any) -> Settings:
        args = self.args
        shared = dict(backbone=args.backbone, workers=args.workers, amp=args.amp)
        return Settings(str(data), **shared, **changes)

    def epochs(self) -> dict[str, int]:
        """Epochs of each method that fit into the minutes of a trial."""
        settings = self.settings(self.args.data / 'train', minutes=self.args.trials)
        plan = plan_epochs(load_methods([*OWN]), settings, self.out / PLAN)
        for name, found in plan.items():
            if 'error' in found:
                raise InputError(f'{name} cannot be timed: {found["error"]}')
        return {name: found['epochs'] for name, found in plan.items()}

    def trials(self, name: str) -> dict[str, Any]:
        """The best of a method's trials: label, options, k-NN of every trial."""
        found: dict[str, tuple[float, dict]] = {}

        def attempt(optimizer: str, own: dict[str, Any]) -> None:
            word = ''.join(f', {word_of(*item)}' for item in own.items())
            options = options_of(optimizer, own)
            settings = self.settings(
                self.args.data / 'train',
                epochs=self.plan[name],
                evaluations=1,
                options={name: options},
            )
            folder = self.out / 'trials' / f'{name}, {optimizer}{word}'
            (run,) = compare(settings, [name], [0], folder)['runs']
            # A run that failed, as by a loss that is not finite, is the worst.
            score = run['history'][-1]['knn'] if 'history' in run else 0.0
            found[optimizer + word] = score, options

        for optimizer in OPTIMIZERS:
            attempt(optimizer, {})
        best = max(found, key=lambda label: found[label][0])
        for own in OWN[name]:
            attempt(best, own)
        best = max(found, key=lambda label: found[label][0])
        scores = {label: score for label, (score, _) in found.items()}
        return dict(best=best, options=found[best][1], trials=scores)

    def race(self) -> None:
        names = self.args.methods
        best = {name: dict(options=options_of(*WON[name])) for name in names}
        results: dict[str, Any] = dict(trials=best, finals={})
        if self.args.trials:
            self.plan = self.epochs()
            best = results['trials'] = {name: self.trials(name) for name in names}
            print_table(
                f'Trials of {self.args.trials:g} minutes: k-NN (%) on held-out images',
                ['method', 'epochs', *map(str, range(1, len(OPTIMIZERS) + 3)), 'best'],
                [
                    [name, self.plan[name], *one['trials'].values(), one['best']]
                    for name, one in best.items()
                ],
            )
        if self.args.finals:
            self.save(results)
            results['finals'] = self.finals({k: v['options'] for k, v in best.items()})
            self.show(results['finals'])
        self.save(results)

    def finals(self, options: dict[str, dict]) -> dict[str, list[dict]]:
        """Runs of each method, with all seeds."""
        folder = self.out / 'finals'
        folder.mkdir(parents=True, exist_ok=True)
        if self.args.trials:  # which timed the steps
            shutil.copy(self.out / PLAN, folder)
        settings = self.settings(
            self.args.data, minutes=self.args.finals, keep=True, options=options
        )
        runs = compare(settings, [*options], self.args.seeds, folder)['runs']
        return {name: [r for r in runs if r['method'] == name] for name in options}

    def save(self, results: dict) -> None:
        name = f'{"-".join(self.args.methods)}.json'
        name = 'results.json' if len(self.args.methods) == len(OWN) else name
        write_text(self.out / name, json.dumps(results, indent=2))

    def show(self, finals: dict[str, list[dict]]) -> None:
        """Print and draw the final runs, the best by k-NN first."""
        ended = {
            name: [run for run in runs if 'history' in run]
            for name, runs in finals.items()
        }
        ended = {name: runs for name, runs in ended.items() if runs}
        draw_course(ended, True, self.out / 'race.png')
        rows = []
        for name, runs in ended.items():
            ends = [run['history'][-1] for run in runs]
            knn, linear = ([end[key] for end in ends] for key in ('knn', 'linear'))
            rows.append([name, runs[0]['epochs'], len(ends), knn, linear])
        rows.sort(key=lambda row: -statistics.mean(row[3]))
        print_table(
            f'Final runs of {self.args.finals:g} minutes, mean ± deviation over seeds',
            ['method', 'epochs', 'seeds', 'k-NN (%)', 'linear (%)'],
            [[*row[:3], *map(spread, row[3:])] for row in rows],
        )


def spread(values: list[float]) -> str:
    """Mean and standard deviation as text."""
    deviation = f' ± {statistics.stdev(values):.1f}' if len(values) > 1 else ''
    return f'{statistics.mean(values):.1f}{deviation}'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').split('\n\n')[0])
    parser.add_argument('data', type=Path, help='folder with train and val')
    parser.add_argument(
        '--methods',
        nargs='+',
        choices=OWN,
        default=list(OWN),
        metavar='METHOD',
        help=f'methods to race, of {", ".join(OWN)} [all]',
    )
    parser.add_argument(
        '--trials',
        type=float,
        default=2.0,
        help='minutes of each trial, 0 for none [2]',
    )
    parser.add_argument(
        '--finals', type=float, default=0.0, help='minutes of each final run [none]'
    )
    parser.add_argument(
        '--seeds',
        nargs='+',
        type=int,
        default=[0, 1, 2],
        help='seeds of the final runs [0 1 2]',
    )
    parser.add_argument(
        '--backbone', default='resnet', help='as for mmbam compare [resnet]'
    )
    parser.add_argument('--amp', action='store_true', help='train in mixed precision')
    parser.add_argument(
        '--workers', type=int, default=0, help='processes that load images [0]'
    )
    parser.add_argument(
        '--out', default='work_dirs/race', help='folder of the runs [work_dirs/race]'
    )
    args = parser.parse_args()
    if not (args.data / 'train').is_dir():
        parser.error(f'{args.data} has no folder train')
    if not args.trials and not args.finals:
        parser.error('--trials 0 needs minutes of the final runs: --finals 6')
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    try:
        Race(args).race()
    except InputError as error:
        sys.exit(f'race.py: {error}')


if __name__ == '__main__':
    main()
