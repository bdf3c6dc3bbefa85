"""Lowering: it turns a trace on an architecture into the program that the engine replays."""
