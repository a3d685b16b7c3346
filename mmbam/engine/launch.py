"""From a config file and a command line to a runner.

For configs of any OpenMMLab project; ``tools/train.py`` and ``tools/test.py`` are thin
shells over this. What the user can get wrong ends in one sentence.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction
from mmengine.device import get_device
from mmengine.registry import RUNNERS
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmbam.checkpoints import read_weights, use_safe_loading
from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.model import unwrap
from mmbam.utils.versions import require_dense

from .cpu import AMP, adapt_to_cpu, init_cpu_group, set_optim_wrapper

AUTOCAST = 'mmbam.AutocastOptimWrapper'
# What each launcher tells its processes by.
VARIABLES = {
    'none': (),
    'pytorch': ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'),
    'slurm': ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_NODELIST'),
    'mpi': ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'MASTER_ADDR'),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that training and testing share.

    Args:
        parser (argparse.ArgumentParser): Where to.
    """
    parser.add_argument(
        '--work-dir', help='for logs and checkpoints [./work_dirs/<name of config>]'
    )
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help='override the config: a.b=1 c=[1,2]',
    )
    parser.add_argument('--launcher', choices=list(VARIABLES), default='none')
    # torchrun sets the variable instead; older launchers pass this.
    parser.add_argument(
        '--local_rank', '--local-rank', type=int, default=0, help=argparse.SUPPRESS
    )


def load_config(
    path: str,
    work_dir: str | None = None,
    cfg_options: dict[str, Any] | None = None,
    launcher: str = 'none',
) -> Config:
    """Read a config and put the command line's values into it.

    Args:
        path (str): The config file.
        work_dir (str, optional): Overrides the config's. Without either it is
            ``./work_dirs/<name of the config>``. Defaults to None.
        cfg_options (dict, optional): Other values to override. Defaults to None.
        launcher (str): 'none', 'pytorch', 'slurm' or 'mpi'. Defaults to 'none'.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError: The config needs a package that does not fit.
        ValueError: The launcher did not set what it should have.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f'Config file not found: {path}')
    missing = [name for name in VARIABLES[launcher] if name not in os.environ]
    if missing:
        raise ValueError(
            f'--launcher {launcher} needs the variables that {launcher} sets, of which '
            f'{", ".join(missing)} are missing: start through tools/dist_train.sh, '
            'tools/dist_test.sh or tools/slurm_train.sh.'
        )
    cfg = Config.fromfile(path)
    if cfg_options:
        cfg.merge_from_dict(cfg_options)
    scope = cfg.get('default_scope')
    if scope in ('mmdet', 'mmseg'):
        require_dense(scope)
    cfg.launcher = launcher
    cfg.work_dir = (
        work_dir or cfg.get('work_dir') or str(Path('work_dirs', Path(path).stem))
    )
    return cfg


def set_amp(cfg: Config) -> None:
    """Train in mixed precision.

    On a GPU the config's ``optim_wrapper.dtype`` ('float16' or 'bfloat16') decides the
    type of numbers, torch if there is none; without a GPU it is bfloat16.

    Args:
        cfg (Config): Changed in place.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get('type', 'OptimWrapper')
    if kind not in ('OptimWrapper', AUTOCAST, *AMP):
        raise ValueError(
            f'--amp can replace an optim_wrapper of type OptimWrapper, not of {kind}.'
        )
    if get_device() == 'cpu':
        set_optim_wrapper(wrapper, AUTOCAST)
    elif kind == 'OptimWrapper':
        wrapper.type = 'AmpOptimWrapper'
        wrapper.setdefault('loss_scale', 'dynamic')


def set_auto_scale_lr(cfg: Config) -> None:
    """Scale the learning rate linearly with the batch size of all devices.

    Args:
        cfg (Config): Changed in place.
    """
    if 'base_batch_size' not in cfg.get('auto_scale_lr', {}):
        raise ValueError(
            '--auto-scale-lr needs auto_scale_lr=dict(base_batch_size=...) in the '
            f'config, and {cfg.filename} has none.'
        )
    cfg.auto_scale_lr.enable = True


def set_resume(cfg: Config, checkpoint: str) -> None:
    """Continue a run.

    Args:
        cfg (Config): Changed in place.
        checkpoint (str): A file, or 'auto' for the latest in the work directory.
    """
    cfg.resume = True
    cfg.load_from = None if checkpoint == 'auto' else require_checkpoint(checkpoint)


def set_test(cfg: Config, checkpoint: str, out: str | None = None) -> None:
    """Test a checkpoint.

    Args:
        cfg (Config): Changed in place.
        checkpoint (str): File or address of the weights.
        out (str, optional): Pickle file for the predictions. Defaults to None.
    """
    if cfg.get('test_dataloader') is None:
        raise ValueError(f'{cfg.filename} has no test_dataloader: nothing to test.')
    cfg.load_from = require_checkpoint(checkpoint)
    if out is None:
        return
    if not out.endswith(('.pkl', '.pickle')):
        raise ValueError(f'--out must end with .pkl or .pickle, got {out}.')
    metrics = cfg.test_evaluator
    if not isinstance(metrics, (list, tuple)):
        metrics = [metrics]
    cfg.test_evaluator = [*metrics, dict(type='DumpResults', out_file_path=out)]


