_base_ = ['swav.py', '_base_/multi_crop.py']

method = dict(title='SwAV, multi-crop')
