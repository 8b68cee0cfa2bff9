"""Parts of the dashboard. Each reads the state and draws it; none asks the wire."""
