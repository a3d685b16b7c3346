_base_ = ['bam.py', '_base_/multi_crop.py']

method = dict(title='BAM, multi-crop')
