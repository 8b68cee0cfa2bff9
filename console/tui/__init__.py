"""The screen: draws what the store knows. Nothing here but the controller touches the wire."""
