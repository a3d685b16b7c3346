#!/usr/bin/env bash
# Makes the environment that the Makefile's targets run in, or completes it:
#   tools/setup_env.sh core|dense|transformers classic|modern VENV PYTHON
# core holds what pre-training needs; dense adds mmdet, mmsegmentation, mmcv with its
# compiled operators and the test tools; transformers holds that library and no mmbam. A
# stamp lets the next call return at once.
set -euo pipefail
cd "$(dirname "$0")/.."
tier=$1 stack=$2 base=$4
unset PYTHONPATH PYTHONHOME
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180}

say() { echo "[setup] $*"; }
fail() { trap - EXIT; say "$*" >&2; exit 1; }
found() { compgen -G "$1" >/dev/null; }
pin() { sed -n "/^$1==/p" "${files[@]}"; }
uv() { "$venv/bin/uv" pip "$1" $quiet --python "$python" "${@:2}"; }

fingerprint() { # a checksum of what is wanted and of what is installed
    { echo "$version $PWD $tier" && cat "${files[@]}" setup.py tools/setup_env.sh &&
        cd "$site" && echo *.dist-info && { wc -c mmcv/_*.* || :; }; } 2>&1 | sha256sum
}

pip_setting() { # NAME: value from pip's environment variables or configuration files
    local section
    for section in :env: install global; do
        sed -n "s/\\\\n/ /g; s/^$section\.$1='\(.*\)'$/\1/p" <<<"$pip_config" |
            grep . && return
    done || true
}

operators_work() { # not those that were compiled for another torch
    "$python" -IW ignore - "${mmcv#*==}" <<'END' >/dev/null 2>&1
import sys, mmcv, torch
from mmcv.ops import nms
boxes = torch.tensor([[0.0, 0, 9, 9], [0, 0, 9, 8], [20, 20, 30, 30]])
kept = nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)[1].tolist()
sys.exit((mmcv.__version__, kept) != (sys.argv[1], [0, 2]))
END
}

