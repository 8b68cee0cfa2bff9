"""What a rehearsal needs on its host: a tiny verifier, data, simulated GPUs, faults."""
