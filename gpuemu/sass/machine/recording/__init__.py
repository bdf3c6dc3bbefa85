"""The record of a CTA, and the events that observers of an execution receive."""
