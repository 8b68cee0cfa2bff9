"""Stages that train an EAGLE-3 drafter, and the host program that starts, watches and stops them.

This file and everything under ``pipeline.contract`` and ``pipeline.host`` run on any Python 3.8+
with nothing but the standard library: they are shipped to the GPU host as they are.
"""

__version__ = "0.1.0"
