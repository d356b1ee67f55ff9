"""Benchmarks, run by hand: ``python -m tests.benchmarks.gateway``, ``python -m tests.benchmarks.client``.

Each starts its peers itself on loopback, interleaves A B A B, prints medians and their ratios, and stops by itself.
No test asserts a time: machines are shared and noisy.
"""
