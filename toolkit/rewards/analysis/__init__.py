"""Rates, funnels and experiments over decisions: plain functions on DataFrames."""
