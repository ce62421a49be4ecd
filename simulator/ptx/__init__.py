"""The PTX machine: executes the PTX text of a kernel on a CPU, with asynchronous engines as agents (docs/ptx.md)."""
