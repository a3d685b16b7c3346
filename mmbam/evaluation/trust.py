"""How far the judge without labels can be trusted, by k-NN on labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from .judge import SCORES, correlations
from .verdict import Judged, Verdict


def measure_trust(verdict: Verdict) -> dict[str, Any]:
    """Compare a verdict with the accuracy of k-NN.

    Args:
        verdict (Verdict): Verdict on runs whose accuracy was measured. Checkpoints
            without a finite accuracy are left out.

    Returns:
        dict: ``correlations``, ``choices`` and ``collapse``, for JSON.

        - ``correlations``: Spearman's correlation of every score with the accuracy:
          for each of the ``runs``, their mean ``within`` runs, of the ``last``
          checkpoint of each run, and of ``all`` checkpoints. Each has the ``number``
          of runs or checkpoints; NaN stands for fewer than 3.
        - ``choices``: how many points the judge's choice is ``behind`` the best
          checkpoint, and the last checkpoint ``last_behind``: of each of the ``runs``,
          the ``mean`` and the ``worst`` of these, and of all runs, ``overall``, beside
          the mean of their last checkpoints.
        - ``collapse``: the accuracy of each run's ``random`` network before training,
          the runs that end below it or not finite, ``by_labels``, and those that end
          as collapsed for the judge, ``recognized``.
    """
    runs = {run: _known(verdict.of_run(run)) for run in verdict.chosen}
    runs = {run: known for run, known in runs.items() if known}
    return dict(
        correlations=_all_correlations(runs),
        choices=_choices(verdict, runs),
        collapse=_collapse(verdict),
    )


def _all_correlations(runs: dict[str, list[Judged]]) -> dict[str, Any]:
    of_runs = {run: _correlations(known) for run, known in runs.items()}
    within: dict[str, Any] = dict(
        number=sum(found['number'] > 2 for found in of_runs.values())
    )
    for name in SCORES:
        within[name] = _mean([found[name] for found in of_runs.values()])
    return dict(
        runs=of_runs,
        within=within,
        last=_correlations([known[-1] for known in runs.values()]),
        all=_correlations([one for known in runs.values() for one in known]),
    )


def _correlations(group: Sequence[Judged]) -> dict[str, Any]:
    number = len(group)
    if number < 3:
        return dict(number=number, **dict.fromkeys(SCORES, math.nan))
    signals = {one.name: one.signals for one in group}
    return dict(number=number, **correlations(signals, {o.name: o.knn for o in group}))


def _choices(verdict: Verdict, runs: dict[str, list[Judged]]) -> dict[str, Any]:
    of_runs = {
        run: _behind(known, verdict.chosen[run], [known[-1]])
        for run, known in runs.items()
    }
    result: dict[str, Any] = dict(runs=of_runs)
    for key, reduce in (('mean', _mean), ('worst', _most)):
        result[key] = {
            which: reduce([behind[which] for behind in of_runs.values()])
            for which in ('behind', 'last_behind')
        }
    everything = [one for known in runs.values() for one in known]
    ends = [known[-1] for known in runs.values()]
    result['overall'] = _behind(everything, verdict.best, ends)
    return result


def _behind(
    known: Sequence[Judged], chosen: str | None, ends: Sequence[Judged]
) -> dict[str, Any]:
    """How far the choice, and the mean of some checkpoints, are behind the best."""
    best = max(known, key=lambda one: one.knn)
    of_choice = [one.knn for one in known if one.name == chosen]
    return dict(
        best=best.name,
        best_knn=best.knn,
        chosen=chosen,
        chosen_knn=of_choice[0] if of_choice else math.nan,
        behind=best.knn - of_choice[0] if of_choice else math.nan,
        last_behind=best.knn - statistics.mean(one.knn for one in ends),
    )


def _collapse(verdict: Verdict) -> dict[str, Any]:
    ends = {run: verdict.of_run(run)[-1] for run in verdict.chosen}
    random = {run: verdict.random[run].knn for run in ends}
    return dict(
        random=random,
        # Without a finite accuracy, a run has diverged.
        by_labels=[run for run, one in ends.items() if not one.knn >= random[run]],
        recognized=[run for run, one in ends.items() if one.collapsed],
    )


def _known(group: Sequence[Judged]) -> list[Judged]:
    return [one for one in group if math.isfinite(one.knn)]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return statistics.mean(known) if known else math.nan


def _most(values: Sequence[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=math.nan)
