"""Gaps, outliers, rates and resampling of histories: plain functions on DataFrames, and the accessor ``df.dweets``."""
