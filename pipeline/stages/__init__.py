"""The stages, each run as `python -m pipeline STAGE --run DIR`."""
