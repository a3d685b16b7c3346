"""Agreement of k-means with the classes, against their number (paper, App. I)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mmbam.utils.errors import InputError

from .figures import save_figure

Scores = Mapping[int, Mapping[str, float]]
NAMES = {'nmi': 'Normalized mutual information', 'ari': 'Adjusted Rand index'}


def read_scores(path: str | Path) -> Scores:
    """Read the scores of a network that ``mmbam cluster --out`` wrote."""
    if not Path(path).is_file():
        raise InputError(f'There is no file {str(path)!r}.')
    keys = [key + suffix for key in NAMES for suffix in ('', '_std')]
    try:
        content = json.loads(Path(path).read_text())
        return {
            int(t): {key: float(s[key]) for key in keys} for t, s in content.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f'{str(path)!r} is not what `mmbam cluster --out` writes.'
        ) from None


def draw_clustering(scores: Mapping[str, Scores], path: str | Path) -> None:
    """Draw NMI and ARI of several networks against the number of classes t.

    ``scores`` has the result of :func:`mmbam.evaluation.cluster_scores` for each
    network. Networks may differ in t.
    """
    if not scores or not all(scores.values()):
        raise ValueError('A clustering plot needs the scores of at least one network.')
    figure = Figure(figsize=(11, 4.2), layout='constrained')
    panels = figure.subplots(1, 2)
    all_t = sorted({t for network in scores.values() for t in network})
    for axes, (key, name) in zip(panels, NAMES.items()):
        for number, (network, of_network) in enumerate(scores.items()):
            t = sorted(of_network)
            mean = [of_network[k][key] for k in t]
            spread = [of_network[k][f'{key}_std'] for k in t]
            color = f'C{number % 10}'
            low, high = np.subtract(mean, spread), np.add(mean, spread)
            axes.fill_between(t, low, high, color=color, alpha=0.15, linewidth=0)
            # The bars show the spread where there is one t and no band.
            axes.errorbar(
                t, mean, spread, fmt='o-', color=color, capsize=3, label=network
            )
        axes.set(title=name, xlabel='Number of classes t', ylabel=f'{key.upper()} (%)')
        axes.set_xscale('log', base=2)
        axes.set_xticks(all_t, all_t)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(all_t[0] / 1.2, all_t[-1] * 1.2)
        axes.grid(alpha=0.3)
    panels[0].legend()
    figure.suptitle(
        'k-means on frozen features, mean and standard deviation of the draws'
    )
    save_figure(figure, path)
