"""Tests of the operator API."""
