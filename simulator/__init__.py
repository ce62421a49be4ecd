"""The reference model: problems, schedules, schedulers and the trace record. Imports only NumPy, never prints."""