def set_wrapper(cfg: Config) -> None:
    """Let processes share gradients the way that takes least memory.

    Args:
        cfg (Config): Changed in place, unless it has a ``model_wrapper_cfg``.
    """
    if cfg.launcher != 'none' and not cfg.get('model_wrapper_cfg'):
        cfg.model_wrapper_cfg = dict(
            type='MMDistributedDataParallel',
            # What mmengine's runner has without a config:
            broadcast_buffers=False,
            find_unused_parameters=cfg.get('find_unused_parameters', False),
            # and gradients in memory once instead of twice.
            gradient_as_bucket_view=True,
        )


def require_checkpoint(checkpoint: str) -> str:
    """Return the checkpoint's name if it can be there.

    Args:
        checkpoint (str): A file, or an address (``https://...``), which is not tried.
    """
    if '://' not in checkpoint and not Path(checkpoint).is_file():
        raise FileNotFoundError(f'Checkpoint not found: {checkpoint}')
    return checkpoint


def build_runner(cfg: Config) -> Runner:
    """Build the runner, for CPU processes if there is no accelerator.

    From here on this process loads no file or http address that could run code.

    Args:
        cfg (Config): From :func:`load_config`.

    Raises:
        InputError: A value in the config is not allowed.
    """
    use_safe_loading()
    set_wrapper(cfg)
    changes = []
    if get_device() == 'cpu':
        changes = adapt_to_cpu(cfg)
        if cfg.launcher != 'none':
            init_cpu_group(cfg.launcher, **cfg.env_cfg.dist_cfg)
    with input_errors((ValueError, OSError)):
        runner = RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)
    for change in changes:
        runner.logger.info(change)
    return runner


def train(runner: Runner) -> None:
    """Train, after a look at what the user gave.

    Args:
        runner (Runner): From :func:`build_runner`.

    Raises:
        InputError: A data set is not there or not in order, or the checkpoint to go on
            from does not fit.
    """
    with input_errors(of=_unreadable(runner, 'train')):
        runner.train_loop  # noqa: B018 (builds the data set)
    loader = runner.train_dataloader
    if isinstance(runner.train_loop, EpochBasedTrainLoop) and len(loader) == 0:
        raise InputError(
            f'{len(loader.dataset)} training images do not fill one batch of '
            f'{loader.batch_size} in each of {runner.world_size} processes: lower '
            'train_dataloader.batch_size.'
        )
    with input_errors(of=_unreadable(runner, 'val')):
        runner.val_loop  # noqa: B018
    if runner.cfg.get('resume') and runner.cfg.get('load_from'):
        require_fit(runner, runner.cfg.load_from)
    runner.train()


def test(runner: Runner) -> None:
    """Test, after a look at what the user gave; see :func:`train`.

    Args:
        runner (Runner): From :func:`build_runner`.
    """
    with input_errors(of=_unreadable(runner, 'test')):
        runner.test_loop  # noqa: B018
    require_fit(runner, runner.cfg.load_from)
    runner.test()


def require_fit(runner: Runner, checkpoint: str) -> None:
    """Refuse a checkpoint that mmengine would load in part, with warnings.

    Args:
        runner (Runner): Whose model is to get the weights.
        checkpoint (str): A file; an address is not tried.
    """
    if '://' in checkpoint:
        return
    with input_errors():
        weights = read_weights(checkpoint)
    weights = {name.removeprefix('module.'): w for name, w in weights.items()}
    model = unwrap(runner.model)
    expected = model.state_dict()
    differences = dict(
        missing=[
            name
            for name in expected
            # A counter that old files lack and that no output depends on.
            if name not in weights and not name.endswith('num_batches_tracked')
        ],
        left_over=[name for name in weights if name not in expected],
        misshapen=[
            name
            for name, value in weights.items()
            if name in expected and value.shape != expected[name].shape
        ],
    )
    complaints = [
        f'{len(names)} {what.replace("_", " ")} ({_some(names)})'
        for what, names in differences.items()
        if names
    ]
    if complaints:
        raise InputError(
            f'The weights in {checkpoint!r} are not those of the {type(model).__name__}'
            f' in {runner.cfg.filename!r}: {", ".join(complaints)}.'
        )


def _unreadable(runner: Runner, split: str) -> str:
    loader = runner.cfg.get(f'{split}_dataloader') or {}
    root = loader.get('dataset', {}).get('data_root')
    name = dict(train='training', val='validation', test='test')[split]
    return f'The {name} data{f" in {root!r}" if root else ""} cannot be read'


def _some(names: list[str], number: int = 3) -> str:
    return ', '.join(names[:number]) + (', ...' if len(names) > number else '')
