"""From the files of one input to what a network sees, and the networks that turn that into a feature map.

Exported with the packages of diagnoses and report writers: nothing of ours is imported here.
"""
