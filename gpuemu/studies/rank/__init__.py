"""Ranking: one problem in many configurations, estimated and put in order."""
