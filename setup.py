"""Package mmbam.

The OpenMMLab stack comes under two sets of names (the classic packages, and the
maintained forks for newer torch), and torch itself is often chosen by hand for a GPU.
So only packages with one name are required here; ``import mmbam`` checks the others.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r"__version__ = '(.+)'", (ROOT / 'mmbam/version.py').read_text('utf-8')
)[1]
README = ROOT / 'README.md'

setup(
    name='mmbam',
    version=VERSION,
    description='Balanced self-Attention Matching (BAM) for OpenMMLab',
    long_description=README.read_text('utf-8') if README.exists() else '',
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    classifiers=[
        'License :: OSI Approved :: Apache Software License',
        'Programming Language :: Python :: 3',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
    packages=find_packages(include=['mmbam', 'mmbam.*']),
    # .mim: links to configs/, tools/ and model-index.yml, where mmengine and mim look
    # for them. A wheel holds the files.
    package_data={'mmbam': ['.mim/**/*', 'py.typed']},
    entry_points={'console_scripts': ['mmbam = mmbam.cli.main:main']},
    python_requires='>=3.9',
    install_requires=[
        'jinja2',
        'matplotlib',
        'numpy',
        # Under the name that mmengine and mmcv require; the headless build is as good.
        'opencv-python>=4',
        'packaging',
        'pillow',
        'pycocotools',
        'rich',
        'safetensors',
        'scikit-image',
        'scikit-learn',
        'scipy',
        'tifffile',
        'timm>=1.0',
    ],
    extras_require={
        # torch 2.1 to 2.4. mmcv stands in no list: its wheels are chosen by torch and
        # CUDA version, and mmcv-lite is enough for pre-training.
        'classic': ['mmengine>=0.10.4,<1', 'mmpretrain>=1.2,<1.3'],
        'dense': ['mmdet>=3.3,<3.4', 'mmsegmentation>=1.2.2,<1.3', 'ftfy', 'regex'],
        # torch 2.8 and newer.
        'onedl': ['onedl-mmengine>=0.10.8', 'onedl-mmpretrain>=1.3'],
        'onedl-dense': [
            'onedl-mmdetection>=3.5',
            'onedl-mmsegmentation>=1.4',
            'ftfy',
            'regex',
        ],
        # More kinds of images with bands: DICOM, and TIFF compressed with LZW, ZSTD ...
        'bands': ['imagecodecs', 'pydicom>=3'],
        # For `mmbam embed --out FILE.parquet`; 26 asks for numpy 2.
        'parquet': ['pyarrow<26'],
        'tests': [
            'import-linter',
            'mypy',
            'pytest',
            'pytest-xdist',
            'ruff',
            'webdataset',
        ],
        # What writes and opens ONNX; torch 2.6 and newer writes it with onnxscript.
        # onnx needs ml_dtypes, whose 0.6 asks for numpy 2.
        'export': ['onnx', 'onnxruntime', 'onnxscript', 'ml_dtypes<0.6'],
    },
)
