"""The dashboard and the screens that open over it."""
