"""What the processes of answer_runs.StageProcess have loaded before they are forked."""

import datasets
import pyarrow
import speculators.train.dataloader
import speculators.train.vocab_mapping
import torch
from transformers import AutoTokenizer

import pipeline.stages.prepare
import pipeline.stages.vocab
import pipeline.store

__all__ = ["AutoTokenizer", "datasets", "pipeline", "pyarrow", "speculators", "torch"]
