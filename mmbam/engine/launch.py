"""From a config file and a command line to a runner.

For configs of any OpenMMLab project: ``mmbam train`` and ``mmbam test`` only parse,
call this and print.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import master_only
from mmengine.hooks import LoggerHook
from mmengine.registry import RUNNERS
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmbam.checkpoints import use_safe_loading
from mmbam.checkpoints.writing import use_safe_saving
from mmbam.utils.config import build_errors, read_config
from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.process_group import require_ranks
from mmbam.utils.versions import require_dense

from .config_check import check_config, schedule_warnings
from .cpu import AMP, adapt_to_cpu, select_no_gpu, set_optim_wrapper
from .hooks.fit_hook import FitHook
from .resuming import find_checkpoint
from .signals import end_with_parent, stop_signals

AUTOCAST = 'mmbam.AutocastOptimWrapper'
# Environment variables that each launcher sets for its processes.
VARIABLES = {
    'none': (),
    'pytorch': ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'),
    'slurm': ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_NODELIST', 'SLURM_LOCALID'),
    'mpi': ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'MASTER_ADDR'),
}


def set_rank(launcher: str, local_rank: int = 0) -> None:
    """Tell mmengine which process of a machine this is; see :func:`load_config`."""
    # Without a rank, nobody started this process; load_config says what is missing.
    if launcher == 'pytorch' and 'RANK' in os.environ:
        end_with_parent()
    of_mpi = os.environ.get('OMPI_COMM_WORLD_LOCAL_RANK')
    of_slurm = os.environ.get('SLURM_LOCALID')
    known = of_slurm if launcher == 'slurm' else of_mpi
    os.environ.setdefault('LOCAL_RANK', known or str(local_rank))


def load_config(
    path: str,
    work_dir: str | None = None,
    cfg_options: dict[str, Any] | None = None,
    launcher: str = 'none',
) -> Config:
    """Read a config and put the command line's values into it.

    Args:
        path (str): The config file.
        work_dir (str, optional): Folder for logs and checkpoints. Defaults to None: the
            config's, or else ``./work_dirs/<name of the config>``.
        cfg_options (dict, optional): Other values to override. Defaults to None.
        launcher (str): 'none', 'pytorch', 'slurm' or 'mpi'. Defaults to 'none'.

    Raises:
        InputError: There is no such file, the config needs a package that is missing
            or does not fit, or the launcher did not set its variables.
    """
    missing = [name for name in VARIABLES[launcher] if name not in os.environ]
    if missing:
        raise InputError(
            f'--launcher {launcher} needs variables that {launcher} sets, but these '
            f'are missing: {", ".join(missing)}. Start with --devices N, or through '
            'tools/dist_train.sh, tools/dist_test.sh or tools/slurm_train.sh.'
        )
    if launcher == 'pytorch':
        require_ranks()
    cfg = read_config(path, cfg_options)
    with input_errors((OSError, ImportError), of=path):
        if cfg.get('default_scope') in ('mmdet', 'mmseg'):
            require_dense(cfg.default_scope)
    cfg.launcher = launcher
    cfg.work_dir = (
        work_dir or cfg.get('work_dir') or str(Path('work_dirs', Path(path).stem))
    )
    return cfg


def set_amp(cfg: Config) -> None:
    """Train in mixed precision.

    On a GPU, numbers have the type ``optim_wrapper.dtype`` of the config ('float16' or
    'bfloat16'), or torch's choice without one. Without a GPU they are bfloat16.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get('type', 'OptimWrapper')
    if kind not in ('OptimWrapper', AUTOCAST, *AMP):
        raise InputError(
            f'--amp can replace an optim_wrapper of type OptimWrapper, but got {kind}.'
        )
    if get_device() == 'cpu':
        set_optim_wrapper(wrapper, AUTOCAST)
    elif kind == 'OptimWrapper':
        wrapper.type = 'AmpOptimWrapper'
        wrapper.setdefault('loss_scale', 'dynamic')


def set_auto_scale_lr(cfg: Config) -> None:
    """Scale the learning rate linearly with the batch size of all devices."""
    if 'base_batch_size' not in cfg.get('auto_scale_lr', {}):
        raise InputError(
            '--auto-scale-lr needs auto_scale_lr=dict(base_batch_size=...) in the '
            f'config, but {cfg.filename} has none.'
        )
    cfg.auto_scale_lr.enable = True


