"""What is looked at before a stage starts, as a report: the same checks as the stage's own, a line each, none of them the last."""
