"""Ids and names of COCO's 80 categories, in the order of their labels."""

_NAMES = (
    'person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,'
    'fire hydrant,stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,'
    'elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,'
    'skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,'
    'surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,'
    'apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,'
    'potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,'
    'cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,'
    'teddy bear,hair drier,toothbrush'
).split(',')

# COCO's ids run to 90; these were dropped before the release.
_DROPPED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
_IDS = [i for i in range(1, 91) if i not in _DROPPED]

COCO_CATEGORIES: list[tuple[int, str]] = list(zip(_IDS, _NAMES))
