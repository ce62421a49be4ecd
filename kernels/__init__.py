"""CUDA sources, their build with NVRTC, and their launch. Only `launch` imports CuPy."""
