"""Tests and intervals for comparisons of methods, as pure functions over arrays. One idea per file.

A block is a split of a data set (data seed), with seeds averaged inside it. ``values`` have a row per block and a
column per method, NaN where a method was not run. Differences below ``ROUNDING`` count as none.
"""
