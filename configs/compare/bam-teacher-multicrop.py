_base_ = ['bam-teacher.py', '_base_/multi_crop.py']

method = dict(title='BAM, teacher, multi-crop')
