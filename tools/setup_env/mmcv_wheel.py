"""Compile mmcv's operators into a wheel, once per machine and torch.

The registry has mmcv, and the fork of it for newer torch, as source only. pip would
compile it too, but keeps any wheel it ever made under the same name, one without
operators or for another torch included; so the wheel is kept here, under a name that
says what it was made for. Run with the Python of the environment that the wheel is for,
which has torch already.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from contextlib import redirect_stderr
from pathlib import Path

import torch

# Python's own flags, which newer setuptools replace by the variable CFLAGS, contain -g:
# debug information doubles the time per file.
CFLAGS = f'{sysconfig.get_config_var("CFLAGS")} -g0'
LITE = 'lite'
PREFIX_HEADER = 'pytorch_cpp_helper.hpp'
# Without torch the fork's setup.py packs the Python files alone, as mmcv-lite has them;
# there is no such distribution of it, and no switch.
WITHOUT_TORCH = """
import runpy, sys
sys.modules['torch'] = None
sys.argv = ['setup.py', *sys.argv[1:]]
runpy.run_path('setup.py', run_name='__main__')
"""


class BuildError(RuntimeError):
    """The wheel cannot be made; the message says why."""


def say(message: str) -> None:
    print(f'[setup] {message}', file=sys.stderr, flush=True)


def uses_cuda() -> bool:
    """Whether to compile for the GPU: there is one, and a compiler that fits torch."""
    if os.environ.get('FORCE_CUDA') == '1':
        return True
    if not torch.cuda.is_available():
        return False
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None:
        return False
    nvcc = Path(cpp_extension.CUDA_HOME) / 'bin' / 'nvcc'
    if not nvcc.exists():
        return False
    text = subprocess.run([nvcc, '--version'], capture_output=True, text=True).stdout
    release = re.search(r'release (\d+)\.', text)
    return bool(release) and release[1] == torch.version.cuda.split('.')[0]


def has_operators(wheel: Path) -> bool | None:
    """Whether the wheel contains the operator library; None if it is not whole."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if archive.testzip() is not None:
                return None
            return any(name.startswith('mmcv/_ext.') for name in names)
    except (OSError, zipfile.BadZipFile):
        return None


def job_count() -> int:
    """Compiler processes: one per core, as far as 2 GB of memory each allow."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else 2
    try:
        pages = os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    except (OSError, ValueError):
        return cores
    return max(1, min(cores, pages // 2**31))


def unpack_source(name: str, version: str, folder: Path, log) -> Path:
    """Fetch mmcv's source package and unpack it, unless that is done already."""
    source = folder / f'{name.replace("-", "_")}-{version}'
    if not source.exists():
        options = ('--no-deps', '--no-build-isolation', '--no-cache-dir')
        command = ('-m', 'pip', 'download', *options, f'--no-binary={name}')
        run_python(*command, f'{name}=={version}', log=log, cwd=folder)
        partial = folder / 'unpacking'
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(folder / f'{source.name}.tar.gz') as archive:
            archive.extractall(partial)
        os.rename(partial / source.name, source)
    return source


def run_python(*args: str, log, **kwargs) -> None:
    """Run this Python, its output in the log; say now and then how far it is."""
    process = subprocess.Popen(
        [sys.executable, *args],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        **kwargs,
    )
    start = time.monotonic()
    try:
        while process.poll() is None:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                done = re.findall(r'\[(\d+/\d+)\]', read(log))
                files = f'{done[-1]} files, ' if done else ''
                say(f'... {files}{(time.monotonic() - start) / 60:.1f} min')
    finally:
        if process.poll() is None:  # interrupted: leave no compiler behind
            process.terminate()
            process.wait()
    if process.returncode:
        tail = '\n'.join(read(log).splitlines()[-25:])
        raise BuildError(
            f'{tail}\nmmcv could not be compiled; above is the end of {log.name}.'
        )


def read(log) -> str:
    """What a log file that is being written contains so far."""
    return Path(log.name).read_text('utf-8', 'replace')


def precompile_header(source: Path, folder: Path, log) -> str:
    """Parse torch's headers once instead of in each of mmcv's files.

    Takes a fast compile to a quarter of its time. gcc uses the result only where it
    fits the flags of a file and reads the header itself otherwise, so a failure here
    costs time alone.
    """
    # Both ways in which torch versions warn where there is no GPU.
    logging.getLogger('torch.utils.cpp_extension').setLevel(logging.ERROR)
    with redirect_stderr(log):
        from torch.utils import cpp_extension

    folder.mkdir(exist_ok=True)
    header = source / 'mmcv/ops/csrc/common' / PREFIX_HEADER
    flags = [*CFLAGS.split(), '-fPIC', '-std=c++17']
    if hasattr(cpp_extension.BuildExtension, '_add_gnu_cpp_abi_flag'):  # older torch
        flags += [f'-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}']
    flags += [f'-I{path}' for path in cpp_extension.include_paths()]
    flags += [f'-I{sysconfig.get_path("include")}']
    compiler = os.environ.get('CXX', 'c++')
    output = folder / f'{PREFIX_HEADER}.gch'
    partial = folder / 'partial.gch'
    command = [compiler, *flags, '-x', 'c++-header', header, '-o', partial]
    if not output.exists() and not subprocess.call(command, stdout=log, stderr=log):
        os.replace(partial, output)
    return f'-I{folder}'


