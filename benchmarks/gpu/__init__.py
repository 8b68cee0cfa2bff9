"""Scripts that need a real GPU. Each says its questions first, and prints its answers as JSON; RESULTS.md holds what they were."""
