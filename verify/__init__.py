"""Checks: coverage of a schedule, conformance of a trace with the model, golden vectors."""
