"""Rates, funnels and experiments from decisions: plain functions on DataFrames."""
