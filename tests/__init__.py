"""Tests of the whole; the folder is the tier."""
