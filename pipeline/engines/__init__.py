"""What turns token ids into hidden states: each engine yields (index, token ids, [tokens, layers, hidden])."""
