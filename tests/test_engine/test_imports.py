"""Hooks are cheap to import."""

import subprocess
import sys

# mmpretrain imports scikit-learn itself where mmdet is installed: it goes first, and
# whoever imports it afterwards fails.
CODE = """
import sys
import mmpretrain.models, mmpretrain.engine, mmpretrain.datasets
for name in [n for n in sys.modules if n.split('.')[0] == 'sklearn']:
    del sys.modules[name]
sys.modules['sklearn'] = None
import mmbam.engine.hooks
"""


def test_hooks_need_no_scikit_learn():
    command = [sys.executable, '-W', 'ignore', '-c', CODE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