compile_mmcv() { # FOLDER: gets the wheel once that is complete
    command -v "${CXX:-c++}" >/dev/null ||
        fail "mmcv must be compiled, but there is no ${CXX:-c++}: install gcc and g++."
    say "compiling $mmcv for ${device^^}: 3 to 5 minutes on two cores, once per machine"
    local work flags memory
    work=$(mktemp -d "$1/XXXXXX")
    flags=$("$python" -IW ignore - 2>/dev/null <<'END'
import sysconfig, torch
from torch.utils import cpp_extension
print(sysconfig.get_config_var('CFLAGS'), '-g0')  # debug information takes time
print('-fPIC -std=c++17', f'-I{sysconfig.get_path("include")}')
print(*(f'-I{path}' for path in cpp_extension.include_paths()))
if hasattr(cpp_extension.BuildExtension, '_add_gnu_cpp_abi_flag'):  # older torch
    print(f'-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}')
END
    )
    # Parsing the headers of torch takes three quarters of the time: it is done once.
    echo '#include <torch/types.h>' >"$work/torch.hpp"
    "${CXX:-c++}" ${flags//$'\n'/ } -x c++-header "$work/torch.hpp" || true
    memory=$(awk '/MemAvailable/ { print int($2 / 2 ^ 21) + 1 }' /proc/meminfo)
    export MAX_JOBS=${MAX_JOBS:-$((memory < $(nproc) ? memory : $(nproc)))}
    export MMCV_WITH_OPS=1 CFLAGS="${flags%%$'\n'*} -include $work/torch.hpp"
    [[ $device == cuda ]] || export CUDA_VISIBLE_DEVICES= # mmcv asks for nvcc otherwise
    PATH=$venv/bin:$PATH "$python" -m pip wheel -q --no-deps --no-build-isolation \
        --no-cache-dir --no-binary "${mmcv%%==*}" -w "$work" "$mmcv"
    mv "$work"/*.whl "$1" && rm -r "$work"
}

version=$("$base" -c 'import sys; print(*sys.version.split())' 2>&1) || version=missing
[[ $version == 3.11.* ]] ||
    fail "Python 3.11 is needed, $base is ${version%% *}: pass PYTHON=/path/to/it."
mkdir -p "$3" && venv=$(realpath "$3")
exec 9<"$venv"
flock -n 9 || { say "waiting for another set-up of $venv" && flock 9; }
python=$venv/bin/python site=$venv/lib/python3.11/site-packages stamp=$venv/mmbam-setup
[[ $stack == classic ]] && other=modern sign=onedl_mm || other=classic sign=mm
! found "$site/${sign}engine-*.dist-info" ||
    fail "$venv belongs to the $other stack: pass STACK=$other or another VENV."
! found "$site/mmcv/_ext*" || tier=dense # mmcv-lite would overwrite the compiled mmcv
files=(requirements/"$stack"/{build,core}.txt)
[[ $tier != dense ]] || files+=(requirements/"$stack"/{dense,test}.txt)
[[ $tier != transformers ]] || files+=(requirements/transformers.txt)
before=$(cat "$stamp" 2>/dev/null) || before=
[[ $before != "$(fingerprint)" ]] || exit 0

trap 'say "not finished; the same command continues from here" >&2' EXIT
[[ -t 2 ]] && quiet= || quiet=-q
if ! "$python" -Ic 'import pip, sys; assert sys.version_info[:2] == (3, 11)' 2>/dev/null
then
    [[ -n $before || -z $(ls -A "$venv") ]] ||
        fail "$venv is no environment of Python 3.11: remove it or pass another VENV."
    say "making $venv"
    echo installing >"$stamp"
    rm -rf "$venv/bin" && "$base" -m venv "$venv"
fi
[[ $("$venv/bin/uv" --version 2>&1) == "uv $(pin uv | cut -d= -f3)"* ]] ||
    "$python" -m pip install -q --force-reinstall "$(pin uv)"

# uv does not read pip's configuration.
pip_config=$("$python" -m pip config list)
options=(--index-strategy unsafe-best-match) # like pip
# Compiled, also where Python itself may write no bytecode; of transformers little is used.
[[ $tier == transformers ]] || options+=(--compile-bytecode)
for key in index-url extra-index-url find-links trusted-host; do
    for value in $(pip_setting $key); do
        options+=("--${key/trusted-host/allow-insecure-host}" "$value")
    done
done
[[ ! $(pip_setting no-index) =~ ^(1|true|yes|on)$ ]] || options+=(--no-index)
cert=${SSL_CERT_FILE:-$(pip_setting cert)}
[[ -z $cert ]] || export SSL_CERT_FILE=$cert

say "installing the $tier packages of the $stack stack"
# Packages of an installation that was interrupted may be incomplete.
[[ $before != installing ]] || options+=(--reinstall)
echo installing >"$stamp"
if [[ $tier == transformers ]]; then
    uv install "${options[@]}" -r "${files[2]}"
else
    [[ $tier == core ]] && later='#' || later='^(mmcv|mmcv-lite|onedl-mmcv)=='
    cat "${files[@]}" | grep -vE "$later" |
        uv install --no-deps --build-constraints "${files[0]}" "${options[@]}" -r -
    uv install --no-deps --no-build-isolation -e .
fi
echo installed >"$stamp"

if [[ $tier == dense ]]; then
    mmcv=$(pin '\(onedl-\)\?mmcv') device=cpu
    cuda=$(pin 'nvidia-cuda-runtime-cu[0-9]*' | sed 's/.*-cu\([0-9]*\)==.*/\1/')
    nvcc=$(PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH nvcc --version 2>&1) || nvcc=
    [[ ${FORCE_CUDA:-} != 1 ]] || device=cuda
    [[ $nvcc != *"release $cuda."* ]] || ! nvidia-smi &>/dev/null || device=cuda
    torch=$(basename "$site"/torch-*.dist-info .dist-info)
    # uv's and pip's own caches would mix up the wheels for different versions of torch.
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/mmbam/wheels
    cache+=/$mmcv-$torch-$device-cp311-$(uname -m)
    for attempt in kept compiled; do
        ! operators_work || break
        mkdir -p "$cache" && exec 8<"$cache" && flock 8
        [[ $attempt == kept ]] || rm -f "$cache"/*.whl
        found "$cache/*.whl" || compile_mmcv "$cache"
        exec 8<&-
        uv uninstall mmcv mmcv-lite onedl-mmcv
        uv install --no-deps --no-cache --compile-bytecode "$cache"/*.whl
    done
    operators_work || fail "The operators of $mmcv do not work, although compiled anew."
fi
fingerprint >"$stamp"
trap - EXIT
say "$venv is ready"
