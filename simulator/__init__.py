"""The reference model: problems, schedules, schedulers, trace records. Imports only NumPy, never prints."""