def set_resume(cfg: Config, checkpoint: str) -> None:
    """Continue a run from a file, or 'auto', the latest in the work directory."""
    cfg.resume = True
    cfg.load_from = None if checkpoint == 'auto' else require_checkpoint(checkpoint)


def set_test(
    cfg: Config, checkpoint: str, out: str | None = None, amp: bool = False
) -> None:
    """Test the weights of a file or address; ``out`` is a pickle for predictions."""
    if cfg.get('test_dataloader') is None:
        raise InputError(f'{cfg.filename} has no test_dataloader.')
    cfg.load_from = require_checkpoint(checkpoint)
    if amp:
        cfg.test_cfg.fp16 = True  # mmengine's name for any mixed precision
    if out is None:
        return
    if not out.endswith(('.pkl', '.pickle')):
        raise InputError(f'--out must end with .pkl or .pickle, but got {out}.')
    metrics = cfg.test_evaluator
    if not isinstance(metrics, (list, tuple)):
        metrics = [metrics]
    cfg.test_evaluator = [*metrics, dict(type='DumpResults', out_file_path=out)]


def set_wrapper(cfg: Config) -> None:
    """Let processes share gradients in the way that takes least memory."""
    if cfg.launcher != 'none' and not cfg.get('model_wrapper_cfg'):
        cfg.model_wrapper_cfg = dict(
            type='MMDistributedDataParallel',
            # The defaults of mmengine's runner,
            broadcast_buffers=False,
            find_unused_parameters=cfg.get('find_unused_parameters', False),
            # and gradients in memory once instead of twice.
            gradient_as_bucket_view=True,
        )


def require_checkpoint(checkpoint: str) -> str:
    """Return the name of a checkpoint, or refuse a file that is not there."""
    if '://' not in checkpoint and not Path(checkpoint).is_file():
        raise InputError(f'Checkpoint not found: {checkpoint}')
    return checkpoint


def build_runner(cfg: Config) -> Runner:
    """Build the runner, for CPU processes if there is no accelerator.

    From here on, this process loads no file or http address that could run code. A
    value in the config that is not allowed raises InputError.
    """
    use_safe_loading()
    check_config(cfg)
    use_safe_saving()
    set_wrapper(cfg)
    on_cpu = get_device() == 'cpu'
    changes = adapt_to_cpu(cfg) if on_cpu else []
    name = cfg.filename or ''
    with input_errors((ValueError, OSError)), build_errors(name), select_no_gpu(on_cpu):
        runner = RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)
    runner.register_hook(FitHook())
    for hook in runner.hooks:
        if isinstance(hook, LoggerHook):
            # mmengine lets all ranks write the results of a test into one file.
            hook.after_test_epoch = master_only(hook.after_test_epoch)
    for change in changes:
        runner.logger.info(change)
    return runner


def train(runner: Runner) -> None:
    """Check the data and the checkpoint to resume from, then train.

    Raises:
        InputError: A data set is missing or broken, or the checkpoint does not fit.
    """
    with build_errors(), input_errors(of=_unreadable(runner, 'train')):
        runner.train_loop  # noqa: B018 (builds the data set)
    loader = runner.train_dataloader
    if isinstance(runner.train_loop, EpochBasedTrainLoop) and len(loader) == 0:
        raise InputError(
            f'{len(loader.dataset)} training images do not fill one batch of '
            f'{loader.batch_size} in each of {runner.world_size} processes: lower '
            'train_dataloader.batch_size.'
        )
    with build_errors(), input_errors(of=_unreadable(runner, 'val')):
        runner.val_loop  # noqa: B018
    with build_errors('optim_wrapper'), input_errors((ValueError,), 'optim_wrapper'):
        runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    for sentence in schedule_warnings(runner.cfg, runner.max_epochs, runner.max_iters):
        runner.logger.warning(sentence)
    if runner.cfg.get('resume'):
        find_checkpoint(runner)
    with build_errors(), stop_signals():
        runner.train()


def test(runner: Runner) -> dict[str, float]:
    """Check the data and the checkpoint, then test and return the metrics."""
    with build_errors(), input_errors(of=_unreadable(runner, 'test')):
        runner.test_loop  # noqa: B018
    return runner.test()


def _unreadable(runner: Runner, split: str) -> str:
    loader = runner.cfg.get(f'{split}_dataloader') or {}
    root = loader.get('dataset', {}).get('data_root')
    name = dict(train='training', val='validation', test='test')[split]
    return f'The {name} data{f" in {root!r}" if root else ""} cannot be read'
