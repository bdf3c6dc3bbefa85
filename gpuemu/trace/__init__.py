"""Traces: the instructions that each warp of a launch executed, and the lane addresses of its memory instructions."""

from gpuemu.trace.model import ControlWord, Instruction, Launch, Trace, WarpTrace

__all__ = ["ControlWord", "Instruction", "Launch", "Trace", "WarpTrace"]
