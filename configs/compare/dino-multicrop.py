_base_ = ['dino.py', '_base_/multi_crop.py']

method = dict(title='DINO, multi-crop')
