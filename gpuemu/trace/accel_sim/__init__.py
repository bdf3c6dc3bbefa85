"""Traces of Accel-Sim, `.traceg`: what they consist of, their reader and their writer."""
