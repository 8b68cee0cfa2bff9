"""Reads and guards the GPU host: shipped there, standard library and pynvml only, Python 3.8."""