def build(name: str, version: str, folder: Path, target: str) -> Path:
    """Make the wheel in ``folder``, which keeps what an interrupted run did.

    Args:
        name (str): ``mmcv`` or ``onedl-mmcv``.
        version (str): Its version.
        folder (Path): Where to work.
        target (str): What :func:`get_target` says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    output = folder / 'wheel'
    # Not through pip, which deletes what is compiled if it does not get to the end.
    command = ('bdist_wheel', '-d', str(output))
    with open(folder / 'build.log', 'w', encoding='utf-8') as log:
        if target == LITE:
            source = unpack_source(name, version, folder, log)
            run_python('-c', WITHOUT_TORCH, *command, log=log, cwd=source)
        else:
            jobs, cpu = job_count(), target == 'cpu'
            minutes = f'about {8 / jobs:.0f}' if cpu else '30 or more'
            say(
                f'compiling {name} {version} for torch {torch.__version__} on {jobs} '
                f'cores, {"CPU" if cpu else "GPU and CPU"} operators: {minutes} '
                'minutes, once per machine'
            )
            source = unpack_source(name, version, folder, log)
            env = compiler_variables(source, folder, jobs, cpu, log)
            run_python('setup.py', *command, log=log, cwd=source, env=env)
    wanted = target != LITE
    wheels = [path for path in output.glob('*.whl') if has_operators(path) is wanted]
    if not wheels:
        what = 'has no' if wanted else 'should have no'
        raise BuildError(
            f'The mmcv wheel in {output} {what} operators; see {log.name}.'
        )
    if wanted:
        say(f'compiled in {(time.monotonic() - start) / 60:.1f} min')
    return wheels[0]


def compiler_variables(
    source: Path, folder: Path, jobs: int, cpu: bool, log
) -> dict[str, str]:
    """The environment variables that mmcv's setup.py is run with."""
    flags = f'{os.environ.get("CFLAGS", "")} {CFLAGS}'
    if cpu:
        flags += ' ' + precompile_header(source, folder / 'headers', log)
    scripts = sysconfig.get_path('scripts')
    env = dict(
        os.environ,
        MMCV_WITH_OPS='1',
        FORCE_CUDA=str(int(not cpu)),
        MAX_JOBS=os.environ.get('MAX_JOBS', str(jobs)),
        CFLAGS=flags,
        PATH=f'{scripts}{os.pathsep}{os.environ["PATH"]}',  # ninja
    )
    if cpu:  # mmcv's setup.py would ask for nvcc wherever it sees a GPU
        env['CUDA_VISIBLE_DEVICES'] = ''
    return env


def get_target(lite: bool) -> str:
    """What the wheel is for: ``lite``, ``cpu`` or ``cuda`` with its version."""
    if lite:
        return LITE
    return f'cuda{torch.version.cuda}' if uses_cuda() else 'cpu'


def get_wheel(
    name: str, version: str, cache: Path, lite: bool = False, rebuild: bool = False
) -> Path:
    """Return the kept wheel, or make it.

    Args:
        name (str): ``mmcv`` or ``onedl-mmcv``.
        version (str): Its version.
        cache (Path): Where wheels are kept.
        lite (bool): Leave the operators out, which compiles nothing. Defaults to False.
        rebuild (bool): Distrust what is kept and start from nothing. Defaults to False.
    """
    target = get_target(lite)
    python = f'cp{sys.version_info.major}{sys.version_info.minor}'
    key = f'{name}-{version}-torch{torch.__version__}-{python}-{target}'
    folder = cache / f'{key}-{platform.machine()}'
    folder.mkdir(parents=True, exist_ok=True)
    with open(cache / f'{folder.name}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two clones must not compile into one folder
        if rebuild:
            shutil.rmtree(folder)
        for wheel in folder.glob('*.whl'):
            if has_operators(wheel) is (not lite):
                say(f'using the wheel made earlier, {wheel}')
                return wheel
            wheel.unlink()
        tree = folder / 'build'
        wheel = build(name, version, tree, target)
        kept = folder / wheel.name
        os.replace(wheel, kept)
        shutil.rmtree(tree)
        return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('name', choices=('mmcv', 'onedl-mmcv'))
    parser.add_argument('version')
    parser.add_argument('cache', type=Path)
    parser.add_argument('--lite', action='store_true')
    parser.add_argument('--rebuild', action='store_true')
    args = parser.parse_args()
    if args.lite and args.name == 'mmcv':
        parser.error('--lite is for the fork: mmcv-lite is a distribution of its own')
    try:
        wheel = get_wheel(args.name, args.version, args.cache, args.lite, args.rebuild)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the set-up, which was interrupted too, says it
        return 130
    print(wheel)
    return 0


if __name__ == '__main__':
    sys.exit(main())
