"""The dataset gate: what is in a folder and what is wrong with it, before anything is trained. Runs in the sandbox.

It only reads. Names are read whole, files from bounded samples; every finding proposes a repair, none is carried out.
"""
