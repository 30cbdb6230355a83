"""Tests of `hermes serve`."""
