"""The operator's side: what connects, judges and shows."""
