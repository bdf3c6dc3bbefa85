"""Lowering: a trace on an architecture becomes the program that the engine replays, settled in bulk."""
